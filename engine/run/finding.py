"""Data types: a finding with its evidence, cause and fixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from engine.base.masking import mask_text
from engine.base.typed import to_json


class Severity(StrEnum):
    """How bad a finding is; findings are sorted in the order of the members.

    ``critical`` ended the run or makes its result worthless, ``error`` will, ``warning`` may.
    ``info`` is no alert.
    """

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)

    @property
    def is_alert(self) -> bool:
        return self is not Severity.INFO


@dataclass(frozen=True, slots=True)
class Evidence:
    """A proof of a finding, and its source.

    ``offset`` is the byte in ``path`` at which the line begins, ``step`` the training step, and
    ``values`` holds the numbers behind the text.
    """

    text: str
    """One line, secrets masked."""
    path: str | None = None
    """The file that holds it."""
    offset: int | None = None
    step: int | None = None
    values: Mapping[str, float | int | str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", mask_text(self.text))

    @property
    def is_rollout(self) -> bool:
        """Whether it is a rollout, whose ``step``, ``group`` and ``rollout`` number it names."""
        return self.step is not None and {"group", "rollout"} <= self.values.keys()


@dataclass(frozen=True, slots=True)
class Change:
    """One value to change. ``kind`` is ``config`` (a dotted config key), ``environment`` (a
    variable) or ``command`` (a command to run before the next launch, in ``after``). ``why`` is a
    phrase for a value that changes only because another one does."""

    kind: str
    key: str
    """A dotted key, or the name of a variable."""
    after: object
    """The value of the next launch."""
    before: object = None
    """The value of this run."""
    why: str = ""

    def to_json(self) -> dict[str, object]:
        """The change as ``--json`` prints it."""
        return {
            "kind": self.kind,
            "key": self.key,
            "before": self.before,
            "after": self.after,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Fix:
    """A fix: changes that belong together, and their expected effect.

    Without ``changes`` it is advice, possibly about the config ``key``.
    """

    title: str
    """What to do, beginning with a verb."""
    changes: tuple[Change, ...] = ()
    effect: str = ""
    """What to expect of it."""
    key: str = ""

    @property
    def is_launchable(self) -> bool:
        """Whether a new run can use it: it changes the config or the environment."""
        return any(change.kind != "command" for change in self.changes)

    def to_json(self, choices: Sequence[Fix] = ()) -> dict[str, object]:
        """``number`` is the position among the ``choices``, as ``fix --number`` takes it."""
        return {
            "title": self.title,
            "effect": self.effect,
            "changes": [change.to_json() for change in self.changes],
            "number": choices.index(self) + 1 if self in choices else None,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosed problem. ``id`` is its category, or the category, a dot and a finer name.

    ``onset_step`` is the step at which it began, if known. ``confidence`` is between 0 and 1.
    ``not_checked`` says what could not be checked. ``followed_by`` holds the consequences, which
    are not listed separately. ``counted`` is the unit of the onset: records, in a log that does not
    number its steps.
    """

    id: str
    severity: Severity
    """``critical``, ``error``, ``warning`` or ``info``."""
    title: str
    """What is wrong."""
    cause: str
    """Why, with numbers."""
    evidence: tuple[Evidence, ...] = ()
    """The proofs."""
    fixes: tuple[Fix, ...] = ()
    """What to do."""
    onset_step: int | None = None
    confidence: float = 1.0
    not_checked: tuple[str, ...] = ()
    followed_by: tuple[Finding, ...] = ()
    source: str = ""
    """Where the rule comes from."""
    counted: Literal["step", "record"] = "step"

    def __post_init__(self) -> None:
        """Mask secrets: findings quote logs, and are sent to files, chats and screens."""
        for name in ("title", "cause"):
            object.__setattr__(self, name, mask_text(getattr(self, name)))

    @property
    def rollouts(self) -> tuple[Evidence, ...]:
        """The rollouts in the evidence of the finding; if there are none, of its consequences."""
        own = tuple(evidence for evidence in self.evidence if evidence.is_rollout)
        return own or tuple(one for later in self.followed_by for one in later.rollouts)

    @property
    def onset(self) -> str:
        """The onset as text, such as ``step 34``; empty if unknown."""
        return "" if self.onset_step is None else f"{self.counted} {self.onset_step}"

    @property
    def category(self) -> str:
        """The category: the ID up to the first dot."""
        return self.id.split(".", 1)[0]

    def with_consequences(self, findings: Iterable[Finding]) -> Finding:
        """Fold findings below this one, which becomes at least as severe as they are."""
        added = tuple(findings)
        severity = min(
            (self.severity, *(finding.severity for finding in added)),
            key=lambda severity: severity.rank,
        )
        return replace(self, severity=severity, followed_by=(*self.followed_by, *added))

    def to_json(self, choices: Sequence[Fix] = ()) -> dict[str, object]:
        """Return the finding and its consequences; a fix among the ``choices`` has its number."""
        return {
            "id": self.id,
            "severity": str(self.severity),
            "title": self.title,
            "onset_step": self.onset_step,
            "cause": self.cause,
            "evidence": [*map(to_json, self.evidence)],
            "fixes": [fix.to_json(choices) for fix in self.fixes],
            "confidence": self.confidence,
            "not_checked": list(self.not_checked),
            "followed_by": [finding.to_json() for finding in self.followed_by],
            "source": self.source,
        }


def format_evidence(evidence: Evidence) -> str:
    """``console.log:12: CUDA out of memory  (3 times)``."""
    line = evidence.values.get("line")
    location = f"{evidence.path}:{line}: " if evidence.path and line is not None else ""
    count = evidence.values.get("seen")
    times = f"  ({count} times)" if count else ""
    return f"{location}{evidence.text}{times}"


def flattened(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield each finding, followed by its consequences and theirs."""
    for finding in findings:
        yield finding
        yield from flattened(finding.followed_by)


def launchable(findings: Iterable[Finding]) -> list[Fix]:
    """Return the fixes that a new run can be launched with, each once.

    The screen and the commands number them in this order, from 1.
    """
    fixes: list[Fix] = []
    for fix in (fix for finding in findings for fix in finding.fixes):
        if fix.is_launchable and fix not in fixes:
            fixes.append(fix)
    return fixes
