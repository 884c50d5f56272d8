"""verl reads training files in the shares of the config, also after a resume."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.trainer.ppo.utils import create_rl_dataset, create_rl_sampler
from verl.utils.dataset.rl_dataset import collate_fn

from engine.config.compose import verl_config
from engine.config.load import load_config


def write(path: Path, source: str, count: int) -> str:
    rows = [
        {
            "data_source": source,
            "prompt": [{"role": "user", "content": f"{source} {number}"}],
            "reward_model": {"ground_truth": "", "style": "rule"},
            "extra_info": {"index": number},
        }
        for number in range(count)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


@pytest.fixture
def config(tmp_path: Path) -> Any:
    """verl's config of 0.75 and 0.25 of two files, four prompts a step, three epochs."""
    files = write(tmp_path / "a.parquet", "a", 10), write(tmp_path / "b.parquet", "b", 6)
    config = load_config(
        "grpo_tiny",
        (
            f"data.train_files=[{','.join(files)}]",
            f"data.val_files={files[1]}",
            "data.filter_overlong_prompts=false",
            "grubrics.shares=[0.75,0.25]",
            "trainer.total_epochs=3",
        ),
        {},
    )
    return OmegaConf.create(verl_config(config, tmp_path))


def load(config: Any, files: Any) -> Any:
    dataset = create_rl_dataset(files, config.data, None, None)
    sampler = create_rl_sampler(config.data, dataset)
    return StatefulDataLoader(
        dataset, config.data.train_batch_size, sampler=sampler, collate_fn=collate_fn
    )


def names(batch: Any) -> list[tuple[str, int]]:
    indices = (info["index"] for info in batch["extra_info"])
    return list(zip(batch["data_source"], indices, strict=True))


@pytest.mark.row("A11")
def test_every_step_has_the_shares_and_epochs_are_one_pass(config: Any) -> None:
    steps = [names(batch) for batch in load(config, config.data.train_files)]

    assert len(steps) == 3 * (16 // 4) and config.trainer.total_epochs == 1
    assert all(Counter(source for source, _ in step) == {"a": 3, "b": 1} for step in steps)
    rows = Counter(row for step in steps for row in step)
    assert {rows["a", number] for number in range(10)} == {3, 4}
    assert {rows["b", number] for number in range(6)} == {2}


def test_a_resumed_run_continues_the_order(config: Any) -> None:
    loader = load(config, config.data.train_files)
    steps = iter(loader)
    for _ in range(5):
        next(steps)
    state = loader.state_dict()
    expected = [names(batch) for batch in steps]

    resumed = load(config, config.data.train_files)
    resumed.load_state_dict(state)

    assert [names(batch) for batch in resumed] == expected


def test_validation_files_are_read_as_usual(config: Any) -> None:
    dataset = create_rl_dataset(config.data.val_files, config.data, None, None, is_train=False)
    assert [dataset[number]["extra_info"]["index"] for number in range(len(dataset))] == [*range(6)]
