"""A kind of finding: what a rule looks for and what it reports, declared once, beside the rule.

Most kinds of findings are entries of YAML files (``engine.run.finding_kind_file``).

docs/findings.md and finding_ids.txt are generated from these declarations (``make generated``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from engine.run.finding import Evidence, Finding, Fix, Severity
from engine.run.rule_context import RuleContext

HOLE = "…"
"""The placeholder for a value, in a title or cause that is printed without a run."""

METRIC_RULES = "grubrics.metric_rules"
REWARD_RULES = "grubrics.reward_rules"
"""Groups of entry points that hold a ``Rule``."""

Examined = TypeVar("Examined")


@dataclass(frozen=True, slots=True)
class Case:
    """The run that has the finding, and the step at which it began, if known."""

    context: RuleContext = field(default_factory=RuleContext)
    onset: int | None = None


def no_fixes(_: Case) -> Iterable[Fix]:
    return ()


@dataclass(frozen=True, kw_only=True)
class FindingKind:
    """One thing that the doctor can find.

    ``title`` and ``cause`` are templates: ``finding()`` fills their ``{names}``. ``severity`` is
    the default, and ``also`` lists the severities that a rule may choose instead. ``shape``
    describes the evidence, ``ruled_out`` what looks alike but is healthy. ``fixes`` are offered
    unless the rule passes others. ``source`` says where the knowledge comes from.
    """

    id: str
    title: str
    cause: str
    shape: str
    source: str
    ruled_out: str = ""
    severity: Severity = Severity.ERROR
    also: tuple[Severity, ...] = ()
    fixes: Callable[[Case], Iterable[Fix]] = no_fixes
    confidence: float = 1.0
    not_checked: tuple[str, ...] = ()

    def finding(
        self,
        case: Case,
        *evidence: Evidence,
        severity: Severity | None = None,
        fixes: Iterable[Fix] | None = None,
        confidence: float | None = None,
        detail: str = "",
        **values: object,
    ) -> Finding:
        """Return the finding. ``values`` and the ``{onset}`` of the case fill the templates;
        ``detail`` is added to the cause."""
        mapping = _Values(values if case.onset is None else {"onset": case.onset, **values})
        cause = self.cause.format_map(mapping)
        return Finding(
            self.id,
            severity or self.severity,
            self.title.format_map(mapping),
            f"{cause} {detail}" if detail else cause,
            evidence,
            tuple(self.fixes(case) if fixes is None else fixes),
            case.onset,
            self.confidence if confidence is None else confidence,
            self.not_checked,
            source=self.source,
        )

    @property
    def category(self) -> str:
        """The category: the id up to the first dot."""
        return self.id.split(".", 1)[0]


class _Values(dict[str, object]):
    """Template values; a name that a rule forgot becomes a placeholder and breaks nothing."""

    def __missing__(self, name: str) -> str:
        return HOLE


@dataclass(frozen=True)
class Rule(Generic[Examined]):
    """A function that examines one kind of evidence and yields findings.

    ``finding_kinds`` lists what it can find. Rules of this project may omit it: those of their
    modules are all collected. A plugin must list them, so that a guard can name their IDs.
    """

    check: Callable[[Examined], Iterable[Finding]]
    finding_kinds: tuple[FindingKind, ...] = ()
