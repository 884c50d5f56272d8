"""verl's data set with rows from several files by shares (``grubrics.shares``)."""

from __future__ import annotations

from typing import Any

import datasets
from verl.utils.dataset.rl_dataset import RLHFDataset

from engine.data.shares import MixedOrder


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
        self.order: MixedOrder | None = None
        mix = self.config.mix
        if list(self.original_data_files) == list(mix.files):
            self.order = MixedOrder([len(part) for part in parts], list(mix.shares), mix.seed)
            self.first = [sum(self.order.rows[:file]) for file in range(len(parts))]

    def __len__(self) -> int:
        if self.order is None:
            return len(self.dataframe)
        batch = int(self.config.train_batch_size)
        return len(self.dataframe) // batch * batch * int(self.config.mix.epochs)

    def __getitem__(self, position: int) -> Any:
        if self.order is not None:
            file, row = self.order[position]
            position = self.first[file] + row
        return super().__getitem__(position)
