"""Every signal gets its whole patience before a harder one follows."""

from __future__ import annotations

import signal

import pytest

from engine.supervise.stall import Supervision
from engine.supervise.stopping import Escalation
from tests.engine.supervise.test_stall import Clock


class Trainer:
    """Is told each signal ``late_s`` seconds after that was decided, and never ends."""

    def __init__(self, late_s: float) -> None:
        self.clock = Clock()
        self.got: list[tuple[float, str]] = []
        self._late_s = late_s
        patience = Supervision(interrupt_patience_s=15, terminate_patience_s=5)
        self._escalation = Escalation(self._take, patience, self.clock)

    def _take(self, number: signal.Signals) -> None:
        self.clock.now += self._late_s
        self.got.append((self.clock.now, number.name))

    def live_until(self, end: float) -> None:
        while self.clock.now < end:
            self._escalation.tick()
            self.clock.now += 0.25


@pytest.mark.parametrize("late_s", [0.0, 20.0])
def test_the_next_signal_is_sent_after_the_patience_of_the_previous_one(
    late_s: float,
) -> None:
    trainer = Trainer(late_s)
    trainer.live_until(100.0)
    (first, _), (second, _), (third, _) = trainer.got
    assert [name for _, name in trainer.got] == ["SIGINT", "SIGTERM", "SIGKILL"]
    assert (second - first, third - second) == (15 + late_s, 5 + late_s)
