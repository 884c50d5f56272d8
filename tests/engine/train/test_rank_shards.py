"""The rows that the ranks of SFT get from verl's loader, without training."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from torch.utils.data import Dataset
from verl.trainer.sft_trainer import SFTTrainer

ROWS, BATCH = 50, 12
"""Of which every epoch leaves out 2, to have whole batches on 1 to 4 ranks."""


class Numbers(Dataset[dict[str, torch.Tensor]]):
    """Rows that are their own number."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.tensor([index])}


class Rank:
    """One rank with the sampler and the loader that verl's trainer makes for it."""

    def __init__(self, rank: int, ranks: int) -> None:
        engine = SimpleNamespace(
            get_data_parallel_rank=lambda: rank, get_data_parallel_size=lambda: ranks
        )
        data = {"train_batch_size": BATCH, "num_workers": 0, "pad_mode": "no_padding"}
        self.trainer: Any = SimpleNamespace(
            config=OmegaConf.create({"data": data}),
            engine=engine,
            train_dataset=Numbers(),
            val_dataset=None,
        )
        SFTTrainer._build_dataloader(self.trainer)

    def rows(self, epoch: int, batches: int = ROWS) -> list[int]:
        """The rows of up to so many batches of an epoch."""
        self.trainer.train_sampler.set_epoch(epoch)
        read: list[int] = []
        for _, batch in zip(range(batches), self.trainer.train_dataloader, strict=False):
            read += batch["input_ids"].values().tolist()
        return read

    def resumed(self) -> Rank:
        """The rank after its process ended and loaded the position that a checkpoint has."""
        engine = self.trainer.engine
        made = Rank(engine.get_data_parallel_rank(), engine.get_data_parallel_size())
        made.trainer.train_dataloader.load_state_dict(self.trainer.train_dataloader.state_dict())
        return made


@pytest.mark.row("H07")
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("epoch", [0, 1])
def test_the_ranks_share_the_rows_of_an_epoch(ranks: int, epoch: int) -> None:
    shards = [Rank(rank, ranks).rows(epoch) for rank in range(ranks)]
    assert {len(shard) for shard in shards} == {ROWS // BATCH * BATCH // ranks}
    assert len({row for shard in shards for row in shard}) == ROWS // BATCH * BATCH


@pytest.mark.row("H07")
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_a_resume_continues_every_shard_where_it_was(ranks: int) -> None:
    for number in range(ranks):
        whole = Rank(number, ranks).rows(epoch=1)
        rank = Rank(number, ranks)
        first = rank.rows(epoch=1, batches=2)
        assert first + rank.resumed().rows(epoch=1) == whole


@pytest.mark.row("H07")
def test_epochs_have_different_orders() -> None:
    rank = Rank(0, 2)
    assert rank.rows(epoch=0) != rank.rows(epoch=1)
