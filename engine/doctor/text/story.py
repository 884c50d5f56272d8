"""Finds the root cause of a log: which of its events explains the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.doctor.text.events import LINES_OF_A_FRAME, MANY_RETRIES, Event, Events
from engine.doctor.text.matching import LOUD
from engine.doctor.text.progress import Progress
from engine.doctor.text.rules import Role
from engine.doctor.text.tracebacks import exception_in
from engine.doctor.text.unknown import is_telling, kind_of
from engine.doctor.text.wording import is_complaint, is_retry
from engine.run.finding import Severity

NEAR_END = 2000
"""Bytes: an event this close to the end of a log belongs to its last words."""
_FEW_WORDS = 200
"""Bytes below a line that may still belong to the same message."""
_MORE_THAN_CHANCE = 3
"""Failed retries that explain the end of a log in which nothing else went wrong."""
_JUDGE = re.compile(
    r"reward|judge|(?<![a-z])grad(?:e|er|ing)\b|scor|verif(?:y|ier\b)"
    r"|openai|litellm|anthropic|httpx|httpcore|aiohttp|requests/",
    re.IGNORECASE,
)
_OUT_OF_MEMORY = re.compile(r"\bKilled\b")
"""Printed by shells, possibly while the trained model is being saved."""
_LINES_BETWEEN = 6
"""Lines between an exception and the first frame of one that was raised while handling it."""
_LINES_OF_A_BURST = 3
"""Lines between a message and the traceback that it led to."""
_TEARDOWN_CODES = ("", "0", "143")
"""Arguments of ``sys.exit`` in processes that are terminated."""
_GENERATED = re.compile(r"<string>:|\S*/(?:tmp|T|shm)/tmp\w{3,}(?:/|\.py:)")
"""Frames of text that was executed directly or from a temporary file."""
_INSTALLED = re.compile(r"(?:site|dist)-packages/|/lib/python3")
_SPAWNED = re.compile("multiprocessing/|torch/distributed/|runpy|ray:task")
_SHELL = re.compile(
    r"\S+: line \d+: |(?:ls|rm|cp|mv|ln|cat|mkdir|chmod|ulimit|module|source): |mkdir -p "
)
"""Messages of the script that starts the program."""
_SILENT_DEATH = re.compile("cuda_oom|host_oom|nccl|driver|ray_start")
"""Categories that end one of many processes in a single line, while the others run for a while."""


@dataclass(frozen=True)
class Story:
    """``root`` explains ``consequences``. ``lasting`` problems persist while training continues;
    ``handled`` ones did no harm."""

    root: Event | None
    consequences: tuple[Event, ...] = ()
    lasting: tuple[Event, ...] = ()
    handled: tuple[Event, ...] = ()


def build_story(
    events: Events, progress: Progress, torn: Sequence[Event] = (), *, ended: bool = True
) -> Story:
    """Separate the root cause from its consequences and from what the run survived.

    ``torn`` are the events at which a log has ``ended``: tracebacks without their exceptions, last
    words.
    """
    end = progress.mark.offset
    relevant = [event for event in events.recorded if _is_relevant(event, events, end)]
    # A quoted raise statement counts only where no exception was seen.
    relevant = [event for event in relevant if not event.is_quoted] or relevant
    relevant += [
        event
        for event in torn
        if event.rule is not None or (event.raised is not None and is_telling(event.raised))
    ]
    relevant = [event for event in relevant if not _is_wrapper(event, relevant)]
    survived = [
        event for event in relevant if progress.went_on_since(event.mark) or _is_aside(event)
    ]
    survived += [event for event in relevant if _was_survived_before(event, survived)]
    fatal = [event for event in relevant if event not in survived]
    judge_problems = [event for event in fatal if _is_unrelated_judge_problem(event, fatal)]
    lasting = [event for event in (*survived, *judge_problems) if _is_lasting(event, events)]
    replaced = [
        event
        for event in fatal
        if progress.began_since(event.mark) and events.has_substitute(event)
    ]
    survived += [*judge_problems, *replaced]
    fatal = [event for event in fatal if event not in survived]
    if all(_is_in_passing(event, events, end) or _is_teardown(event) for event in fatal):
        survived, fatal = [*survived, *fatal], []
    fatal = _after_last_restart(fatal)
    survived += [event for event in fatal if _is_overcome(event, fatal)]
    fatal = [event for event in fatal if event not in survived]
    root = _yield_root(_find_root(fatal), fatal)
    if ended and (root is None or not _is_explanation(root)):
        unexplained = root or next(iter(torn), None)
        root = _find_failed_retry(events.retries, progress, unexplained) or root
    first_lasting: dict[str, Event] = {}
    for event in lasting:
        first_lasting.setdefault(event.rule.id if event.rule else "", event)
    return Story(
        root,
        tuple(event for event in fatal if event is not root and not _is_repeated(event, root)),
        tuple(first_lasting.values()),
        tuple(event for event in survived if event not in lasting),
    )


def _is_relevant(event: Event, events: Events, end: int) -> bool:
    if _is_clean_exit(event) or _is_generated_code(event, end):
        return False
    if event.rule is None:
        return True
    if event.rule.at_end and end - event.line.offset > NEAR_END:
        return False
    return events.count(event) >= event.rule.times


def _is_wrapper(event: Event, events: Sequence[Event]) -> bool:
    """Whether the line stands in the traceback of an exception that a rule explains."""
    if event.role is Role.CAUSE:
        return False
    return any(
        other.raised.begins <= event.line.number < other.line.number
        for other in events
        if other.raised is not None
        and other.raised.begins
        and other.rule is not None
        and other.line.source == event.line.source
    )


def _is_aside(event: Event) -> bool:
    """Whether an exit handler raised the exception, or a thread when training was over."""
    if event.raised is None or (event.rule and event.rule.severity is Severity.WARNING):
        return False
    is_late = event.raised.aside == "thread" and event.mark.is_over
    return event.raised.aside == "exit handler" or is_late


def _was_survived_before(event: Event, survived: Sequence[Event]) -> bool:
    """Whether the same exception from the same code had been raised before, and steps followed."""
    if not event.frames or event in survived:
        return False
    place = (event.category, event.frames[-1])
    return any((other.category, *other.frames[-1:]) == place for other in survived)


def _is_repeated(event: Event, root: Event | None) -> bool:
    """Whether an exception raised while the root was handled says the same, or less."""
    if root is None or not _is_chained(event, root) or _offset(event) <= _offset(root):
        return False
    return event.category == root.category or not (event.rule or event.frames)


def _is_clean_exit(event: Event) -> bool:
    """Whether a process exited without an error code, or was terminated after training."""
    if event.raised is None or event.raised.type.rpartition(".")[2] != "SystemExit":
        return False
    code = event.raised.message.strip()
    return code == "0" or (code in _TEARDOWN_CODES and event.mark.has_come_through)


def _is_generated_code(event: Event, end: int) -> bool:
    """Whether a program that a model wrote failed, and the log continues below it."""
    own_frames = [frame for frame in event.frames if not _INSTALLED.search(frame)]
    if not own_frames or not _GENERATED.match(own_frames[-1]):
        return False
    if any(map(_SPAWNED.search, event.frames)):
        return False
    outermost = own_frames[0]
    is_trainer = outermost.endswith(":<module>") and not _GENERATED.match(outermost)
    return not is_trainer and _has_text_below(event, end)


def _has_text_below(event: Event, end: int) -> bool:
    return end - event.line.offset - len(event.line.text.encode()) > _FEW_WORDS


def _is_lasting(event: Event, events: Events) -> bool:
    """Whether the problem persists during training. Retries and rare hints do no harm."""
    if event.rule is None or not event.rule.lasting or is_retry(event.line.text):
        return False
    if event.role is Role.HINT and events.count(event) < MANY_RETRIES:
        return False
    return events.count(event) >= event.rule.often


def _is_unrelated_judge_problem(event: Event, fatal: Sequence[Event]) -> bool:
    """Whether it is a problem with the judge, and training failed later for another reason."""
    if event.rule is None or not event.rule.lasting or not event.category.startswith("judge_"):
        return False
    return any(_is_unrelated_crash(crash, event) for crash in fatal)


def _is_unrelated_crash(crash: Event, judge_problem: Event) -> bool:
    """Whether ``crash`` came later, from code that has nothing to do with the judge.

    An exception that no rule knows counts only if training continued after the judge problem.
    """
    if _offset(crash) <= _offset(judge_problem) or crash.role is not Role.CAUSE:
        return False
    if crash.rule is None:
        has_trained = crash.mark.has_trained_since(judge_problem.mark)
        if not has_trained or crash.raised is None or not is_telling(crash.raised):
            return False
    if _JUDGE.search(" ".join((crash.category, crash.line.text, *crash.frames))):
        return False
    return not _is_chained(crash, judge_problem)


def _is_chained(event: Event, first: Event) -> bool:
    """Whether ``event`` may have been raised while ``first`` was handled."""
    if event.line.source != first.line.source or not first.frames:
        return False
    between = event.line.number - first.line.number
    return between <= _LINES_BETWEEN + LINES_OF_A_FRAME * len(event.frames)


def _is_in_passing(event: Event, events: Events, end: int) -> bool:
    """Whether a line without a complaint was printed a few times, and the log continues below."""
    line = event.line
    if event.rule is None or event.raised or line.level in LOUD or exception_in(line.text):
        return False
    is_frequent = events.count(event) >= max(event.rule.often, event.rule.times)
    return _has_text_below(event, end) and not is_frequent and not is_complaint(line.text)


def _is_teardown(event: Event) -> bool:
    """Whether a process died when training was over and its processes were terminated."""
    if event.role is Role.CAUSE or not event.mark.is_over:
        return False
    return not event.frames and not _OUT_OF_MEMORY.search(event.line.text)


def _after_last_restart(fatal: list[Event]) -> list[Event]:
    """Return what failed after a run that was stopped from outside had been restarted."""
    root = _find_root(fatal)
    if root is None or root.role is not Role.END:
        return fatal
    later = [event for event in fatal if event.mark.starts > root.mark.starts]
    later_root = _find_root(later)
    return later if later_root is not None and later_root.role is Role.CAUSE else fatal


def _is_overcome(event: Event, fatal: Sequence[Event]) -> bool:
    """Whether a start-up message did no harm: the program failed later for another reason."""
    if event.role not in (Role.CAUSE, Role.HINT) or event.frames or event.mark.has_trained:
        return False
    if _SILENT_DEATH.match(event.category):
        return False
    return any(_failed_later(other, event) for other in fatal)


def _failed_later(event: Event, first: Event) -> bool:
    """Whether ``event`` was raised well below ``first``, and is a cause of another category."""
    if event.role is not Role.CAUSE or event.raised is None or not is_telling(event.raised):
        return False
    if event.category == first.category:
        return False
    between = event.line.number - first.line.number - LINES_OF_A_FRAME * len(event.frames)
    if _SHELL.match(first.line.text) and between > _LINES_OF_A_BURST:
        return True
    return event.mark.has_trained_since(first.mark)


def _find_root(fatal: Sequence[Event]) -> Event | None:
    """Return the first known cause or external end.

    Before an external end, and without any of both, return the first event that says more than
    that something died.
    """
    # A warning does not explain an error.
    fatal = [
        event
        for event in fatal
        if event.rule is None
        or event.role is not Role.CAUSE
        or event.rule.severity in (Severity.CRITICAL, Severity.ERROR)
    ] or fatal
    causes = [event for event in fatal if event.rule is not None and event.role is Role.CAUSE]
    ends = [event for event in fatal if event.role is Role.END]
    first = min((*causes[:1], *ends[:1]), key=_offset, default=None)
    candidates = fatal
    if first is not None:
        if first.role is Role.CAUSE:
            return first
        earlier = (event for event in fatal if _offset(event) < _offset(first))
        candidates = [event for event in earlier if event.role is not Role.END]
    telling = [event for event in candidates if event.role is not Role.ECHO]
    return min(telling or candidates, key=_offset, default=first)


def _yield_root(root: Event | None, fatal: Sequence[Event]) -> Event | None:
    """Return the first event of a category to which the root's rule yields, or else the root."""
    if root is None or root.rule is None or not root.rule.yields_to:
        return root
    better = (event for event in fatal if event.rule and event.rule.category in root.rule.yields_to)
    return next(better, root)


def _is_explanation(root: Event) -> bool:
    """Whether it says why: not only that something died, nor an exception of no known kind."""
    if root.rule is None:
        return root.raised is not None and kind_of(root.raised) is not None
    return root.role is not Role.ECHO


def _find_failed_retry(
    retries: Iterable[Event], progress: Progress, unexplained: Event | None
) -> Event | None:
    """Return the first of the retries that never succeeded before the log ended.

    If an ``unexplained`` event ended it, one retry above that event is enough.
    """
    failed = [event for event in retries if not progress.went_on_since(event.mark)]
    if unexplained is not None:
        failed = [event for event in failed if _offset(event) < _offset(unexplained)]
        return failed[0] if failed else None
    if len(failed) < _MORE_THAN_CHANCE or progress.mark.offset - _offset(failed[-1]) > NEAR_END:
        return None
    return failed[0]


def _offset(event: Event) -> int:
    return event.line.offset
