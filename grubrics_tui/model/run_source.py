"""What the live screen needs of a run, whether it was launched here or only looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from engine.history.live import RunWatch
from engine.runs.kinds import Kind, find_kind
from engine.runs.rundir import RunDir
from grubrics_tui.settings.layout import UNKNOWN, Layout, first_layout

if TYPE_CHECKING:  # Half of what the screen imports, and of no use to a run of our own.
    from engine.formats.watch import ForeignRun, ForeignWatch

Watched: TypeAlias = "RunDir | ForeignRun"

# Of a foreign run, panels are shown that one of these metrics, or metrics that begin so, is for.
_NEEDS = {
    "reward": ("reward/",),
    "loss": ("train/loss", "val/loss"),
    "judge": ("judge", "semaphore_wait_s"),
    "time": ("timing_s/", "gpu_phase_duration_s", "reward_total_duration_s"),
    "policy": ("actor/", "response_length/"),
    "optimiser": ("train/grad_norm", "train/lr"),
    "throughput": ("train/global_tokens", "train/mfu", "perf/throughput"),
    "validation": ("val/", "val-"),
}


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


def watcher(run: Watched) -> RunWatch | ForeignWatch:
    """Polls it; steps come as columns."""
    return RunWatch(run, columns=True) if isinstance(run, RunDir) else run.watch(columns=True)


def console_of(run: Watched, attempt: int) -> Path | None:
    return run.attempt(attempt).console if isinstance(run, RunDir) else run.console


def source_of(run: Watched) -> str:
    """What is read of a foreign run; nothing needs saying of our own."""
    return "" if isinstance(run, RunDir) else run.format.name


def foreign_layout(run: ForeignRun) -> Layout:
    """The usual panels that the source has numbers for; before its first step, all of them."""
    return first_layout(run.kind.name, [name for name in run.kind.panels if _fits(run, name)])


def _fits(run: ForeignRun, panel: str) -> bool:
    if panel == "log":
        return run.console is not None
    needs = _NEEDS.get(panel)
    if needs is None or not run.metrics:
        return needs is not None
    return any(name.startswith(needs) for name in run.metrics)
