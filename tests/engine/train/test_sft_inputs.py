"""From an SFT config and its conversations to verl's configuration."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import UsageError
from engine.config.load import Config, load_config
from engine.config.sft_compose import plan, verl_config
from engine.data.conversations import Conversation, read_conversations
from engine.train.sft_inputs import shuffled, starting_checkpoint, write_parquet
from tests.engine.run.checkpoints.checkpoint_files import save_step, sft_files
from tests.paths import ROOT


def config(*overrides: str) -> Config:
    return load_config(str(ROOT / "configs" / "sft_tiny.yaml"), overrides, env={})


def test_epochs_times_batches_are_the_steps() -> None:
    steps = plan(config("training.num_train_epochs=3", "training.max_steps=-1"), rows=20)
    assert (steps.batch, steps.steps_per_epoch, steps.total_steps) == (8, 2, 6)


def test_max_steps_overrides_the_epochs() -> None:
    steps = plan(config("training.max_steps=5"), rows=20)
    assert (steps.total_steps, steps.epochs) == (5, 3)


def test_accumulation_and_ranks_enlarge_the_batch() -> None:
    steps = plan(config("training.gradient_accumulation_steps=2", "training.n_gpus=2"), rows=64)
    assert (steps.batch, steps.steps_per_epoch) == (32, 2)


def test_the_seed_decides_the_order_of_the_conversations() -> None:
    rows: list[Conversation] = [[{"role": "user", "content": str(row)}] for row in range(20)]
    orders = [shuffled(rows, seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert all(row in order for order in orders for row in rows)


@pytest.mark.row("V07")
def test_prompts_and_responses_in_parquet_become_the_file_that_jsonl_becomes(
    tmp_path: Path,
) -> None:
    pairs = [(f"What is {n} + 1?", str(n + 1)) for n in range(9)]
    rows = [{"prompt": prompt, "response": response} for prompt, response in pairs]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "pairs.parquet")
    lines = [
        {"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": b}]}
        for a, b in pairs
    ]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    written = [
        write_parquet(read_conversations(tmp_path / name), tmp_path / f"{name}.out").read_bytes()
        for name in ("pairs.parquet", "lines.jsonl")
    ]
    assert written[0] == written[1]


def test_fewer_rows_than_one_batch_are_refused() -> None:
    with pytest.raises(UsageError, match="only 7 rows for a batch of 8"):
        plan(config(), rows=7)


def test_a_config_maps_onto_verls_keys(tmp_path: Path) -> None:
    chosen = config(
        "lora.r=4", "lora.alpha=8", "training.learning_rate=0.5", "training.max_steps=2"
    )
    composed = verl_config(chosen, plan(chosen, 16), tmp_path / "t.parquet", None)
    assert composed["model"]["lora_rank"] == 4
    assert composed["model"]["lora_alpha"] == 8
    assert composed["optim"]["lr"] == 0.5
    assert composed["trainer"]["total_training_steps"] == 2
    assert composed["trainer"]["resume_mode"] == "disable"
    assert composed["trainer"]["logger"] == ["console", "file"]
    assert composed["data"]["micro_batch_size_per_gpu"] == 8


def attention(config: Config, tmp_path: Path) -> tuple[str | None, bool]:
    """What verl loads the model with, and whether it packs conversations."""
    model = verl_config(config, plan(config, 100), tmp_path / "t.parquet", None)["model"]
    return model["override_config"].get("attn_implementation"), model["use_remove_padding"]


@pytest.mark.skipif(find_spec("flash_attn") is not None, reason="flash-attn is installed")
def test_sft_on_a_gpu_without_flash_attention_uses_sdpa(tmp_path: Path) -> None:
    healthbench = load_config(str(ROOT / "configs" / "sft_healthbench.yaml"), (), {})
    assert attention(healthbench, tmp_path) == ("sdpa", False)


def test_sft_on_a_gpu_uses_flash_attention_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flash_attn").mkdir()
    (tmp_path / "flash_attn" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    healthbench = load_config(str(ROOT / "configs" / "sft_healthbench.yaml"), (), {})
    assert attention(healthbench, tmp_path) == (None, True)


@pytest.mark.row("A05")
def test_lora_dropout_is_refused_because_verl_would_ignore_it(tmp_path: Path) -> None:
    chosen = config("lora.r=4", "lora.dropout=0.05")
    with pytest.raises(UsageError, match=r"lora\.dropout=0\.05"):
        verl_config(chosen, plan(chosen, 16), tmp_path / "t.parquet", None)


def test_without_a_checkpoint_it_starts_from_the_model(tmp_path: Path) -> None:
    assert starting_checkpoint(config(), 4, tmp_path) is None


def test_within_an_epoch_the_checkpoint_is_taken_as_it_is(tmp_path: Path) -> None:
    path = save_step(tmp_path, 6, sft_files())
    assert starting_checkpoint(config(f"training.resume_from={path}"), 4, tmp_path / "s") == path


def test_at_the_end_of_an_epoch_it_has_no_place_in_the_data(tmp_path: Path) -> None:
    path = save_step(tmp_path, 8, sft_files(2))
    names = {file.name for file in path.iterdir()}
    chosen = config(f"training.resume_from={path}")
    for _ in range(2):
        start = starting_checkpoint(chosen, 4, tmp_path / "start")
        assert start is not None and start.name == "global_step_8"
        linked = {file.name: file.resolve() for file in start.iterdir()}
        assert linked == {name: path / name for name in names if "data" not in name}
    assert {file.name for file in path.iterdir()} == names


def test_a_half_written_checkpoint_is_refused(tmp_path: Path) -> None:
    path = save_step(tmp_path, 6, sft_files())
    (path / "data_0.pt").unlink()
    with pytest.raises(UsageError, match=r"incomplete, data_0\.pt is missing"):
        starting_checkpoint(config(f"training.resume_from={path}"), 4, tmp_path)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a global_step_<n> folder"):
        starting_checkpoint(config(f"training.resume_from={tmp_path}"), 4, tmp_path)
