"""The times of SFT's steps, which verl does not measure: waiting for data, update, tokens per
second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import wraps
from typing import Any

from engine.history import metrics


class StepClock:
    """Measures the current step. It begins with the wait for its rows."""

    def __init__(self) -> None:
        self._start = self._got_rows = 0.0

    def rows(self, loader: Any) -> Iterator[Any]:
        """The batches of a loader; the wait for each is measured."""
        batches = iter(loader)
        while True:
            self._start = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                return
            self._got_rows = time.perf_counter()
            yield batch

    def read(self, tokens: int, ranks: int) -> dict[str, float]:
        """The metrics of the step whose update has ended. ``tokens`` are those of all ranks."""
        now = time.perf_counter()
        step = now - self._start
        return {
            metrics.DATA_TIME: self._got_rows - self._start,
            metrics.UPDATE_TIME: now - self._got_rows,
            metrics.STEP_TIME: step,
            metrics.THROUGHPUT: tokens / step / ranks,
        }


class TimedLoader:
    """A loader whose waits a clock measures."""

    def __init__(self, loader: Any, clock: StepClock) -> None:
        self._loader = loader
        self._clock = clock

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        return self._clock.rows(self._loader)


def time_steps(trainer: Any) -> None:
    """Have verl's ``SFTTrainer`` log the times of its steps.

    Its checkpoints keep the position of the loader itself. Validation and saving come after a step
    is logged, and belong to none.
    """
    from verl.utils import tensordict_utils

    clock, client = StepClock(), trainer.training_client
    train, ranks = client.train_batch, trainer.engine.get_data_parallel_size()

    @wraps(train)
    def train_batch(data: Any) -> Any:
        tokens = sum(tensordict_utils.get(data, "global_token_num"))
        output = train(data=data)
        if output is not None:
            tensordict_utils.get(output, "metrics").update(clock.read(tokens, ranks))
        return output

    client.train_batch = train_batch
    trainer.train_dataloader = TimedLoader(trainer.train_dataloader, clock)
