"""What the live view needs of a run, whether it was launched here or is an external log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from engine.history.live import RunWatch
from engine.runs.kinds import Kind, find_kind
from engine.runs.rundir import RunDir
from grubrics_tui.settings.layout import UNKNOWN

if TYPE_CHECKING:  # Half of what the screen imports, and of no use to a run of our own.
    from engine.formats.external_run import ExternalRun, ExternalWatch

Watched: TypeAlias = "RunDir | ExternalRun"


def kind_of(run: Watched) -> Kind | None:
    """The kind of run; None where its manifest names none that is known."""
    return find_kind(run.read_manifest().get("kind")) if isinstance(run, RunDir) else run.kind


def layout_of(run: Watched) -> str:
    """The kind of its panels: ``own`` where a reward function scores, so that there is no judge."""
    kind = kind_of(run)
    if kind is None:
        return UNKNOWN
    config = run.read_manifest().get("config", {}) if isinstance(run, RunDir) else {}
    own = config.get("reward.custom_reward_function.path", {}).get("value")
    return "own" if own and kind.has_rollouts else kind.name


def watcher(run: Watched) -> RunWatch | ExternalWatch:
    """What polls the run."""
    return RunWatch(run) if isinstance(run, RunDir) else run.watch()


def console_of(run: Watched, attempt: int) -> Path | None:
    return run.attempt(attempt).console if isinstance(run, RunDir) else run.console


def source_of(run: Watched) -> str:
    """The format of an external run; empty for a run that was launched here."""
    return "" if isinstance(run, RunDir) else run.format.name
