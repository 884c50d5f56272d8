"""Values that the doctor would name as a cause from the first step on.

They are allowed, and somebody may mean them: no launch is refused for one.
"""

from __future__ import annotations

from engine.findings.finding import Finding
from engine.findings.run_context import MetricContext
from engine.preflight.check import Check, Subject, summary, warn
from engine.preflight.complete_change import as_overrides
from engine.preflight.value_rules import value_findings
from engine.recipe.frozen import in_file

ID = "values"


def check(subject: Subject) -> Check:
    """The doctor's rules on values, in its words, each with its first remedy as the fix."""
    recipe = subject.recipe
    context = MetricContext(recipe.values, recipe.kind, in_file=in_file(recipe))
    found = [warn(ID, _told(one), _fix(one)) for one in value_findings(context)]
    return summary(ID, found, "no value is known to break the training")


def _told(finding: Finding) -> str:
    return f"{finding.title}: {finding.cause.removesuffix('.')}"


def _fix(finding: Finding) -> str | None:
    changes = [change for remedy in finding.remedies[:1] for change in remedy.changes]
    return " ".join(as_overrides(changes)) or None
