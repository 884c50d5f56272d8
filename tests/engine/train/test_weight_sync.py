"""Engine and trainer side by side: what a sync that never arrives looks like to the doctor."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from engine.doctor.metrics import RuleContext, metric_findings
from tests.engine.doctor.metrics.curves import columns
from tests.engine.train.test_hf_server import STEP, make_server, rollouts_of

__all__ = ["make_server"]

CONFIG = {
    "actor_rollout_ref.rollout.dtype": "float32",
    "actor_rollout_ref.rollout.top_p": 1.0,
    "actor_rollout_ref.rollout.top_k": -1,
    "trainer.v1.trainer_mode": "sync",
}
RANK = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "init_lora_weights": True}


def train_a_step(trainer: Any) -> None:
    """As large as the updates of a small learning rate."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in trainer.parameters():
            if parameter.requires_grad:
                parameter += 5e-3 * torch.randn_like(parameter)


def difference(trainer: Any, server: Any, step: int) -> float:
    """verl's ``training/rollout_probs_diff_mean`` of one step's rollouts."""
    result = []
    for prompt, tokens, log_probs in rollouts_of(server, STEP, step):
        row = torch.tensor([[*prompt, *tokens]])
        with torch.no_grad():
            every = torch.log_softmax(trainer(row).logits[0, len(prompt) - 1 : -1], -1)
        chosen = every.gather(1, torch.tensor(tokens)[:, None])[:, 0]
        result.append((chosen.exp() - torch.tensor(log_probs).exp()).abs())
    return float(torch.cat(result).mean())


@pytest.mark.parametrize("lora", [False, True], ids=["full", "adapter"])
@pytest.mark.parametrize("delivered", [True, False], ids=["synced", "ignored"])
def test_an_ignored_weight_sync_is_detected_within_two_steps(
    make_server: Any, lora: bool, delivered: bool
) -> None:
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

    server = make_server()
    trainer = copy.deepcopy(server.model)
    if lora:
        trainer = get_peft_model(trainer, LoraConfig(**RANK)).eval()
    differences = [difference(trainer, server, 1)]
    train_a_step(trainer)
    if delivered and lora:
        state = get_peft_model_state_dict(trainer)
        asyncio.run(server.load_adapter(state, {"peft_type": "LORA", **RANK}, 2))
    elif delivered:
        asyncio.run(server.load_weights(trainer.state_dict(), 2))
    server.batcher = None
    differences.append(difference(trainer, server, 2))
    curves = columns({"training/rollout_probs_diff_mean": differences})
    ids = [finding.id for finding in metric_findings(curves, RuleContext(CONFIG))]
    assert ids == ([] if delivered else ["training_setup_error.weights_not_synced"]), differences


def test_verl_finds_the_adapters_of_a_model_that_fsdp_1_wraps(
    make_server: Any, tmp_path: Path
) -> None:
    """The default of verl on GPUs. PEFT 0.21 finds none there, and nothing would be trained on."""
    from peft import LoraConfig, get_peft_model
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from verl.utils.fsdp_utils import collect_lora_params, get_fsdp_wrap_policy

    model = get_peft_model(make_server().model, LoraConfig(**RANK))
    adapted = sum("lora_" in name for name, _ in model.named_parameters())
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        wrapped = FullyShardedDataParallel(
            model,
            auto_wrap_policy=get_fsdp_wrap_policy(model, None, is_lora=True),
            sharding_strategy=ShardingStrategy.NO_SHARD,
            device_id=torch.device("cpu"),
        )
        found = collect_lora_params(wrapped, layered_summon=False, base_sync_done=True)
    finally:
        dist.destroy_process_group()
    assert len(found) == adapted > 0


def test_an_adapter_without_weights_is_refused(make_server: Any) -> None:
    with pytest.raises(RuntimeError, match="no LoRA adapter to load"):
        asyncio.run(make_server().load_adapter({}, {"peft_type": "LORA", **RANK}, 2))
