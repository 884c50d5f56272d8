"""``python -m engine.doctor.catalogue docs/findings.md`` writes the reference of findings there.

It is made from the declared kinds of findings and the text rules. The list of finding IDs, by which
a config's guard is checked without loading the rules, is written too.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import ModuleType

import engine.doctor
from engine.base.yaml_files import read_table
from engine.checks import values
from engine.doctor.text.rules import RULES, Role, load_rules
from engine.run.categories import IDS
from engine.run.finding import Severity
from engine.run.finding_kind import HOLE, Case, FindingKind

_HEAD = """\
# Findings reference

All findings that `grubrics-tui diagnose` can report, by category. Each entry has the finding ID, \
the severity, the evidence (an example line of a log, or what is looked for in metrics, reward \
records or the config), what is ruled out, the cause, the fixes and the source; `…` stands for a \
value from the run. [Diagnosing runs](doctor.md) describes how the root cause is chosen among \
several findings.

This page is generated from the rules: `make generated`."""
_LONGEST_LINE = 160
_EXCEPTION_KEYS = ("type", "message", "frames", "innermost", "code")
_NO_FINDING = "healthy_noise"
_WORSE_FIRST = [str(severity) for severity in Severity]


@dataclass(frozen=True)
class Entry:
    """One finding of the reference. ``evidence`` is Markdown."""

    id: str
    severity: str
    title: str
    cause: str
    evidence: str
    ruled_out: str = ""
    fixes: tuple[str, ...] = ()
    source: str = ""

    @property
    def category(self) -> str:
        return self.id.split(".", 1)[0]


def entries() -> list[Entry]:
    """Return all findings by category, severity and ID."""
    findings = [
        *_of_text_rules(),
        *_of_exceptions(),
        *map(_of_kind, declared_finding_kinds()),
    ]
    return sorted(findings, key=lambda entry: (entry.category, _rank(entry), entry.id))


def declared_finding_kinds() -> list[FindingKind]:
    """Return every ``FindingKind`` that a module of the doctor or the rules on values declares."""
    names = [
        module.name for module in pkgutil.walk_packages(engine.doctor.__path__, "engine.doctor.")
    ]
    modules = [importlib.import_module(name) for name in names if name != __name__]
    finding_kinds = [
        finding_kind for module in (*modules, values) for finding_kind in finding_kinds_in(module)
    ]
    return list({id(finding_kind): finding_kind for finding_kind in finding_kinds}.values())


def finding_kinds_in(module: ModuleType) -> Iterator[FindingKind]:
    """Yield the kinds of findings at the top level of a module, also those in mappings."""
    for value in vars(module).values():
        if isinstance(value, FindingKind):
            yield value
        elif isinstance(value, Mapping):
            yield from (item for item in value.values() if isinstance(item, FindingKind))


def _of_kind(kind: FindingKind) -> Entry:
    severities = dict.fromkeys(map(str, (kind.severity, *kind.also)))
    holes: dict[str, str] = defaultdict(lambda: HOLE)
    return Entry(
        kind.id,
        " or ".join(sorted(severities, key=_WORSE_FIRST.index)),
        kind.title.format_map(holes),
        kind.cause.format_map(holes),
        _plain(kind.shape),
        kind.ruled_out,
        tuple(dict.fromkeys(fix.title for fix in kind.fixes(Case()))),
        kind.source,
    )


def _of_text_rules() -> Iterator[Entry]:
    for rule in load_rules():
        if rule.role is not Role.NOISE:
            yield Entry(
                rule.id,
                str(rule.severity),
                _filled(rule.title),
                _filled(rule.cause),
                _line(rule.examples[0]),
                fixes=tuple(_filled(fix.title) for fix in rule.fixes),
                source=rule.source,
            )


def _filled(text: str) -> str:
    """Fill a rule's template with its default words, or with the placeholder."""
    return re.sub(r"\{\w+(?:\|([^}]*))?\}", lambda match: match[1] or HOLE, text)


def _of_exceptions() -> Iterator[Entry]:
    for kind in read_table(RULES / "unknown" / "exceptions.yaml"):
        if not kind["id"].startswith(_NO_FINDING):
            yield _of_exception(kind, "an exception that no rule matches")
    for kind in read_table(RULES / "unknown" / "words.yaml"):
        yield _of_exception(kind, "an exception without a matching rule or frame, by its words")


def _of_exception(kind: Mapping[str, object], introduction: str) -> Entry:
    patterns = [
        f"{key}: {'; '.join(value) if isinstance(value, dict) else value}"
        for key in _EXCEPTION_KEYS
        if (value := kind.get(key))
    ]
    evidence = _line(f"{introduction}; {', '.join(patterns)}")
    identity, title, cause = (str(kind[key]) for key in ("id", "title", "cause"))
    return Entry(identity, "error", title, cause, evidence)


def _rank(entry: Entry) -> int:
    return _WORSE_FIRST.index(entry.severity.split(" ")[0])


def markdown() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_categories(entries())]) + "\n"


def id_list() -> str:
    """Return the IDs of all findings, one per line."""
    return "".join(f"{id}\n" for id in sorted({entry.id for entry in entries()}))


def _categories(findings: Iterable[Entry]) -> Iterator[str]:
    for category, group in groupby(findings, key=lambda entry: entry.category):
        yield f"\n## {category}"
        for entry in group:
            yield from _section(entry)


def _section(entry: Entry) -> Iterator[str]:
    yield f"\n### {_plain(entry.title)}\n"
    yield f"- Finding: `{entry.id}` ({entry.severity})"
    yield f"- Evidence: {entry.evidence}"
    if entry.ruled_out:
        yield f"- Ruled out: {_plain(entry.ruled_out)}"
    yield f"- Cause: {_plain(entry.cause)}"
    if entry.fixes:
        yield f"- Fixes: {'; '.join(_plain(fix).rstrip('.') for fix in entry.fixes)}"
    if entry.source:
        yield f"- Source: {_plain(entry.source)}"


def _plain(text: str) -> str:
    """Return prose on one line, with ``<`` escaped outside of code."""
    line = " ".join(text.split())
    return re.sub(r"`[^`]*`|<", lambda match: "&lt;" if match[0] == "<" else match[0], line)


def _line(text: str) -> str:
    """Return a log line as code, shortened."""
    shown = " ".join(text.replace("`", "'").split())
    shown = shown if len(shown) <= _LONGEST_LINE else f"{shown[: _LONGEST_LINE - 1]}…"
    return f"`{shown}`"


def main() -> None:
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
    IDS.write_text(id_list(), encoding="utf-8")


if __name__ == "__main__":
    main()
