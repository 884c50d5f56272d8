"""Data types: a finding with its evidence, cause and fixes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from engine.base.masking import mask_text


class Severity(StrEnum):
    """The severity; findings are listed in the order of the members.

    ``critical`` ended the run or makes its result worthless, ``error`` will, ``warning`` may;
    ``info`` is a remark and never an alert.
    """

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)

    @property
    def is_alarm(self) -> bool:
        return self is not Severity.INFO


@dataclass(frozen=True, slots=True)
class Evidence:
    """A proof of a finding, and where it was found.

    ``offset`` is the byte in ``path`` at which the line begins, ``step`` the training step, and
    ``values`` are the numbers of the files.
    """

    text: str
    path: str | None = None
    offset: int | None = None
    step: int | None = None
    values: Mapping[str, float | int | str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", mask_text(self.text))

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "path": self.path,
            "offset": self.offset,
            "step": self.step,
            "values": dict(self.values),
        }


@dataclass(frozen=True, slots=True)
class Change:
    """One value to change. ``kind`` is ``config`` (a dotted recipe key), ``environment`` (a
    variable) or ``command`` (something to type before the next launch, in ``after``). ``why`` is
    one phrase, where the value only moves because another one does."""

    kind: str
    key: str
    after: object
    before: object = None
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "key": self.key,
            "before": self.before,
            "after": self.after,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Remedy:
    """A fix: changes that belong together, and their expected effect.

    Without ``changes`` it is advice.
    """

    title: str
    changes: tuple[Change, ...] = ()
    effect: str = ""

    @property
    def is_launchable(self) -> bool:
        """Whether a new run can be launched with it: it changes the config or the environment."""
        return any(change.kind != "command" for change in self.changes)

    def to_json(self, choices: Sequence[Remedy] = ()) -> dict[str, Any]:
        """``number`` is the place among the ``choices``, as ``fix --number`` takes it."""
        return {
            "title": self.title,
            "effect": self.effect,
            "changes": [change.to_json() for change in self.changes],
            "number": choices.index(self) + 1 if self in choices else None,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, root first. ``id`` begins with a class name; a finer name may follow a dot.

    ``onset_step`` is the step at which it began, where a step is known. ``confidence`` lies in 0 to
    1. ``not_checked`` names what could not be looked at, and why. ``followed_by`` holds what this
    finding caused: consequences are not findings of their own. ``counted`` is what the steps count:
    the records, in a log that numbers no steps.
    """

    id: str
    severity: Severity
    title: str
    cause: str
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    onset_step: int | None = None
    confidence: float = 1.0
    not_checked: tuple[str, ...] = ()
    followed_by: tuple[Finding, ...] = ()
    source: str = ""
    counted: Literal["step", "record"] = "step"

    def __post_init__(self) -> None:
        """Findings quote logs, and go to files, chats and screens: no secret gets into one."""
        for name in ("title", "cause"):
            object.__setattr__(self, name, mask_text(getattr(self, name)))

    @property
    def onset(self) -> str:
        """``step 34``, or nothing where no step is known."""
        return "" if self.onset_step is None else f"{self.counted} {self.onset_step}"

    @property
    def family(self) -> str:
        """The class of the finding: its id up to the first dot."""
        return self.id.split(".", 1)[0]

    def to_json(self, choices: Sequence[Remedy] = ()) -> dict[str, Any]:
        """The finding and its consequences; a fix among the ``choices`` has its number."""
        return {
            "id": self.id,
            "severity": str(self.severity),
            "title": self.title,
            "onset_step": self.onset_step,
            "cause": self.cause,
            "evidence": [evidence.to_json() for evidence in self.evidence],
            "remedies": [remedy.to_json(choices) for remedy in self.remedies],
            "confidence": self.confidence,
            "not_checked": list(self.not_checked),
            "followed_by": [finding.to_json() for finding in self.followed_by],
            "source": self.source,
        }


def launchable(findings: Iterable[Finding]) -> list[Remedy]:
    """Remedies that a new run can be launched with, each once: its place here, counted from 1, is
    the number by which a person chooses it, on the screen and in a command."""
    found: list[Remedy] = []
    for one in (remedy for finding in findings for remedy in finding.remedies):
        if one.is_launchable and one not in found:
            found.append(one)
    return found
