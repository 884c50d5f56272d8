"""What a twin's end says about the run it was made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.findings.finding import Finding, Severity
from engine.launch.outage import outside_cause
from engine.runs.rundir import Attempt
from engine.runs.state import RunState, describe

Outcome = Literal[
    "infrastructure", "kept value", "production config", "passed", "nothing wrong", "undecided"
]

_NOT = object()
_PARTS = {
    "judge": "the judge",
    "reward": "the reward",
    "data": "the data",
    "tokenizer": "the data",
    "context": "the data",
}


@dataclass(frozen=True)
class Verdict:
    """``shared``: classes of findings that both runs have; ``others``: that only the twin has."""

    outcome: Outcome
    text: str
    shared: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Of the command: it fails in small too, 1; nobody can say, 3; it does not, 0."""
        return {"infrastructure": 1, "kept value": 1, "undecided": 3}.get(self.outcome, 0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def verdict(
    run_state: RunState,
    run: Sequence[Finding],
    twin_state: RunState,
    twin: Sequence[Finding],
    attempt: Attempt | None = None,
) -> Verdict:
    """A twin that passes clears the infrastructure; one that fails accuses it, unless what both
    suffer from is a value of the recipe that the twin keeps. What the run suffered from outside
    (a judge that was down, a full disk) has passed when its twin passes. ``attempt`` is the run's
    last, whose samples tell who held the memory.
    """
    if not twin_state.has_ended or twin_state.word in ("stopped", "lost"):
        text = f"the twin did not run to its end ({describe(twin_state)}), so it says nothing"
        return Verdict("undecided", text)
    there, here = _alarms(run), _alarms(twin)
    shared = tuple(family for family in here if family in there)
    others = tuple(family for family in here if family not in there)
    if shared:
        kept = _named_by_both(run, twin, shared[0])
        if kept:
            return Verdict("kept value", _by_value(shared, kept), shared, others)
        return Verdict("infrastructure", _same(shared), shared, others)
    if not twin_state.went_well or others:
        is_sick = bool(there) or not run_state.went_well
        text = _other(twin_state, others) if is_sick else _alone(twin_state, others)
        return Verdict("infrastructure", text, shared, others)
    if run_state.went_well and not there:
        return Verdict("nothing wrong", "the run shows nothing wrong, and neither does its twin")
    wrong = ", ".join(there) or describe(run_state)
    if (outside := outside_cause(run_state, there, attempt)) is not None:
        return Verdict("passed", _passed(run_state, wrong, outside))
    return Verdict(
        "production config",
        f"the twin passes: what is wrong ({wrong}) lies in what was shrunk, the production "
        "configuration; give values back to the twin until it fails",
    )


def _passed(state: RunState, wrong: str, outside: str) -> str:
    onward = "" if state.went_well else ", and the run can be resumed"
    return (
        f"the twin passes, and the run suffered from {outside} ({wrong}): that has passed, or the "
        f"twin's smaller load does not cause it; the configuration is not to blame{onward}"
    )


def named_values(found: Iterable[Finding]) -> dict[str, object]:
    """Recipe keys whose value an alarm names as the cause: it is its evidence, and its remedy
    changes it."""
    alarms = _with_folded(one for one in found if one.severity is not Severity.INFO)
    return {
        change.key: change.before
        for one in alarms
        for remedy in one.remedies
        for change in remedy.changes
        if change.kind == "config"
        and any(seen.values.get(change.key, _NOT) == change.before for seen in one.evidence)
    }


def must_fail(kept: Mapping[str, object]) -> str:
    """What can be said before the launch of a twin that keeps these causes."""
    return (
        f"It keeps {_settings(kept)}, which the doctor names as the cause: it fails too, and "
        "shows nothing new."
    )


def _settings(values: Mapping[str, object]) -> str:
    return " and ".join(f"{key}={value}" for key, value in values.items())


def _with_folded(found: Iterable[Finding]) -> Iterator[Finding]:
    for one in found:
        yield one
        yield from _with_folded(one.followed_by)


def _named_by_both(
    run: Sequence[Finding], twin: Sequence[Finding], family: str
) -> dict[str, object]:
    there, here = (
        named_values(one for one in found if one.family == family) for found in (run, twin)
    )
    return {key: value for key, value in here.items() if there.get(key, _NOT) == value}


def _alarms(found: Sequence[Finding]) -> tuple[str, ...]:
    """Classes of findings that are more than worth knowing, root first."""
    loud = [one.family for one in found if one.severity is not Severity.INFO]
    return tuple(dict.fromkeys(loud))


def _same(shared: tuple[str, ...]) -> str:
    return (
        f"the twin fails the same way ({', '.join(shared)}): the cause is infrastructure, here "
        f"{_part(shared[0])}, not the size of the run"
    )


def _by_value(shared: tuple[str, ...], kept: Mapping[str, object]) -> str:
    return (
        f"the twin fails the same way ({', '.join(shared)}), as it must: it keeps "
        f"{_settings(kept)}, which the doctor names as the cause; apply the remedy of that"
    )


def _other(state: RunState, others: tuple[str, ...]) -> str:
    return f"the twin fails too, but in another way {_mend(state, others)}"


def _alone(state: RunState, others: tuple[str, ...]) -> str:
    return f"the twin fails, of a run that shows nothing wrong {_mend(state, others)}"


def _mend(state: RunState, others: tuple[str, ...]) -> str:
    how = ", ".join(others) or describe(state)
    part = _part(others[0]) if others else "engine, data or reward"
    return f"({how}): mend that first, it is infrastructure ({part}), then reproduce again"


def _part(family: str) -> str:
    return _PARTS.get(family.split("_", 1)[0], "the engine")
