"""What a supervisor cannot do at the moment: it says so and tries again.

Too many open files, an input/output error, a file system that is away, a defect of our own: none of
them is a reason to end a training, to call it failed, or to leave it alone. So every part of a turn
is called through ``Troubles.survive``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.base.quantities import format_time

_TOLD_AFTER_S = 1.0
"""What passes before is no news for the log."""


@dataclass(frozen=True)
class _Trouble:
    error: Exception
    since: float
    beat: float

    def phrase(self, part: str) -> str:
        reason = getattr(self.error, "strerror", None)
        return f"cannot {part}: {reason or f'{type(self.error).__name__}: {self.error}'}"


class Troubles:
    """The parts of a supervisor that fail, by what each does: ``read its output``."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        """``warn`` is told of each trouble that lasts, once."""
        self._warn = warn
        self._present: dict[str, _Trouble] = {}
        self._told: set[str] = set()

    def survive(self, part: str, function: Callable[[], object]) -> bool:
        """Call ``function``; whether it did not fail. The next turn calls it again."""
        try:
            function()
        except Exception as error:
            before, now = self._present.get(part), time.monotonic()
            trouble = _Trouble(error, time.time(), now)
            if before is not None:
                trouble = _Trouble(error, before.since, before.beat)
                phrase = trouble.phrase(part)
                if now - before.beat >= _TOLD_AFTER_S and phrase not in self._told:
                    self._told.add(phrase)
                    self._warn(phrase)
            self._present[part] = trouble
            return False
        self._present.pop(part, None)
        return True

    def error(self, part: str) -> Exception | None:
        """Why it failed last; None if it did not."""
        return self._present[part].error if part in self._present else None

    def phrase(self, part: str) -> str | None:
        """``cannot read its output: Input/output error``; None if it did not fail last."""
        return self._present[part].phrase(part) if part in self._present else None

    def lasted_s(self, part: str) -> float:
        """Seconds since it began to fail."""
        return time.monotonic() - self._present[part].beat if part in self._present else 0.0

    @property
    def complaint(self) -> str | None:
        """All of them, for the state; None if there are none."""
        phrases = [
            f"{trouble.phrase(part)}, retrying since {format_time(trouble.since)}"
            for part, trouble in self._present.items()
        ]
        return "; ".join(phrases) or None
