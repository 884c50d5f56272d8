"""What is known of a run before its history is read: its state and its newest step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.history import metrics
from engine.history.train_log import Step, newest_step
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, observed_state

if TYPE_CHECKING:
    from engine.doctor.health import Health


@dataclass(frozen=True)
class OpeningValues:
    """The last values that the run logged. ``step`` is None before its first step."""

    state: RunState
    step: Step | None
    read_share = 1.0
    has_reward_std = True

    @classmethod
    def read(cls, run: RunDir) -> OpeningValues:
        return cls(observed_state(run), newest_step(run.train_log))

    @property
    def health(self) -> Health | None:
        """The doctor has not been asked yet."""
        return None

    def last_point(self, name: str) -> tuple[int | None, float | None]:
        """``(step, value)``; None for a metric that the newest step does not have."""
        if self.step is None or name not in self.step.metrics:
            return None, None
        return self.step.step, self.step.metrics[name]

    def last_step_time(self) -> float | None:
        return self.last_point(metrics.STEP_TIME)[1]

    def remaining(self) -> float | None:
        """Unknown: it takes the median of the step times."""
        return None
