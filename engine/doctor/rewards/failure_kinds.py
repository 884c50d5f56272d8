"""Why a rollout has no reward: what each class of error means, what shows it, and what cures it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

from engine.checks.estimate.judge import allowed
from engine.run import fixes
from engine.run.finding import Fix
from engine.run.finding_kind import Case, FindingKind
from engine.run.finding_kind_file import FindingKinds

_OWN = "reward_function_error"
"""The category of what a user's reward function can do, whose messages are not those of a judge."""


@dataclass(frozen=True, kw_only=True)
class FailureKind(FindingKind):
    """A class of errors that the reward records (``ErrorKind``), or a more specific one.

    An error whose message matches the pattern ``message`` is of this class, if it was recorded as
    one of the classes ``of``, which are separated by spaces (empty: as any). ``retried``: the judge
    repeats such calls.
    """

    message: str = ""
    of: str = ""
    retried: bool = False

    def is_shown_by(self, kind: str, message: str) -> bool:
        if self.of and kind not in self.of.split():
            return False
        return re.search(self.message, message, re.IGNORECASE) is not None


class _FailureKinds(FindingKinds):
    """The kinds by the classes of errors. ``retries_CLASS`` tells of calls that were repeated."""

    kind_type = FailureKind

    @cached_property
    def with_message(self) -> dict[str, FailureKind]:
        """The classes that messages show, in the order in which they count."""
        kinds = self._finding_kinds.items()
        return {
            name: kind for name, kind in kinds if isinstance(kind, FailureKind) and kind.message
        }

    @cached_property
    def _finding_kinds(self) -> dict[str, FindingKind]:
        kinds = dict(super()._finding_kinds)
        retries = kinds.pop("retries")
        retried = {
            f"retries_{name}": replace(
                retries,
                id=f"{kind.category}.retries",
                cause=f"{kind.cause} {retries.cause}",
                shape=retries.shape.format(kind=name),
                fixes=kind.fixes,
            )
            for name, kind in kinds.items()
            if isinstance(kind, FailureKind) and kind.retried
        }
        return retried | {
            name: replace(kind, shape=kind.shape.format(kind=name)) for name, kind in kinds.items()
        }


def _fewer_calls(case: Case, refused: float = 0.5) -> Fix:
    """Propose the concurrency that the server accepts if it refused this share of the calls."""
    key, title = "judge.max_concurrent", "Lower judge.max_concurrent"
    effect = "no more calls than the server accepts"
    limit = case.context.get(key)
    if not isinstance(limit, int):
        return Fix(title, (), effect)
    return fixes.setting(case.context, key, allowed(limit, refused), title, effect)


FAILURES = _FailureKinds(__file__, fewer_calls=_fewer_calls)


def failure_kind(kind: str) -> FindingKind:
    """What a class of errors means; the code of the reward raised one that is not known."""
    return FAILURES.get(kind, FAILURES["other"])


def fixes_of(kind: str, case: Case, refused: float) -> tuple[Fix, ...]:
    """Return the fixes for an error kind; ``refused`` is the share of calls that failed with it."""
    first, *others = failure_kind(kind).fixes(case)
    return (_fewer_calls(case, refused) if kind == "rate_limit" else first, *others)


def refine_kind(kind: str, message: str, *, is_own: bool = False) -> str:
    """Return a more specific class of an error if its message shows one.

    ``is_own``: a reward function of the user failed, and not the judge.
    """
    specific = (
        name
        for name, failure in FAILURES.with_message.items()
        if (not is_own or failure.category == _OWN) and failure.is_shown_by(kind, message)
    )
    return next(specific, kind)
