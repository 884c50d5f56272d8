"""What a derived run shows about its parent: the verdict of a repro, the effect of a fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.tail import last_lines
from engine.doctor.console import Stopped, never
from engine.doctor.live import RunFollower
from engine.findings.finding import Finding, Severity
from engine.runs.rundir import Attempt, RunDir, check_id
from engine.runs.state import RunState, describe


class Lineage:
    """The run that ``run`` was made from, and what is wrong with that one."""

    def __init__(self, run: RunDir) -> None:
        parent = run.read_manifest().get("parent") or {}
        self._name, self._relation = parent.get("run", ""), parent.get("relation")
        original = _beside(run, self._name)
        self._original = original
        self._doctor = RunFollower(original) if original is not None else None

    def told(self, state: RunState, found: Sequence[Finding], stopped: Stopped = never) -> str:
        """One sentence; empty for a run that was made from no other.

        ``state`` and ``found`` are of the run itself. OSError where files cannot be read.
        """
        if not self._name:
            return ""
        if self._doctor is None or self._original is None or not self._original.manifest.is_file():
            return f"{self._relation} of {self._name}, which no longer exists"
        theirs, trouble = self._doctor.look(stopped)
        attempt = self._original.attempt(theirs.attempt)
        if self._relation == "reproduction":
            return f"twin of {self._name}: {_of_twin(state, found, theirs, trouble, attempt)}"
        return f"remedy of {self._name}: {_help(state, found, theirs, trouble)}"


def _beside(run: RunDir, name: str) -> RunDir | None:
    try:
        original = RunDir(run.path.parent / check_id(name))
    except UsageError:
        return None
    return original if original.manifest.is_file() and original.path != run.path else None


def _of_twin(
    state: RunState,
    found: Sequence[Finding],
    theirs: RunState,
    trouble: Sequence[Finding],
    attempt: Attempt,
) -> str:
    if not state.has_ended:
        return "the verdict comes when it ends"
    return verdict(theirs, trouble, state, found, attempt).text


def _help(
    state: RunState, found: Sequence[Finding], theirs: RunState, trouble: Sequence[Finding]
) -> str:
    """Whether the root trouble of the original is gone, once the run has come as far."""
    root = next((one for one in trouble if one.severity.is_alarm), None)
    if root is None:
        return "that run has no alerts so far"
    if any(one.family == root.family and one.severity.is_alarm for one in found):
        return f"it did not help: {root.family} occurred again"
    onset, step = root.onset_step or theirs.step or 0, state.step or 0
    if step <= onset and not state.went_well:
        return f"it is too early to say (step {step}; {root.family} came at {onset})"
    others = [one.family for one in found if one.severity.is_alarm]
    more = f", but now there is {', '.join(dict.fromkeys(others))}" if others else ""
    return f"it helped: {root.family} is gone at step {step}{more}"


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
    return f"({how}): fix this infrastructure problem first ({part}), then reproduce again"


def _part(family: str) -> str:
    return _PARTS.get(family.split("_", 1)[0], "the engine")


_OUTSIDE = {
    "judge_content_filter": "",
    "judge_": "the judge",
    "model_not_found_or_hub": "the model hub or the network",
    "wandb_": "W&B or the network",
    "nccl_timeout_or_error": "the network between the ranks",
    "checkpoint_disk_full": "the disk",
    "permission_or_fd_limit": "the file system or its limits",
    "port_in_use": "a port that another process held",
    "ray_start_or_worker_died": "a process of the run that died",
    "job_cancelled_or_interrupted": "a signal from outside",
}
"""What an alarm blames, by the beginning of its class; the first match counts. Empty: the
configuration may be to blame."""

_REASONS = (
    (re.compile(r"no space left|disk is full|quota exceeded", re.IGNORECASE), "the disk"),
    (re.compile(r"killed by SIG|from outside"), "a signal from outside"),
    (re.compile(r"(gcs_server|raylet|zygote)\b.* died"), "a process of the run that died"),
    (re.compile(r"machine was restarted|supervisor"), "the machine or its supervisor"),
)
_MEMORY = ("host_oom", "cuda_oom_training", "cuda_oom_rollout")
_FULL, _MOSTLY = 0.8, 0.5
_SAMPLES, _BYTES = 20, 1 << 20


def outside_cause(
    state: RunState, families: Sequence[str], attempt: Attempt | None = None
) -> str | None:
    """What a run failed of that is no matter of its configuration; None where it may be one.

    ``families`` are the classes of its alarms, root first: only the root counts, since the others
    may follow from it. Memory counts where other processes held most of it, by ``attempt``.
    """
    if not families:
        reason = state.reason or ""
        return next((what for seen, what in _REASONS if seen.search(reason)), None)
    root = families[0]
    if root in _MEMORY:
        return _memory_of_others(attempt, "gpu" if root.startswith("cuda") else "host")
    return next((what for start, what in _OUTSIDE.items() if root.startswith(start)), "") or None


def _memory_of_others(attempt: Attempt | None, where: str) -> str | None:
    """Whether memory was nearly full near the end of the attempt, mostly with other processes."""
    if attempt is None or not attempt.system.is_file():
        return None
    samples = [jsonl.parse_line(raw) for raw in last_lines(attempt.system, _SAMPLES, _BYTES)]
    for sample in filter(None, reversed(samples)):
        for used, total, own in _memories(sample, where):
            if used >= _FULL * total and used - own > _MOSTLY * used:
                held = f"{(used - own) / 2**30:.1f} of {total / 2**30:.1f} GiB"
                return f"other processes on the machine, which held {held} of {where} memory"
    return None


def _memories(sample: dict[str, Any], where: str) -> list[tuple[float, float, float]]:
    """``(used, total, the run's own)`` in bytes, of the host or of each GPU."""
    if where == "host":
        run = sample.get("run") or {}
        rows = [(sample.get("mem_used"), sample.get("mem_total"), run.get("pss") or run.get("rss"))]
    else:
        gpus = sample.get("gpus") or []
        rows = [(gpu.get("mem_used"), gpu.get("mem_total"), gpu.get("run_mem")) for gpu in gpus]
    known = [[jsonl.number(value) for value in row] for row in rows]
    return [(row[0], row[1], row[2]) for row in known if None not in row]  # type: ignore[misc]
