"""Root cause, not last error: which of the events explains the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.doctor.text.events import LINES_OF_A_FRAME, MANY_RETRIES, Event, Events
from engine.doctor.text.matching import LOUD
from engine.doctor.text.progress import Progress
from engine.doctor.text.rules import Role
from engine.doctor.text.tracebacks import exception_in
from engine.doctor.text.unknown import is_telling, kind_of
from engine.doctor.text.wording import is_complaint, is_retry
from engine.findings.finding import Severity

NEAR_END = 2000
"""Bytes before the end of a log that its last words take."""
_FEW_WORDS = 200
"""Bytes of a log that may be the rest of what is said on a line."""
_MORE_THAN_CHANCE = 3
_OF_THE_JUDGE = re.compile(
    r"reward|judge|(?<![a-z])grad(?:e|er|ing)\b|scor|verif(?:y|ier\b)"
    r"|openai|litellm|anthropic|httpx|httpcore|aiohttp|requests/",
    re.IGNORECASE,
)
_OUT_OF_MEMORY = re.compile(r"\bKilled\b")
"""Said by shells, maybe while a trained model was being saved."""
_LINES_BETWEEN = 6
"""Lines between an exception and the first frame of one that was raised while it was handled."""
_LINES_OF_A_BURST = 3
"""Lines between a remark and the traceback that it led to."""
_CODES_OF_AN_END = ("", "0", "143")
"""Of ``sys.exit`` in processes that are taken down."""
_WRITTEN = re.compile(r"<string>:|\S*/(?:tmp|T|shm)/tmp\w{3,}(?:/|\.py:)")
"""Frames of text that was executed, or was put into a temporary file for that."""
_INSTALLED = re.compile(r"(?:site|dist)-packages/|/lib/python3")
_SPAWNED = re.compile("multiprocessing/|torch/distributed/|runpy|ray:task")
_OF_A_SHELL = re.compile(
    r"\S+: line \d+: |(?:ls|rm|cp|mv|ln|cat|mkdir|chmod|ulimit|module|source): |mkdir -p "
)
"""Said by the script that starts the program."""
_IN_SILENCE = re.compile("cuda_oom|host_oom|nccl|driver|ray_start")
"""Families of troubles that end a process of many in a line, while others go on for a while."""


@dataclass(frozen=True)
class Story:
    """``root`` explains ``then``; ``lasting`` goes on beside training, ``handled`` did no harm."""

    root: Event | None
    then: tuple[Event, ...] = ()
    lasting: tuple[Event, ...] = ()
    handled: tuple[Event, ...] = ()


def tell(
    events: Events, progress: Progress, torn: Sequence[Event] = (), *, ended: bool = True
) -> Story:
    """The first telling event wins over what followed from it and over what a run got over.

    ``torn`` is what a log has ``ended`` in: tracebacks without their exceptions, last words.
    """
    end = progress.mark.offset
    seen = [event for event in events.kept if _counts(event, events, end)]
    raised = [event for event in seen if not event.is_quoted]
    seen = [*(raised or seen), *(event for event in torn if _is_telling(event))]
    survived = [event for event in seen if progress.went_on_since(event.mark)]
    lasting = [event for event in survived if _goes_on(event, events)]
    fatal = [event for event in seen if event not in survived]
    beside = [event for event in fatal if _stands_beside(event, fatal)]
    lasting += [event for event in beside if _goes_on(event, events)]
    beside += [event for event in fatal if _is_replaced(event, events, progress)]
    survived, fatal = [*survived, *beside], [event for event in fatal if event not in beside]
    if all(_did_no_harm(event, events, end) for event in fatal):
        survived, fatal = [*survived, *fatal], []
    fatal = _of_the_last_start(fatal)
    passed = [event for event in fatal if _is_said_before(event, fatal)]
    survived, fatal = [*survived, *passed], [event for event in fatal if event not in passed]
    root = _more_telling(_root(fatal), fatal)
    if ended and (root is None or _is_unexplained(root)):
        unexplained = root or next(iter(torn), None)
        root = _ended_of(events.tried_again, progress, unexplained) or root
    return Story(
        root,
        tuple(event for event in fatal if event is not root),
        tuple(_one_each(lasting)),
        tuple(event for event in survived if event not in lasting),
    )


def _goes_on(event: Event, events: Events) -> bool:
    """Trouble beside training; what was tried again or only hinted at once did no harm."""
    lasts = event.rule is not None and event.rule.lasting
    if event.role is Role.HINT and events.count(event) < MANY_RETRIES:
        return False
    if event.rule is not None and events.count(event) < event.rule.often:
        return False
    return lasts and not is_retry(event.line.text)


def _counts(event: Event, events: Events, end: int) -> bool:
    if _is_good_exit(event) or _is_of_a_test(event, end):
        return False
    if event.rule is None:
        return True
    if event.rule.at_end and end - event.line.offset > NEAR_END:
        return False
    return events.count(event) >= event.rule.times


def _is_good_exit(event: Event) -> bool:
    """Whether a process left without an error code, or was told to leave after training."""
    if event.raised is None or event.raised.type.rpartition(".")[2] != "SystemExit":
        return False
    code = event.raised.message.strip()
    return code == "0" or (code in _CODES_OF_AN_END and event.mark.has_come_through)


def _is_of_a_test(event: Event, end: int) -> bool:
    """Whether a program that a model wrote broke, and the log goes on below it."""
    own = [place for place in event.frames if not _INSTALLED.search(place)]
    if not own or not _WRITTEN.match(own[-1]) or any(map(_SPAWNED.search, event.frames)):
        return False
    is_of_the_trainer = own[0].endswith(":<module>") and not _WRITTEN.match(own[0])
    return not is_of_the_trainer and _goes_on_below(event, end)


def _goes_on_below(event: Event, end: int) -> bool:
    return end - event.line.offset - len(event.line.text.encode()) > _FEW_WORDS


def _is_in_passing(event: Event, events: Events, end: int) -> bool:
    """Whether a line that does not complain was said a few times, and the log goes on after it."""
    line = event.line
    if event.rule is None or event.raised or line.level in LOUD or exception_in(line.text):
        return False
    said_often = events.count(event) >= max(event.rule.often, event.rule.times)
    return _goes_on_below(event, end) and not said_often and not is_complaint(line.text)


def _did_no_harm(event: Event, events: Events, end: int) -> bool:
    return _is_in_passing(event, events, end) or _is_of_the_end(event)


def _is_of_the_end(event: Event) -> bool:
    """Whether it is one of the processes that die when training is over and they are taken down."""
    if event.role is Role.CAUSE or not event.mark.is_over:
        return False
    return not event.frames and not _OUT_OF_MEMORY.search(event.line.text)


def _is_replaced(event: Event, events: Events, progress: Progress) -> bool:
    """Whether the program uses something else instead, and has come further in its start."""
    return progress.began_since(event.mark) and events.has_substitute(event)


def _stands_beside(event: Event, fatal: Sequence[Event]) -> bool:
    """Whether it is trouble with the judge, and training broke later of something else."""
    if event.rule is None or not event.rule.lasting or not event.rule.family.startswith("judge_"):
        return False
    return any(_broke_training(other, event) for other in fatal)


def _broke_training(event: Event, judge: Event) -> bool:
    """Whether ``event`` came later, out of code that has nothing to do with the judge."""
    if _place(event) <= _place(judge) or event.role is not Role.CAUSE:
        return False
    if event.rule is None and not _is_of_its_own(event, judge):
        return False
    told = " ".join((event.rule.family if event.rule else "", event.line.text, *event.frames))
    return not _OF_THE_JUDGE.search(told) and not _is_chained(event, judge)


def _is_of_its_own(event: Event, first: Event) -> bool:
    """Whether an exception that no rule knows came when training had gone on after ``first``."""
    went_on = event.mark.has_trained_since(first.mark)
    return went_on and event.raised is not None and is_telling(event.raised)


def _is_chained(event: Event, first: Event) -> bool:
    """Whether ``event`` may have been raised while ``first`` was handled."""
    if event.line.source != first.line.source or not first.frames:
        return False
    between = event.line.number - first.line.number
    return between <= _LINES_BETWEEN + LINES_OF_A_FRAME * len(event.frames)


def _of_the_last_start(fatal: list[Event]) -> list[Event]:
    """What broke after a run that was stopped from outside had been started again."""
    root = _root(fatal)
    if root is None or root.role is not Role.END:
        return fatal
    later = [event for event in fatal if event.mark.starts > root.mark.starts]
    broke = _root(later)
    return later if broke is not None and broke.role is Role.CAUSE else fatal


def _is_said_before(event: Event, fatal: Sequence[Event]) -> bool:
    """Whether a line of a start-up was got over: the program broke later of something else."""
    if event.role not in (Role.CAUSE, Role.HINT) or event.frames or event.mark.has_trained:
        return False
    if _IN_SILENCE.match(event.family):
        return False
    return any(_broke_later(other, event) for other in fatal)


def _broke_later(event: Event, first: Event) -> bool:
    """Whether ``event`` was raised well below ``first``, and is a cause of another kind."""
    if event.role is not Role.CAUSE or event.raised is None or not is_telling(event.raised):
        return False
    if event.family == first.family:
        return False
    between = event.line.number - first.line.number - LINES_OF_A_FRAME * len(event.frames)
    if _OF_A_SHELL.match(first.line.text) and between > _LINES_OF_A_BURST:
        return True
    return event.mark.has_trained_since(first.mark)


def _is_telling(torn: Event) -> bool:
    return torn.rule is not None or (torn.raised is not None and is_telling(torn.raised))


def _is_unexplained(root: Event) -> bool:
    if root.role is Role.ECHO:
        return True
    return root.rule is None and (root.raised is None or kind_of(root.raised) is None)


def _ended_of(
    tried: Sequence[Event], progress: Progress, unexplained: Event | None
) -> Event | None:
    """What was tried again without success until the log ended, with an error or without."""
    open_ = [event for event in tried if not progress.went_on_since(event.mark)]
    if unexplained is not None:
        open_ = [event for event in open_ if _place(event) < _place(unexplained)]
    elif open_ and progress.mark.offset - _place(open_[-1]) > NEAR_END:
        return None
    is_many = len(open_) >= (_MORE_THAN_CHANCE if unexplained is None else 1)
    return open_[0] if is_many else None


def _root(fatal: Sequence[Event]) -> Event | None:
    # What only warns explains no error.
    fatal = [event for event in fatal if not _only_warns(event)] or fatal
    causes = [event for event in fatal if _is_cause(event)]
    ends = [event for event in fatal if event.role is Role.END]
    first = min((*causes[:1], *ends[:1]), key=_place, default=None)
    if first is not None and (first in causes or not _before(first, fatal)):
        return first
    rest = [event for event in fatal if event not in causes and event not in ends]
    if first is not None:
        rest = _before(first, fatal)
    return _of_the_rest(rest)


def _of_the_rest(rest: Sequence[Event]) -> Event | None:
    """Without a known cause the first event that says more than that something died."""
    telling = [event for event in rest if event.role is not Role.ECHO]
    return min(telling or rest, key=_place, default=None)


def _more_telling(root: Event | None, fatal: Sequence[Event]) -> Event | None:
    """A rule may yield to families that explain more."""
    if root is None or root.rule is None or not root.rule.yields_to:
        return root
    better = (event for event in fatal if event.rule and event.rule.family in root.rule.yields_to)
    return next(better, root)


def _is_cause(event: Event) -> bool:
    return event.rule is not None and event.role is Role.CAUSE


def _only_warns(event: Event) -> bool:
    return _is_cause(event) and event.rule is not None and event.rule.severity is Severity.WARNING


def _before(end: Event, fatal: Sequence[Event]) -> list[Event]:
    return [event for event in fatal if _place(event) < _place(end) and event.role is not Role.END]


def _place(event: Event) -> int:
    return event.line.offset


def _one_each(events: Sequence[Event]) -> list[Event]:
    first: dict[str, Event] = {}
    for event in events:
        first.setdefault(event.rule.id if event.rule else "", event)
    return list(first.values())
