"""Rules of other packages, from entry points.

``grubrics.metric_rules`` and ``grubrics.reward_rules`` hold a ``Rule``, ``grubrics.text_rules`` the
path of a YAML file or of a folder with some. A broken plugin is named in one line and skipped.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from engine.base.errors import tell
from engine.base.masking import mask_text
from engine.base.plugins import load
from engine.run.finding import Finding
from engine.run.finding_kind import METRIC_RULES, REWARD_RULES, Rule

__all__ = ["METRIC_RULES", "REWARD_RULES", "findings", "text_rule_files", "warn_once"]

TEXT_RULES = "grubrics.text_rules"


def findings(group: str, evidence: object) -> list[Finding]:
    """Return the findings of a group's rules; a rule that fails is skipped with one warning."""
    reported: list[Finding] = []
    for name, rule in _rules(group, tuple(sys.path)):
        try:
            reported += [
                finding for finding in rule.check(evidence) if isinstance(finding, Finding)
            ]
        except Exception as error:
            warn_once(f"rule {name} failed and is skipped: {type(error).__name__}: {error}")
    return reported


@cache
def _rules(group: str, path: tuple[str, ...]) -> tuple[tuple[str, Rule[object]], ...]:
    plugins = load(group, Rule)
    for problem in plugins.problems:
        warn_once(problem)
    return tuple((f"{plugin.name} of {plugin.source}", plugin.value) for plugin in plugins.loaded)


def text_rule_files() -> tuple[Path, ...]:
    """Return the YAML files with text rules of other packages."""
    plugins = load(TEXT_RULES, Path)
    for problem in plugins.problems:
        warn_once(problem)
    files = (sorted(path.glob("*.yaml")) if path.is_dir() else [path] for path in plugins.objects)
    return tuple(path for group in files for path in group)


@cache
def warn_once(problem: str) -> None:
    """Tell of a problem once, on stderr: stdout may hold JSON."""
    tell(f"warning: {mask_text(' '.join(problem.split()))[:300]}")
