"""Numbers of training steps that a console prints: verl's lines, dicts of HF's Trainer and TRL,
and GRubrics' ``STEP_TIMING`` lines where the log has no others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.doctor.text.steps import HfSteps, VerlSteps
    from engine.formats.step_timing import StepTiming
    from engine.history.batch import Batch
    from engine.history.columns import Columns

_TIMING = b"STEP_TIMING"
_VERL = re.compile(rb"step:\d")


class ConsoleSeries:
    """The steps of a console, block by block; every block ends with a line's end."""

    def __init__(self) -> None:
        self._verl: VerlSteps | None = None
        self._hf: HfSteps | None = None
        self._columns: Columns | None = None
        self._timing: StepTiming | None = None
        self._timed: Columns | None = None

    @property
    def total_steps(self) -> int | None:
        totals = (steps.total_steps for steps in (self._verl, self._hf) if steps)
        return next((total for total in totals if total), None)

    def columns(self) -> Columns | None:
        """Every metric until now, thinned where it is very long; None where no step was printed."""
        return self._columns or self._timed

    def read(self, block: bytes) -> None:
        # numpy: a log without numbers is read without it.
        if self._verl is None and b"step:" in block and _VERL.search(block):
            from engine.doctor.text.steps import VerlSteps

            self._verl = VerlSteps()
        if self._hf is None and b"{'" in block:
            from engine.doctor.text.steps import HfSteps

            self._hf = HfSteps()
        for steps in (self._verl, self._hf):
            if steps is not None:
                self._take(steps.read(block))
        # verl's steps have the numbers of the lines between them; those count for every worker.
        if self._verl is None and _TIMING in block:
            self._read_timing(block)

    def _read_timing(self, block: bytes) -> None:
        from engine.formats.step_timing import StepTiming
        from engine.history.batch import Batch
        from engine.history.columns import Columns

        self._timing = self._timing or StepTiming()
        if steps := self._timing.feed(block.splitlines()):
            self._timed = self._timed or Columns()
            self._timed.merge(Batch.from_steps(steps))

    def _take(self, batches: Iterable[Batch]) -> None:
        from engine.history.columns import Columns

        for batch in batches:
            self._columns = self._columns or Columns()
            self._columns.merge(batch)
            self._columns.thin()
