"""Adjusts findings to a run: to how it ended, or that it has not failed; their fixes to its keys,
its present values and its name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.base.errors import PackageError
from engine.base.follow import last_lines
from engine.base.parquet import pa, pq
from engine.config.keys import is_open
from engine.data.contract import row_problem
from engine.doctor.finding_kinds import KINDS
from engine.doctor.text.line import plain
from engine.doctor.trainer_dialects import framework_of, in_terms_of
from engine.reward.own.function import KEY
from engine.run.categories import find_category
from engine.run.events import pending_stop, read_stop_offset
from engine.run.finding import Change, Evidence, Finding, Fix, Severity
from engine.run.finding_kind import Case
from engine.run.kinds import SFT
from engine.run.manifest import Settings, value_of
from engine.run.run import Run
from engine.run.state import RunState
from engine.run.trainer_settings import key_of

_KILLED = "killed by SIGKILL"
_INTERRUPTED = "job_cancelled_or_interrupted"
_RAY = "ray_start_or_worker_died"
_STOPPED = "stopped by "
_FROM_OUTSIDE = "stopped by SIGTERM "
"""The reason of a run that a signal to its supervisor ended, without a stop request."""

_LAST_LINES, _TAIL = 3, 50
_WIDEST = 400
"""Characters of a line that are quoted."""
_ERRORS = (Severity.CRITICAL, Severity.ERROR)


def adjust_to_run(text: Sequence[Finding], run: Run, state: RunState) -> list[Finding]:
    """Adjust findings to the state of the run. Call it after the console was read: a stop is
    requested first, then the run is interrupted."""
    stop_is_asked = pending_stop(run) is not None
    if not text or not (stop_is_asked or (state.reason or "").startswith(_STOPPED)):
        return adjust_to_end(text, state)
    stop_offset = read_stop_offset(run, max(1, state.attempt))
    return adjust_to_end(text, state, stop_is_asked=stop_is_asked, stop_offset=stop_offset)


def adjust_to_end(
    text: Sequence[Finding],
    state: RunState,
    *,
    stop_is_asked: bool = False,
    stop_offset: int | None = None,
) -> list[Finding]:
    """Adjust findings to the state of a run.

    - The signals of a requested stop are no finding, those of another stop no alert.
    - What the console shows from byte ``stop_offset`` on is no alert in a run that was stopped: an
      interrupt can appear as any exception of the code that it interrupts.
    - An error is no alert in a run that reached its last step.
    - A silent kill is an alert. What Ray reports of a trainer that was killed is a consequence.
    - What Ray reports is a warning while the run has not failed.

    ``stop_is_asked`` applies until the run has ended; then its reason shows whether that stop ended
    it.
    """
    reason = state.reason or ""
    if reason.startswith(_STOPPED) or (stop_is_asked and not state.has_ended):
        before = [_as_info(one) if _is_after(one, stop_offset) else one for one in text]
        softened = soften_ray(before, "The run was stopped before it failed.")
        if reason.startswith(_FROM_OUTSIDE):
            return [_as_info(one) if one.category == _INTERRUPTED else one for one in softened]
        return _without_interruptions(softened)
    if state.went_well:
        return [
            finding if find_category(finding.category).counts_when_finished else _as_info(finding)
            for finding in text
        ]
    causes = text
    if state.signal == "SIGKILL":
        causes = [one for one in text if one.category != _RAY]
        why = "The trainer itself was killed, and its workers ended with it."
        text = [_softened(one, why) if _is_severe_of_ray(one) else one for one in text]
    if _KILLED in reason and not any(finding.severity.is_alert for finding in causes):
        evidence = Evidence(reason, step=state.step)
        return [
            KINDS[f"{_INTERRUPTED}.killed"].finding(Case(onset=state.step), evidence),
            *text,
        ]
    if state.has_ended or state.state == "stalled":
        return list(text)
    return soften_ray(text)


def explain_failure(findings: Sequence[Finding], run: Run, state: RunState) -> list[Finding]:
    """Add a finding with the last lines of the console to a failed run that has no error."""
    has_error = any(finding.severity in _ERRORS for finding in findings)
    if state.state != "failed" or not (state.exit_code or state.signal) or has_error:
        return list(findings)
    console, reason = run.attempt(max(1, state.attempt)).console, state.reason or "an error"
    lines = [line for raw in last_lines(console, _TAIL) if (line := plain(raw).strip())]
    evidence = [Evidence(reason, step=state.step)]
    evidence += [Evidence(line[:_WIDEST], str(console)) for line in lines[-_LAST_LINES:]]
    return [
        KINDS["training_setup_error.unexplained"].finding(Case(onset=state.step), *evidence),
        *findings,
    ]


def soften_ray(
    text: Iterable[Finding], why: str = "Ray may recover: the run has not failed."
) -> list[Finding]:
    """Make what Ray reports a warning, for a run that has not failed.

    Ray restarts workers and repeats connections, so its messages do not show that the run fails. A
    traceback of the program does.
    """
    return [_softened(finding, why) if _is_report_of_ray(finding) else finding for finding in text]


def _is_report_of_ray(finding: Finding) -> bool:
    has_frames = len(finding.evidence) > 1
    return _is_severe_of_ray(finding) and not has_frames


def _is_severe_of_ray(finding: Finding) -> bool:
    return finding.category == _RAY and finding.severity in _ERRORS


def _softened(finding: Finding, why: str) -> Finding:
    return replace(finding, severity=Severity.WARNING, cause=f"{finding.cause} {why}")


def _is_after(finding: Finding, offset: int | None) -> bool:
    """Whether the line that shows the finding begins at this byte of the console or later."""
    begin = finding.evidence[0].offset if finding.evidence else None
    return offset is not None and begin is not None and begin >= offset


def _without_interruptions(findings: Iterable[Finding]) -> list[Finding]:
    return [
        replace(finding, followed_by=tuple(_without_interruptions(finding.followed_by)))
        for finding in findings
        if finding.category != _INTERRUPTED
    ]


def offer_fixes(findings: Sequence[Finding], run: Run, state: RunState) -> list[Finding]:
    """Complete the fixes by what the run can do.

    A run that failed for an external reason can be resumed. A run of a command has no config: its
    fixes name arguments of the trainer that printed its console.
    """
    if run.is_command:
        consoles = [attempt.console for attempt in run.attempts()[-1:]]
        return in_terms_of(framework_of(consoles, findings), findings)
    return _offer_resume(fit_fixes(findings, run), run, state)


def _offer_resume(findings: Sequence[Finding], run: Run, state: RunState) -> list[Finding]:
    if state.state not in ("failed", "lost") or not findings:
        return list(findings)
    if not findings[0].severity.is_alert or not find_category(findings[0].category).resumable:
        return list(findings)
    from engine.run.checkpoints.find import check_checkpoint

    step = check_checkpoint(run).step
    if step is None:
        return list(findings)
    command = Change("command", "resume", f"grubrics-tui resume {run.id}")
    fix = Fix(f"Resume from step {step}", (command,), "repeats the steps since then")
    root = replace(findings[0], fixes=(fix, *findings[0].fixes))
    return [root, *findings[1:]]


def _as_info(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.INFO)


_LOWERED = frozenset(
    {
        key_of("rollout_memory"),
        key_of("micro_batch"),
        key_of("micro_batch", SFT.name),
        "judge.max_concurrent",
    }
)
_RAISED = frozenset({key_of("rollout_context"), "judge.timeout_s"})
"""Keys whose proposed values are typical values, which a run may already have passed."""


def fit_fixes(findings: Sequence[Finding], run: Run) -> list[Finding]:
    """Remove fixes that the run's config or data cannot take, and continue from its present values.

    A command in a title names the run.

    An external run keeps all fixes: its config is unknown.
    """
    config = run.read_config() if findings else None
    if not config:
        return list(findings)
    return [_fitted(finding, config, run) for finding in findings]


def _fitted(finding: Finding, config: Settings, run: Run) -> Finding:
    return replace(
        finding,
        fixes=tuple(_fixes(finding.fixes, config, run)),
        followed_by=tuple(_fitted(follower, config, run) for follower in finding.followed_by),
    )


def _needs_gold(fix: Fix, run: Run) -> bool:
    """Return whether a fix uses the rubric reward on data without answers and gold scores."""
    to_rubrics = any(change.key == f"{KEY}.path" and not change.after for change in fix.changes)
    return to_rubrics and not has_gold(run)


def _fixes(fixes: Sequence[Fix], config: Settings, run: Run) -> Iterator[Fix]:
    for fix in fixes:
        is_known = all(_is_known(change, config) for change in fix.changes)
        if is_known and not _needs_gold(fix, run):
            changes = tuple(_continued(change, config) for change in fix.changes)
            title = fix.title.replace(" RUN", f" {run.id}")
            yield replace(fix, title=title, changes=changes)


def _continued(change: Change, config: Settings) -> Change:
    """Return the change, based on the run's value if that is already beyond the proposed one."""
    now, after = value_of(config, change.key), change.after
    if not isinstance(now, int | float) or not isinstance(after, int | float):
        return change
    if change.key in _LOWERED and now <= after:
        lower = max(1, now // 2) if isinstance(now, int) else round(0.75 * now, 2)
        return replace(change, after=lower)
    if change.key in _RAISED and now >= after:
        return replace(change, after=2 * now)
    return change


def _is_known(change: Change, config: Settings) -> bool:
    if change.kind != "config":
        return True
    return change.key in config or is_open(change.key, config)


def has_gold(run: Run) -> bool:
    """Return whether the rubric reward can score the data: the first row has gold scores."""
    manifest = run.read_full_manifest()
    row = _first_row(manifest.working_folder, manifest.value("data.train_files"))
    return row is not None and {"prompt", "extra_info"} <= row.keys() and not row_problem(row)


def _first_row(cwd: Path, files: object) -> dict[str, object] | None:
    first = files[0] if isinstance(files, list) and files else files
    try:
        batches = pq.ParquetFile(cwd / Path(str(first)).expanduser()).iter_batches(1)
        rows: list[dict[str, object]] = next(batches).to_pylist()
    except PackageError:
        return None
    except (OSError, pa.ArrowException, StopIteration):
        return None
    return rows[0] if rows else None
