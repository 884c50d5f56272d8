"""What a twin's end says about the run it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.doctor.finding import Finding, Severity
from engine.runs.state import RunState, describe

Outcome = Literal["infrastructure", "production config", "nothing wrong", "undecided"]

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
        return {"infrastructure": 1, "undecided": 3}.get(self.outcome, 0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def verdict(
    run_state: RunState, run: Sequence[Finding], twin_state: RunState, twin: Sequence[Finding]
) -> Verdict:
    """A twin that passes clears the infrastructure; one that fails accuses it."""
    if not twin_state.has_ended or twin_state.word in ("stopped", "lost"):
        text = f"the twin did not run to its end ({describe(twin_state)}), so it says nothing"
        return Verdict("undecided", text)
    there, here = _alarms(run), _alarms(twin)
    shared = tuple(family for family in here if family in there)
    others = tuple(family for family in here if family not in there)
    if shared:
        return Verdict("infrastructure", _same(shared), shared, others)
    if not twin_state.went_well or others:
        is_sick = bool(there) or not run_state.went_well
        text = _other(twin_state, others) if is_sick else _alone(twin_state, others)
        return Verdict("infrastructure", text, shared, others)
    if run_state.went_well and not there:
        return Verdict("nothing wrong", "the run shows nothing wrong, and neither does its twin")
    wrong = ", ".join(there) or describe(run_state)
    return Verdict(
        "production config",
        f"the twin passes: what is wrong ({wrong}) lies in what was shrunk, the production "
        "configuration; give values back to the twin until it fails",
    )


def _alarms(found: Sequence[Finding]) -> tuple[str, ...]:
    """Classes of findings that are more than worth knowing, root first."""
    loud = [one.family for one in found if one.severity is not Severity.INFO]
    return tuple(dict.fromkeys(loud))


def _same(shared: tuple[str, ...]) -> str:
    return (
        f"the twin fails the same way ({', '.join(shared)}): the cause is infrastructure, here "
        f"{_part(shared[0])}, not the size of the run"
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
