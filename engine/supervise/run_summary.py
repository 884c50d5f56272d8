"""Read everything about one run, for ``show``."""

from __future__ import annotations

from msgspec.structs import replace

from engine.base import jsonl
from engine.base.typed import to_json
from engine.run.checkpoints.disposal import bytes_of
from engine.run.checkpoints.find import check_checkpoint, list_checkpoints
from engine.run.columns import runs_to_json
from engine.run.processes import members
from engine.run.registry import read_row
from engine.run.run import Run
from engine.run.state import describe, observed_state
from engine.run.trust import exposures
from engine.supervise.hosts import find_host
from engine.supervise.milestones import CodeWatch
from engine.supervise.ray_jobs import read_job
from engine.supervise.wandb_sync import run_url


def read_summary(run: Run) -> dict[str, object]:
    """Return state, processes and files of a run.

    The keys below are not those of columns, except ``config`` and ``kind``, here None if unknown.
    """
    manifest = run.read_manifest()
    state = observed_state(run)
    # Without ``created``: a run that has not started has no start.
    [listed] = runs_to_json([replace(read_row(run, state), created=None)])
    job = read_job(run.attempt(state.attempt).path)
    exposed, of_program = exposures(run), find_host(run, manifest).program()
    cwd = manifest.working_folder
    is_readable = not exposed and cwd.is_absolute() and cwd.is_dir()
    edited = [str(path) for path in CodeWatch(manifest, cwd).changes()] if is_readable else []
    return {
        **listed,
        "phrase": describe(state),
        "exit_code": state.exit_code,
        "signal": state.signal,
        "queue": to_json(manifest.queue),
        "gpus": state.gpus,
        "attempt_started": state.started,
        "ended": state.ended,
        "attempts": len(manifest.attempts),
        "pids": [process.pid for process in (*of_program, *members(run))],
        "parent": to_json(manifest.parent),
        "ray": manifest.ray,
        "ray_job": job.submission_id if job else None,
        "config": manifest.config_name,
        "kind": manifest.listed_kind,
        "argv": list(manifest.argv) or None,
        "changes": to_json(manifest.effective_changes),
        "edited": edited,
        "exposed_because": exposed,
        "dir": str(run.path),
        "bytes": bytes_of(run.path),
        "manifest": str(run.manifest_file),
        "console": str(run.attempt(state.attempt).console),
        "checkpoints": jsonl.line(manifest.checkpoint_dir),
        "moved": None if exposed else jsonl.line(str(check_checkpoint(run).moved or "")) or None,
        "saved": [] if exposed else list_checkpoints(run),
        "wandb": run_url(run),
    }
