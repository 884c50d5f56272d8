"""Findings of a log: the root cause with its evidence, and its consequences folded below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from engine.base import files
from engine.base.follow import RESTARTS, FileFollower
from engine.doctor.text.events import Event
from engine.doctor.text.facts import facts_of
from engine.doctor.text.line import read_line
from engine.doctor.text.reader import LogReader
from engine.doctor.text.rules import PLACEHOLDER, Role, Rule
from engine.doctor.text.story import NEAR_END, Story, build_story
from engine.doctor.text.tracebacks import Raised
from engine.doctor.text.unknown import kind_of
from engine.doctor.trainer_dialects import for_phase, full_key, nearest_argument, tables
from engine.run.finding import Evidence, Finding, Fix, Severity

_READ = 4 * 1024 * 1024
_MOST_CONSEQUENCES = 12
_LONGEST_EVIDENCE = 400
_LOW_CONFIDENCE = 0.3
_FIELD_BYTES = 2048


Stopped = Callable[[], bool]
"""Called between two parts of a long log; True if the result is no longer needed."""


def never() -> bool:
    return False


class ConsoleDiagnosis:
    """Follows one console log. A truncated or replaced file is read from its start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._follower = FileFollower(path)
        self._reader = LogReader()

    def findings(self, *, ended: bool, stopped: Stopped = never) -> list[Finding]:
        """Return the current findings; none for a missing file.

        ``ended`` means that the last line is complete.
        """
        if self._follower.poll() in RESTARTS:
            self._reader = LogReader()
        file = self._follower.file
        if file is None or self._follower.is_deleted:
            return []
        for data in file.chunks(_READ):
            if stopped():
                break
            self._reader.feed(data)
        reader = self._reader.as_ended() if ended and not file.behind() else self._reader
        return findings(reader, str(self.path), ended=ended)


def findings(reader: LogReader, path: str | None = None, *, ended: bool = True) -> list[Finding]:
    """Return the findings of what was read so far.

    The end of the log (a traceback without its exception, retries that all failed) counts only once
    the log has ``ended``.
    """
    torn = reader.torn() if ended else ()
    story = build_story(reader.events, reader.progress, torn, ended=ended)
    result = [_survived(event, reader, path) for event in story.lasting]
    if story.root is not None:
        consequences: dict[str, Event] = {}
        for event in story.consequences:
            consequences.setdefault(_id(event), event)
        consequences.pop(_id(story.root), None)
        listed = islice(consequences.values(), _MOST_CONSEQUENCES)
        followed_by = tuple(_finding(event, reader, path) for event in listed)
        result.insert(0, _finding(story.root, reader, path, followed_by))
    return result or _handled_findings(story, reader, path)


def _survived(event: Event, reader: LogReader, path: str | None) -> Finding:
    finding = _finding(event, reader, path)
    severity = event.rule.survived if event.rule else None
    if severity is None:
        return finding
    return replace(finding, severity=severity, cause=f"{finding.cause} Training continues.")


def _handled_findings(story: Story, reader: LogReader, path: str | None) -> list[Finding]:
    """Return, as information, the problems that came back but did not end the run."""
    repeated: dict[str, Event] = {}
    for event in story.handled:
        if event.rule is None or event.role is not Role.CAUSE:
            continue
        if event.rule.lasting or reader.events.count(event) > 1:
            repeated.setdefault(event.rule.id, event)
    return [
        replace(_finding(event, reader, path), severity=Severity.INFO, confidence=_LOW_CONFIDENCE)
        for event in repeated.values()
    ]


def _finding(
    event: Event, reader: LogReader, path: str | None, followed_by: tuple[Finding, ...] = ()
) -> Finding:
    evidence = _evidence(event, reader.events.count(event), path)
    if event.rule is None:
        is_last = reader.progress.mark.offset - event.line.offset <= NEAR_END
        return _unknown_exception(event, evidence, followed_by, is_last)
    texts = event.rule.running if event.mark.is_running else {}
    facts, values = facts_of(event.line, event.raised), _values(event)
    offered = [offer.fix for offer in event.rule.offers if facts.fits(offer.where)]
    fixes = () if texts else for_phase(offered, facts.phase)
    return Finding(
        id=event.rule.id,
        severity=event.rule.severity,
        title=_fill(texts.get("title", event.rule.title), values),
        cause=_fill(texts.get("cause", event.rule.cause), values),
        evidence=evidence,
        fixes=tuple(_fill_fixes(fixes, values)),
        onset_step=event.mark.step,
        confidence=_confidence(event.rule),
        followed_by=followed_by,
        source=event.rule.source,
    )


def _confidence(rule: Rule) -> float:
    """A warning that may be the consequence of something else does not explain an error."""
    if rule.role in (Role.CAUSE, Role.END):
        return 0.9
    return 0.5 if rule.severity in (Severity.CRITICAL, Severity.ERROR) else _LOW_CONFIDENCE


def _unknown_exception(
    event: Event, evidence: tuple[Evidence, ...], followed_by: tuple[Finding, ...], is_last: bool
) -> Finding:
    assert event.raised is not None
    kind = kind_of(event.raised)
    return Finding(
        id=_id(event),
        severity=_severity(event.raised, is_last),
        title=kind.title if kind else "An exception ended the run",
        cause=kind.cause if kind else "No rule matches this exception; see its frames.",
        evidence=evidence,
        onset_step=event.mark.step,
        confidence=kind.confidence if kind else 0.2,
        followed_by=followed_by,
    )


def _severity(raised: Raised, is_last: bool) -> Severity:
    """A line without frames may be output of a tested program or a model. A traceback of unknown
    kind at the end of a log has ended the run."""
    if not raised.frames:
        return Severity.WARNING if is_last else Severity.INFO
    return Severity.ERROR if is_last or kind_of(raised) is not None else Severity.WARNING


def _id(event: Event) -> str:
    if event.rule is not None:
        return event.rule.id
    kind = kind_of(event.raised) if event.raised else None
    return kind.id if kind else "training_setup_error.unknown_exception"


def _evidence(event: Event, count: int, path: str | None) -> tuple[Evidence, ...]:
    line = event.line
    values: dict[str, float | int | str | None] = {"line": line.number, **event.groups}
    if count > 1:
        values["seen"] = count
    text = " ".join((line.text.strip(), *_fields_below(event, path)))[:_LONGEST_EVIDENCE]
    frames = dict.fromkeys(reversed(event.frames[-2:]))
    return (
        Evidence(text, path, line.offset, event.mark.step, values),
        *(Evidence(f"raised in {frame}", path) for frame in frames),
    )


def _fields_below(event: Event, path: str | None) -> list[str]:
    """Return the lines in which pydantic names the first field and what is wrong with it."""
    if path is None or event.rule is None or event.rule.id != "config_error.fields":
        return []
    with files.open_regular(Path(path)) as log:
        log.seek(event.line.offset)
        lines = [read_line(raw) for raw in log.read(_FIELD_BYTES).splitlines()[1:]]
    return [line.text.strip() for line in lines if line.source == event.line.source][:2]


def _fill(text: str, values: Mapping[str, str]) -> str:
    """Fill the placeholders of a rule's text, ``{name}`` or ``{name|default}``."""
    return PLACEHOLDER.sub(
        lambda name: values.get(name[1]) or ("?" if name[2] is None else name[2]), text
    )


def _values(event: Event) -> dict[str, str]:
    """Return the groups of the line and the ``FACTS`` that are known."""
    key, module = event.groups.get("key", "").rstrip("."), event.groups.get("module", "")
    phase = facts_of(event.line, event.raised).phase
    is_of_verl = any("/verl/" in frame for frame in event.frames)
    known = {
        "model": event.raised.model if event.raised else "",
        "doing": phase and tables().doing.get(phase),
        "nearest": nearest_argument(event.groups.get("name", "")),
        "full_key": (is_of_verl and full_key(key)) or key,
        "package": tables().packages.get(module, module),
        **event.groups,
    }
    return {name: value for name, value in known.items() if value}


def _fill_fixes(fixes: Sequence[Fix], values: Mapping[str, str]) -> Iterator[Fix]:
    """Yield the fixes whose every placeholder has a value or a default."""
    for fix in fixes:
        names = PLACEHOLDER.finditer(fix.title)
        if all(name[2] is not None or name[1] in values for name in names):
            changes = (
                replace(change, after=_fill(change.after, values))
                if isinstance(change.after, str)
                else change
                for change in fix.changes
            )
            yield replace(fix, title=_fill(fix.title, values), changes=tuple(changes))
