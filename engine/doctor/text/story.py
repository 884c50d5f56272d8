"""Root cause, not last error: which of the events explains the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.doctor.text.events import MANY_RETRIES, Event, Events
from engine.doctor.text.progress import Progress
from engine.doctor.text.rules import Role
from engine.doctor.text.wording import is_retry


@dataclass(frozen=True)
class Story:
    """``root`` explains ``then``; ``lasting`` goes on beside training, ``handled`` did no harm."""

    root: Event | None
    then: tuple[Event, ...] = ()
    lasting: tuple[Event, ...] = ()
    handled: tuple[Event, ...] = ()


def tell(events: Events, progress: Progress) -> Story:
    """The first telling event wins over what followed from it and over what a run got over."""
    seen = [event for event in events.kept if not _too_few(event, events)]
    raised = [event for event in seen if not event.is_quoted]
    seen = raised or seen
    survived = [event for event in seen if progress.went_on_since(event.mark)]
    lasting = [event for event in survived if _goes_on(event, events)]
    fatal = [event for event in seen if event not in survived]
    root = _more_telling(_root(fatal), fatal)
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
    return lasts and not is_retry(event.line.text)


def _too_few(event: Event, events: Events) -> bool:
    return event.rule is not None and events.count(event) < event.rule.times


def _root(fatal: Sequence[Event]) -> Event | None:
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


def _before(end: Event, fatal: Sequence[Event]) -> list[Event]:
    return [event for event in fatal if _place(event) < _place(end) and event.role is not Role.END]


def _place(event: Event) -> int:
    return event.line.offset


def _one_each(events: Sequence[Event]) -> list[Event]:
    first: dict[str, Event] = {}
    for event in events:
        first.setdefault(event.rule.id if event.rule else "", event)
    return list(first.values())
