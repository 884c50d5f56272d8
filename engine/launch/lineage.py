"""What a derived run shows about its parent: the verdict of a repro, the effect of a fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engine.base.errors import UsageError
from engine.base.follow import last_lines
from engine.base.quantities import format_count, format_size
from engine.base.text import format_config_value
from engine.base.typed import decode_record
from engine.doctor.live import RunFollower
from engine.doctor.text.findings import Stopped, never
from engine.launch.rescore import pick_step, row_key
from engine.launch.resume import resume_step
from engine.run.categories import find_category
from engine.run.finding import Finding, flattened
from engine.run.history.reward_records import Key, RewardRecord, RewardRecords
from engine.run.manifest import values_of
from engine.run.run import Attempt, Run, check_id
from engine.run.state import RunState, describe, observed_state
from engine.run.system_sample import SystemSample
from engine.run.trust import UntrustedError

_ABSENT = object()


class Lineage:
    """The parent of a run, followed as it grows."""

    def __init__(self, run: Run) -> None:
        parent = run.read_manifest().parent
        self._relation = parent.relation if parent else ""
        self._phrase = parent.phrase if parent else ""
        try:
            sibling = Run(run.path.parent / check_id(parent.run if parent else ""))
        except UsageError:
            sibling = run
        is_there = sibling.path != run.path and sibling.manifest_file.is_file()
        self._parent = sibling if is_there else None
        is_compared = self._parent is not None and self._relation != "relaunch"
        self._doctor = RunFollower(self._parent) if is_compared and self._parent else None
        self._run, self._comparison = run, Comparison()

    def describe(
        self, state: RunState, findings: Sequence[Finding], stopped: Stopped = never
    ) -> str:
        """One sentence about a derived run; empty for any other run.

        ``state`` and ``findings`` are of the run itself. OSError if files cannot be read.
        """
        if not self._phrase:
            return ""
        if self._parent is None or not self._parent.manifest_file.is_file():
            return f"{self._phrase}, which no longer exists"
        if self._doctor is None:
            return self._phrase
        parent_state, parent_findings = self._doctor.diagnose(stopped)
        if self._relation != "reproduction":
            effect = _effect_of_fix(state, findings, parent_state, parent_findings)
            return f"{self._phrase}: {effect}"
        if not state.has_ended:
            return f"{self._phrase}: the verdict comes when it ends"
        if self._comparison == Comparison():  # Neither run changes any more: read once.
            self._comparison = compare_small(self._parent, self._run)
        conclusion = verdict(parent_state, parent_findings, state, findings, self._comparison)
        return f"{self._phrase}: {conclusion.text}"


def _effect_of_fix(
    state: RunState,
    findings: Sequence[Finding],
    parent_state: RunState,
    parent_findings: Sequence[Finding],
) -> str:
    """Whether the parent's root cause is gone, once the run has come as far."""
    root = next((finding for finding in parent_findings if finding.severity.is_alert), None)
    if root is None:
        return "that run has no alerts so far"
    alerts = _alerts(findings)
    if root.category in alerts:
        return f"it did not help: {root.category} occurred again"
    onset, step = root.onset_step or parent_state.step or 0, state.step or 0
    if step <= onset and not state.went_well:
        return f"it is too early to say (step {step}; {root.category} came at {onset})"
    new = f", but now there is {', '.join(alerts)}" if alerts else ""
    return f"it helped: {root.category} is gone at step {step}{new}"


Outcome = Literal[
    "infrastructure", "kept value", "own code", "production config", "passed", "nothing wrong",
    "undecided",
]  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """``shared``: categories of findings that both runs have; ``others``: only the small run."""

    outcome: Outcome
    text: str
    shared: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Of the command: 1 if the small run fails too, 3 if there is no verdict, else 0."""
        if self.outcome == "own code":
            return 1 if self.shared else 0
        return {"infrastructure": 1, "kept value": 1, "undecided": 3}.get(self.outcome, 0)


@dataclass(frozen=True)
class Comparison:
    """What a verdict needs to know about a run and its small run besides states and findings.

    ``values`` are those of the small run. ``own_files`` are the run's own code: reward, tools, data
    set class. ``missed`` says which failing rows the small run did not train on, and ``reduced``
    how much less it did, as in ``20 of 320 scored rollouts``: both are half a sentence. ``attempt``
    is the run's last one, whose samples show which processes held the memory.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    own_files: tuple[str, ...] = ()
    missed: str = ""
    reduced: str = ""
    is_resumable: bool = False
    attempt: Attempt | None = None


def compare_small(run: Run, small: Run) -> Comparison:
    """Compare a run with its small run, which has ended."""
    manifest = run.read_full_manifest()
    own = [*manifest.code, *manifest.tools]
    if data_class := manifest.value("data.custom_cls.path"):
        own.append(str(data_class))
    try:
        is_resumable = resume_step(run) > 0
    except (UsageError, UntrustedError):
        is_resumable = False
    counted = {
        "scored rollouts": [sum(map(len, _rewards(one))) for one in (run, small)],
        "steps": [observed_state(one).step or 0 for one in (run, small)],
    }
    return Comparison(
        values_of(small.read_config()),
        tuple(own),
        _missed_rows(run, small),
        " and ".join(
            f"{few} of {all_} {unit}" for unit, (all_, few) in counted.items() if few < all_
        ),
        is_resumable,
        next(reversed(run.attempts()), None),
    )


def _missed_rows(run: Run, small: Run) -> str:
    """Which rows failed in the run and were not scored in the small one; empty if none."""
    picked = pick_step(run)
    if picked is None or not picked.failing:
        return ""
    trained = {row_key(record) for records in _rewards(small) for record in records.values()}
    missed = {row_key(record) for record in picked.failing} - trained
    if not missed:
        return ""
    return f"{format_count(len(missed), 'row')} of step {picked.step}, {picked.why}"


def _rewards(run: Run) -> Iterator[Mapping[Key, RewardRecord]]:
    """The reward records of each training step of the last attempt."""
    for attempt in run.attempts()[-1:]:
        records = RewardRecords(attempt.reward)
        records.poll()
        yield from (records.at("train", step) for step in records.steps("train"))


def verdict(
    run_state: RunState,
    run: Sequence[Finding],
    repro_state: RunState,
    repro: Sequence[Finding],
    compared: Comparison = Comparison(),
) -> Verdict:
    """Compare a run with its small-scale reproduction.

    A small run that passes clears the infrastructure. One that fails accuses it, unless a shared
    cause is a config value that the small run did not change. An exception in the run's own code is
    the fault of neither. A cause from outside (a judge that was down, a full disk) is over if the
    small run passes. A small run that did not see the failing rows does not accuse the config.
    """
    if not repro_state.has_ended or repro_state.word in ("stopped", "lost"):
        text = f"the small run did not finish ({describe(repro_state)}): no verdict"
        return Verdict("undecided", text)
    run_alerts, known = _alerts(run), {alert.category for alert in _alerts_below(run)}
    families = [tuple(alert.category for alert in _alerts_below([one])) for one in repro]
    shared = tuple(dict.fromkeys(name for names in families for name in names if name in known))
    others = tuple(names[0] for names in families if names and not known & {*names})
    place = _own_place(run, run_alerts, compared.own_files)
    if shared:
        outcome, text = _shared_verdict(run, repro, shared, compared)
        return Verdict(outcome, text, shared, others)
    is_healthy = run_state.went_well and not run_alerts
    if not repro_state.went_well or others:
        problem = ", ".join(others) or describe(repro_state)
        part = find_category(others[0]).part if others else "engine, data or reward"
        contrast = "although the run has no alerts" if is_healthy else "but in another way"
        text = (
            f"the small run fails, {contrast} ({problem}): fix this infrastructure problem first "
            f"({part}), then reproduce again"
        )
        return Verdict("infrastructure", text, shared, others)
    if is_healthy:
        return Verdict("nothing wrong", "neither the run nor the small run has alerts")
    problem = ", ".join(run_alerts) or describe(run_state)
    if (outside := outside_cause(run_state, run_alerts, compared.attempt)) is not None:
        is_resumable = compared.is_resumable and not run_state.went_well
        text = (
            f"the small run passes, and the cause of {problem} was {outside}: it is over, or the "
            "load of the small run is too low to cause it; the config is not to blame"
            f"{'. The run can be resumed' if is_resumable else ''}"
        )
        return Verdict("passed", text)
    return _passed_verdict(problem, place, compared)


def _passed_verdict(problem: str, place: str | None, compared: Comparison) -> Verdict:
    """Judge a small run that passes where nothing outside explains the failure of the run."""
    missed = f"the small run did not train on {compared.missed}" if compared.missed else ""
    less = f"it did {compared.reduced}" if compared.reduced else ""
    if place is not None:
        seen = "; ".join(part for part in (missed, less) if part)
        return Verdict(
            "own code",
            f"the small run passes: the problem ({problem}) is in the run's own code, "
            f"{place}, not in the config and not in the infrastructure"
            f"{f'. It may need more to occur: {seen}' if seen else ''}",
        )
    if missed:
        return Verdict(
            "undecided",
            f"the small run passes, but {missed}: the problem ({problem}) may be in those rows. "
            "This does not show whether the config causes it",
        )
    return Verdict(
        "production config",
        f"the small run passes: the problem ({problem}) is in the production config. Restore the "
        "reduced values one by one until it fails",
    )


def _shared_verdict(
    run: Sequence[Finding],
    repro: Sequence[Finding],
    shared: tuple[str, ...],
    compared: Comparison,
) -> tuple[Outcome, str]:
    """Judge runs with the same alerts: an unchanged value is the cause if the run's diagnosis names
    it for one of them, but not where the first one is an outage."""
    same = f"the small run fails in the same way ({', '.join(shared)})"
    root = find_category(shared[0])
    common = [one for one in run if {*shared} & {a.category for a in _alerts_below([one])}]
    kept = {**compared.values, **named_values(repro)}
    named = named_values(common) if root.external is None else {}
    values = {key: value for key, value in named.items() if kept.get(key, _ABSENT) == value}
    if values:
        return "kept value", (
            f"{same}, as expected: it did not change {_settings(values)}, which diagnose names as "
            "the cause. Apply its fix"
        )
    if (place := _own_place(repro, shared[:1], compared.own_files)) is not None:
        return "own code", (
            f"{same}: the cause is the run's own code, {place}, not the config, the engine or the "
            "size of the run"
        )
    return "infrastructure", (
        f"{same}: the cause is infrastructure, here {root.part}, not the size of the run"
    )


_PLACE = re.compile(r"""([^\s"'(]+\.py)(?:", line |:)([\w<>]+)""")


def _own_place(
    findings: Iterable[Finding], categories: Sequence[str], own_files: Sequence[str]
) -> str | None:
    """``rewards/rw.py:12`` or ``rewards/rw.py:score``: the innermost place of the run's own code in
    the evidence of the root cause, the first of ``categories``; None for another cause."""
    names = {*categories[:1]} - {*_MEMORY}
    roots = [finding for finding in findings if finding.category in names]
    texts = [proof.text for one in flattened(roots) for proof in one.evidence]
    for text in texts:
        # A rollout's evidence quotes its response after the message.
        for path, line in reversed(_PLACE.findall(text.partition(" | ")[0])):
            for file in own_files:
                if f"/{file}".endswith(f"/{path}") or f"/{path}".endswith(f"/{file}"):
                    return f"{file}:{line}"
    return None


def named_values(findings: Iterable[Finding]) -> dict[str, object]:
    """Return config values that an alert names as the cause.

    Its evidence has the value, and its fix changes it.
    """
    return {
        change.key: change.before
        for alert in _alerts_below(findings)
        for fix in alert.fixes
        for change in fix.changes
        if change.kind == "config"
        and any(proof.values.get(change.key, _ABSENT) == change.before for proof in alert.evidence)
    }


def must_fail(values: Mapping[str, object]) -> str:
    """What to say before the launch of a repro that does not change these causes."""
    return (
        f"The small run does not change {_settings(values)}, which diagnose names as the cause: it "
        "will fail as well, and show nothing new."
    )


def _settings(values: Mapping[str, object]) -> str:
    return " and ".join(f"{key}={format_config_value(value)}" for key, value in values.items())


def _alerts_below(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The alerts and their consequences, root cause first."""
    return (
        finding
        for finding in flattened(one for one in findings if one.severity.is_alert)
        if finding.severity.is_alert
    )


def _alerts(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The categories of the alerts, root cause first."""
    alerts = [finding.category for finding in findings if finding.severity.is_alert]
    return tuple(dict.fromkeys(alerts))


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
    state: RunState, categories: Sequence[str], attempt: Attempt | None = None
) -> str | None:
    """The cause of a failure that has nothing to do with the config; None if the config may be it.

    ``categories`` are those of the run's alerts. Only the first one, the root cause, counts, since
    the others may follow from it. Memory counts as outside if other processes held most of it, by
    the samples of ``attempt``.
    """
    if not categories:
        reason = state.reason or ""
        return next((cause for pattern, cause in _REASONS if pattern.search(reason)), None)
    root = categories[0]
    if root in _MEMORY:
        return _memory_of_others(attempt, "gpu" if root.startswith("cuda") else "host")
    return find_category(root).external


def _memory_of_others(attempt: Attempt | None, device: str) -> str | None:
    """Whether memory was nearly full near the end of the attempt, mostly with other processes."""
    if attempt is None or not attempt.system.is_file():
        return None
    lines = last_lines(attempt.system, _SAMPLES, _BYTES)
    samples = [decode_record(line, SystemSample) for line in lines]
    for sample in filter(None, reversed(samples)):
        host = (sample.mem_used, sample.mem_total, sample.run.memory)
        of_gpus = [(gpu.mem_used, gpu.mem_total, gpu.run_mem) for gpu in sample.gpus]
        for used, total, of_run in [host] if device == "host" else of_gpus:
            if used is None or total is None or of_run is None:
                continue
            if used >= _FULL * total and used - of_run > _MOSTLY * used:
                size = f"{format_size(used - of_run)} of {format_size(total)}"
                return f"other processes on the machine, which held {size} of {device} memory"
    return None
