"""Settings of the guard. A launch reads them without loading the doctor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base import jsonl
from engine.run.finding import Finding
from engine.run.manifest import Settings, value_of

_SHORTEST_S = 0.5


@dataclass(frozen=True)
class GuardSettings:
    """The ``guard`` section of the config of a run."""

    stop_on: tuple[str, ...] = ()
    stop_at_once: bool = False
    notify_on: tuple[str, ...] = ("critical", "error")
    command: tuple[str, ...] = ()
    webhook_variable: str | None = None
    every_s: float = 10.0

    @classmethod
    def of(cls, config: Settings) -> GuardSettings:
        """Read the settings; values of a wrong type count as missing, as users edit configs."""
        notify_on = value_of(config, "guard.notify_on")
        name = value_of(config, "guard.webhook_variable")
        every_s = jsonl.number(value_of(config, "guard.every_s")) or cls.every_s
        return cls(
            stop_on=_words(value_of(config, "guard.stop_on")),
            stop_at_once=value_of(config, "guard.stop_at_once") is True,
            notify_on=cls.notify_on if notify_on is None else _words(notify_on),
            command=_words(value_of(config, "guard.command")),
            webhook_variable=name if isinstance(name, str) else None,
            every_s=max(_SHORTEST_S, every_s),
        )

    @property
    def is_on(self) -> bool:
        """Whether the config enables the guard."""
        return bool(self.stop_on or self.command or self.webhook_variable)


def fires(finding: Finding, chosen: Sequence[str]) -> bool:
    """Return whether a finding has one of the chosen severities, categories or IDs."""
    names = {str(finding.severity), finding.category, finding.id}
    return finding.severity.is_alert and not names.isdisjoint(chosen)


def _words(value: object) -> tuple[str, ...]:
    words = value if isinstance(value, list) else []
    return tuple(word for word in words if isinstance(word, str))
