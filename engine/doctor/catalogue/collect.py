"""Every rule of the doctor as an entry, wherever the rule lives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import engine
from engine.doctor.catalogue.entry import HOLE, Entry, Shape
from engine.doctor.catalogue.source import Source
from engine.doctor.data_findings import QUESTIONS
from engine.doctor.metrics import MetricContext
from engine.doctor.rewards.failures import CLASSES
from engine.doctor.rewards.remedies import remedies
from engine.doctor.text.rules import RULES, Role, load_rules, read_yaml
from engine.judge.api import RETRYABLE

_ENGINE = Path(engine.__file__).parent
_DOCTOR = _ENGINE / "doctor"
_SHARED = (_ENGINE / "findings/remedy_builders.py", _DOCTOR / "metrics/judge_limit.py")
_CODE = ("metrics", "metrics/rules", "rewards")
_NO_SYMPTOM = "healthy_noise"


def entries() -> list[Entry]:
    """By id; rules of one id in the order text, records, numbers and recipe."""
    found = [*_of_text(), *_of_exceptions(), *_of_records(), *_of_code(), *_of_checklist()]
    return sorted(found, key=lambda one: one.id)


def shapes() -> list[Shape]:
    """What the rules that are code look for, one for each file that has rules."""
    found = [source.shape() for source in _sources() if any(source.entries())]
    return [*found, Source.read(_DOCTOR / "data_findings.py", _SHARED).shape()]


def _sources() -> Iterator[Source]:
    files = [path for name in _CODE for path in sorted((_DOCTOR / name).glob("*.py"))]
    others = [_DOCTOR / name for name in ("run_end.py", "judge_test.py", "stalled.py")]
    others.append(_ENGINE / "preflight/values.py")
    return (Source.read(path, _SHARED) for path in [*files, *others])


def _of_code() -> Iterator[Entry]:
    for source in _sources():
        for entry in source.entries():
            yield from _of_each_class(entry) if entry.id.startswith("*") else (entry,)


def _of_each_class(entry: Entry) -> Iterator[Entry]:
    """A finding on calls that are repeated is one of the class that they fail with."""
    for kind in sorted(RETRYABLE):
        one = CLASSES[kind]
        id = entry.id.replace("*", one.id.split(".")[0])
        cures = tuple(cure.title for cure in remedies(kind, MetricContext()))
        cause = entry.cause.replace(HOLE, one.cause, 1)
        yield replace(entry, id=id, cause=cause, remedies=cures)


def _of_text() -> Iterator[Entry]:
    for rule in load_rules():
        if rule.role is not Role.NOISE:
            yield Entry(
                rule.id,
                str(rule.severity),
                _filled(rule.title),
                _filled(rule.cause),
                tuple(_filled(cure.title) for cure in rule.remedies),
                evidence=rule.examples[0],
            )


def _filled(text: str) -> str:
    """A rule's text with the words for what a line does not name."""
    return re.sub(r"\{\w+(?:\|([^}]*))?\}", lambda match: match[1] or HOLE, text)


def _of_exceptions() -> Iterator[Entry]:
    for kind in read_yaml(RULES / "unknown" / "exceptions.yaml"):
        if not kind["id"].startswith(_NO_SYMPTOM):
            looks = [f"{key}: {kind[key]}" for key in _LOOKS if kind.get(key)]
            seen = "an exception that no rule knows; " + ", ".join(looks)
            yield Entry(kind["id"], "error", kind["title"], kind["cause"], (), evidence=seen)
    for kind in read_yaml(RULES / "unknown" / "words.yaml"):
        looks = [f"{key}: {'; '.join(kind[key])}" for key in _LOOKS if kind.get(key)]
        seen = "an exception that no rule and no frame decides, by its words; " + ", ".join(looks)
        yield Entry(kind["id"], "error", kind["title"], kind["cause"], (), evidence=seen)


_PROPOSED = "The values or the command that the checklist's answer proposes"
_LOOKS = ("type", "message", "frames", "innermost", "code")


def _of_records() -> Iterator[Entry]:
    """Classes of failed rewards: they are data already."""
    for kind, one in CLASSES.items():
        cures = tuple(cure.title for cure in remedies(kind, MetricContext()))
        severity = "critical or error or warning"
        yield Entry(one.id, severity, one.title, one.cause, cures, shape="rewards/failures")


def _of_checklist() -> Iterator[Entry]:
    for ask, id, title in QUESTIONS:
        asked = (ask.__doc__ or "").strip().split("\n")[0]
        cause = f"The checklist's question '{ask.__module__.rpartition('.')[2]}': {asked}"
        yield Entry(id, "error or info", title, cause, (_PROPOSED,), shape="doctor/data_findings")
