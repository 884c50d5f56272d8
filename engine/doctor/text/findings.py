"""The story of a log as findings: the root with its evidence, what followed folded below it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.base import files
from engine.base.holes import chunks
from engine.doctor.text.events import Event
from engine.doctor.text.reader import LogReader
from engine.doctor.text.rules import Role, Rule
from engine.doctor.text.story import NEAR_END, Story, build_story
from engine.doctor.text.tracebacks import Raised
from engine.doctor.text.unknown import kind_of
from engine.findings.finding import Evidence, Finding, Remedy, Severity

_READ = 4 * 1024 * 1024
_MOST_FOLDED = 12
_WIDEST = 400
_FAINT = 0.3


def read_log(path: Path) -> LogReader:
    """A whole file, read. Memory does not grow with it."""
    reader = LogReader()
    with files.open_regular(path) as log:
        for _, data in chunks(log.fileno(), 0, _READ):
            reader.feed(data)
    reader.finish()
    return reader


def findings(reader: LogReader, path: str | None = None, *, ended: bool = True) -> list[Finding]:
    """Of what has been read until now; may be asked again when there is more.

    What the log ends in, a traceback without its exception or attempts that all failed, counts only
    once it has ``ended``.
    """
    torn = reader.torn() if ended else ()
    story = build_story(reader.events, reader.progress, torn, ended=ended)
    found = [_finding(event, reader, path) for event in story.lasting]
    if story.root is not None:
        found.insert(0, _root_finding(story, reader, path))
    return found or [*_got_over(story, reader, path)]


def _got_over(story: Story, reader: LogReader, path: str | None) -> Iterator[Finding]:
    """What a run met again and again and did not end of: told, but no alarm."""
    first: dict[str, Event] = {}
    for event in story.handled:
        again = reader.events.count(event) > 1 or (event.rule and event.rule.lasting)
        if event.rule and event.role is Role.CAUSE and again:
            first.setdefault(event.rule.id, event)
    for event in first.values():
        one = _finding(event, reader, path)
        yield replace(one, severity=Severity.INFO, confidence=_FAINT)


def _root_finding(story: Story, reader: LogReader, path: str | None) -> Finding:
    assert story.root is not None
    folded = tuple(
        _finding(event, reader, path) for event in _distinct(story.root, story.consequences)
    )
    return _finding(story.root, reader, path, folded)


def _distinct(root: Event, then: Sequence[Event]) -> Iterator[Event]:
    """One event of every id that is not the root's, in order."""
    seen = {_id(root)}
    for event in then:
        if _id(event) not in seen and len(seen) <= _MOST_FOLDED:
            seen.add(_id(event))
            yield event


def _finding(
    event: Event, reader: LogReader, path: str | None, folded: tuple[Finding, ...] = ()
) -> Finding:
    evidence = _evidence(event, reader.events.count(event), path)
    if event.rule is None:
        return _unknown(event, evidence, folded, _is_last(event, reader))
    return Finding(
        id=event.rule.id,
        severity=event.rule.severity,
        title=_filled(event.rule.title, event),
        cause=_filled(event.rule.cause, event),
        evidence=evidence,
        remedies=tuple(_filled_remedy(one, event) for one in event.rule.remedies),
        onset_step=event.mark.step,
        confidence=_confidence(event.rule),
        followed_by=folded,
        source=event.rule.source,
    )


def _confidence(rule: Rule) -> float:
    """What only warns, and may be the consequence of something else, explains no error."""
    if rule.role in (Role.CAUSE, Role.END):
        return 0.9
    return 0.5 if rule.severity in (Severity.CRITICAL, Severity.ERROR) else _FAINT


def _is_last(event: Event, reader: LogReader) -> bool:
    return reader.progress.mark.offset - event.line.offset <= NEAR_END


def _unknown(
    event: Event, evidence: tuple[Evidence, ...], folded: tuple[Finding, ...], is_last: bool
) -> Finding:
    assert event.raised is not None
    kind = kind_of(event.raised)
    return Finding(
        id=_id(event),
        severity=_severity(event.raised, is_last),
        title=kind.title if kind else "An exception ended the run",
        cause=kind.cause if kind else "No rule knows this exception; its frames are the best lead.",
        evidence=evidence,
        onset_step=event.mark.step,
        confidence=kind.confidence if kind else 0.2,
        followed_by=folded,
    )


def _severity(raised: Raised, is_last: bool) -> Severity:
    """A line without frames may as well be what a tested program or a model has printed; a
    traceback of no known kind that a log ends in has ended the run."""
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
    said = Evidence(line.text.strip()[:_WIDEST], path, line.offset, event.mark.step, values)
    frames = event.raised.frames[-2:] if event.raised else ()
    raised = dict.fromkeys(reversed(frames))
    return (said, *(Evidence(f"raised in {name}", path) for name in raised))


def _filled(text: str, event: Event) -> str:
    """The rule's text with the values that the line names; what it does not name is left out."""
    groups = dict(event.groups)
    if module := groups.get("module"):
        groups["package"] = package_of(module)
    return re.sub(r"\{(\w+)(?:\|([^}]*))?\}", lambda m: groups.get(m[1]) or m[2] or "?", text)


def _filled_remedy(remedy: Remedy, event: Event) -> Remedy:
    changes = (
        replace(change, after=_filled(change.after, event))
        if isinstance(change.after, str)
        else change
        for change in remedy.changes
    )
    return replace(remedy, title=_filled(remedy.title, event), changes=tuple(changes))


_PACKAGES = {
    "attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil", "dotenv": "python-dotenv", "faiss": "faiss-cpu",
    "flash_attn": "flash-attn", "git": "GitPython", "google": "google-api-python-client",
    "hydra": "hydra-core", "jwt": "PyJWT", "Levenshtein": "python-Levenshtein",
    "liger_kernel": "liger-kernel", "math_verify": "math-verify", "PIL": "pillow",
    "pkg_resources": "setuptools", "pylatexenc": "pylatexenc", "pynvml": "nvidia-ml-py",
    "reasoning_gym": "reasoning-gym", "skimage": "scikit-image", "sklearn": "scikit-learn",
    "torch_npu": "torch-npu", "transfer_queue": "TransferQueue", "yaml": "PyYAML", "zmq": "pyzmq",
}  # fmt: skip


def package_of(module: str) -> str:
    """The package that holds a top-level module, as pip calls it."""
    return _PACKAGES.get(module, module)
