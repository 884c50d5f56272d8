"""How far apart are engine and trainer, in sync and not? What the canary's limits are chosen from.

    python benchmarks/canary.py [--models 32x2,64x3,128x4] [--seeds 2] [--steps 16] [--dtype TYPE]

Small language models learn a Markov chain, then train by policy gradient on groups of rollouts, the
trainer in float32. The engine is a copy in ``--dtype`` that gets the weights after every update
(``synced``), one update late (``stale``), or never (``never``). Printed per configuration: verl's
``training/rollout_probs_diff_mean`` of the first step, and the largest growth over it that lasted
for one, two, three and five consecutive steps; then the distribution over all configurations, and
the step at which the doctor's canary names each.
"""

from __future__ import annotations

import argparse
import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.base import jsonl
from engine.doctor.metrics import RuleContext, metric_findings
from engine.doctor.metrics.rules.weight_sync import DIFFERENCE
from engine.run.history.columns import Columns
from engine.run.history.train_log import Step
from engine.train.generation import Generated, Request, Sampling, generate

VOCABULARY = 256
PROMPTS, ROLLOUTS, PROMPT_TOKENS, RESPONSE_TOKENS = 4, 8, 6, 24
PRETRAINING_STEPS, SUCCESSORS = 150, 4
MODES = ("synced", "stale", "never")
LASTING = (1, 2, 3, 5)
RATES = (5e-5, 5e-4)


@dataclass(frozen=True)
class Setting:
    size: str
    lora: bool
    rate: float
    seed: int
    dtype: str


def make_model(size: str, seed: int) -> Any:
    """A Qwen2 of ``<hidden>x<layers>`` that has learned the chain."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    hidden, layers = (int(part) for part in size.split("x"))
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=hidden, intermediate_size=2 * hidden,
        num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=128, tie_word_embeddings=True,
    )  # fmt: skip
    model: Any = Qwen2ForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    chain = torch.randint(VOCABULARY, (VOCABULARY, SUCCESSORS))
    for _ in range(PRETRAINING_STEPS):
        rows = walk(chain, 16)
        model(rows, labels=rows).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def walk(chain: torch.Tensor, rows: int) -> torch.Tensor:
    """Random walks, ``[rows, prompt + response]``; earlier successors are likelier."""
    tokens = [torch.randint(VOCABULARY, (rows,))]
    likely = torch.tensor([0.5, 0.25, 0.15, 0.1])
    while len(tokens) < PROMPT_TOKENS + RESPONSE_TOKENS:
        tokens.append(chain[tokens[-1], torch.multinomial(likely, rows, replacement=True)])
    return torch.stack(tokens, dim=1)


def differences(start: Any, setting: Setting, mode: str, steps: int) -> list[float]:
    """verl's mean difference of each step of a training whose engine is synced as ``mode`` says."""
    trainer = copy.deepcopy(start)
    if setting.lora:
        from peft import LoraConfig, get_peft_model

        torch.manual_seed(setting.seed)
        adapters = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")
        trainer = get_peft_model(trainer, adapters).eval()
    trained = [weights for weights in trainer.parameters() if weights.requires_grad]
    # Adapters take, and need, larger steps.
    rate = setting.rate * (5 if setting.lora else 1)
    optimizer = torch.optim.AdamW(trained, lr=rate)
    engine, late = _engine(trainer, setting), _engine(trainer, setting)
    means = []
    for step in range(steps):
        requests = _requests(setting.seed, step)
        rollouts = generate(engine, requests, [VOCABULARY], 0)
        log_probs = _log_probs(trainer, requests, rollouts)
        means.append(_difference(log_probs, rollouts))
        (-(_advantages(rollouts)[:, None] * log_probs).mean()).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        newest = _engine(trainer, setting)
        engine = {"synced": newest, "stale": late, "never": engine}[mode]
        late = newest
    return means


def _engine(trainer: Any, setting: Setting) -> Any:
    return copy.deepcopy(trainer).to(getattr(torch, setting.dtype))


def _requests(seed: int, step: int) -> list[Request]:
    random = np.random.default_rng([seed, step])
    prompts = random.integers(VOCABULARY, size=(PROMPTS, PROMPT_TOKENS)).tolist()
    seeds = random.integers(2**31, size=(PROMPTS, ROLLOUTS)).tolist()
    return [
        Request(prompt, RESPONSE_TOKENS, Sampling(), number)
        for prompt, numbers in zip(prompts, seeds, strict=True)
        for number in numbers
    ]


def _log_probs(
    trainer: Any, requests: Sequence[Request], rollouts: Sequence[Generated]
) -> torch.Tensor:
    """The trainer's, ``[rollouts, response]``."""
    pairs = zip(requests, rollouts, strict=True)
    rows = torch.tensor([[*request.prompt, *rollout.tokens] for request, rollout in pairs])
    logits = trainer(rows).logits[:, PROMPT_TOKENS - 1 : -1].float()
    chosen = rows[:, PROMPT_TOKENS:, None]
    return logits.log_softmax(-1).gather(-1, chosen)[..., 0]


def _difference(log_probs: torch.Tensor, rollouts: Sequence[Generated]) -> float:
    engine = torch.tensor([rollout.log_probs for rollout in rollouts])
    return float((log_probs.detach().exp() - engine.exp()).abs().mean())


def _advantages(rollouts: Sequence[Generated]) -> torch.Tensor:
    """GRPO's, of a reward for tokens of the lower half."""
    share = torch.tensor(
        [[float(t < VOCABULARY // 2) for t in rollout.tokens] for rollout in rollouts]
    )
    groups = share.mean(-1).view(PROMPTS, ROLLOUTS)
    deviation = groups.std(-1, keepdim=True) + 1e-6
    return ((groups - groups.mean(-1, keepdim=True)) / deviation).flatten()


def lasting_growth(values: Sequence[float], steps: int) -> float:
    """The largest factor over the first value that was held for so many consecutive steps."""
    later = np.array(values[1:]) / values[0]
    return float(np.lib.stride_tricks.sliding_window_view(later, steps).min(-1).max())


def named_at(values: Sequence[float], dtype: str) -> int | None:
    """The number of steps after which the canary first names the run."""
    config = {
        "actor_rollout_ref.rollout.dtype": dtype,
        "actor_rollout_ref.rollout.top_p": 1.0,
        "actor_rollout_ref.rollout.top_k": -1,
        "trainer.v1.trainer_mode": "sync",
    }
    columns = Columns()
    for number, value in enumerate(values, 1):
        columns.add(Step(number, 1, float(number), {DIFFERENCE: value}))
        findings = metric_findings(columns, RuleContext(config))
        if any(finding.id.endswith("weights_not_synced") for finding in findings):
            return number
    return None


def settings(sizes: Sequence[str], seeds: int, dtype: str) -> Iterator[Setting]:
    for seed, size, lora, rate in itertools.product(range(seeds), sizes, (False, True), RATES):
        yield Setting(size, lora, rate, seed, dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="32x2,64x3,128x4")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--series", type=Path, help="write every step's difference here, as JSONL")
    given = parser.parse_args()
    torch.set_num_threads(1)
    models: dict[tuple[str, int], Any] = {}
    growth: dict[str, list[list[float]]] = {mode: [] for mode in MODES}
    first: list[float] = []
    named: dict[str, list[int | None]] = {mode: [] for mode in MODES}
    held = " | ".join(f"for {steps}" for steps in LASTING)
    print(f"| model | weights | rate | seed | engine | first | last | {held} | named at |")
    print("|" + "---|" * (8 + len(LASTING)))
    for setting in settings(given.models.split(","), given.seeds, given.dtype):
        key = (setting.size, setting.seed)
        if key not in models:
            models[key] = make_model(*key)
        for mode in MODES:
            values = differences(models[key], setting, mode, given.steps)
            if given.series:
                jsonl.append(given.series, {**asdict(setting), "mode": mode, "values": values})
            factors = [lasting_growth(values, steps) for steps in LASTING]
            growth[mode].append(factors)
            named[mode].append(named_at(values, setting.dtype))
            first.append(values[0])
            cells = (
                setting.size, "LoRA" if setting.lora else "all", f"{setting.rate:g}", setting.seed,
                mode, f"{values[0]:.2g}", f"{values[-1]:.2g}",
                *(f"{factor:.2g}" for factor in factors),
                "-" if named[mode][-1] is None else named[mode][-1],
            )  # fmt: skip
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    print(f"\nfirst step: {min(first):.2g} to {max(first):.2g}")
    print(f"\n| growth held | runs | {held} | named |\n|" + "---|" * (3 + len(LASTING)))
    for mode in MODES:
        table = np.array(growth[mode])
        cells = [
            f"{low:.2g} / {middle:.2g} / {high:.2g}"
            for low, middle, high in zip(
                table.min(0), np.median(table, 0), table.max(0), strict=True
            )
        ]
        count = sum(step is not None for step in named[mode])
        print(f"| {mode} (least / median / most) | {len(table)} | {' | '.join(cells)} | {count} |")


if __name__ == "__main__":
    main()
