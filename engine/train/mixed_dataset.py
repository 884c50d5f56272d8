"""verl's data set with rows from several files by shares: those of ``grubrics.shares``, or those
of the phases of ``grubrics.curriculum``."""

from __future__ import annotations

from typing import Any

import datasets
from verl.utils.dataset.rl_dataset import RLHFDataset

from engine.data.shares import MixedOrder, PhasedOrder

FILE = "mixed_file"
"""The column of a row with the number of its file, from 0."""


class MixedDataset(RLHFDataset):
    """Its length is that of all epochs: verl passes through it once and without shuffling.

    Validation files are read as usual.
    """

    data_files: list[str]
    dataframe: datasets.Dataset

    def _read_files_and_tokenize(self) -> None:
        files = list(self.data_files)
        parts = []
        try:
            for file in files:
                self.data_files = [file]
                super()._read_files_and_tokenize()
                parts.append(self.dataframe)
        finally:
            self.data_files = files
        self.dataframe = datasets.concatenate_datasets(parts)
        self.order: MixedOrder | PhasedOrder | None = None
        if list(self.original_data_files) == list(self.config.mix.files):
            self.order = self._make_order([len(part) for part in parts])
            self.first = [sum(self.order.rows[:file]) for file in range(len(parts))]

    def _make_order(self, rows: list[int]) -> MixedOrder | PhasedOrder:
        """The order of the mix. A step of a curriculum takes one batch of positions."""
        mix, batch = self.config.mix, int(self.config.train_batch_size)
        if "phases" not in mix:
            return MixedOrder(rows, list(mix.shares), mix.seed)
        phases = [(int(steps) * batch, list(shares)) for steps, shares in mix.phases]
        return PhasedOrder(rows, phases, mix.seed)

    def __len__(self) -> int:
        if self.order is None:
            return len(self.dataframe)
        batch = int(self.config.train_batch_size)
        return len(self.dataframe) // batch * batch * int(self.config.mix.epochs)

    def __getitem__(self, position: int) -> Any:
        if self.order is None:
            return super().__getitem__(position)
        file, row = self.order[position]
        return {**super().__getitem__(self.first[file] + row), FILE: file}
