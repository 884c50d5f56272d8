"""Runs in Python: metrics, rollouts and evaluations as pandas frames.

``from engine import open_run, list_runs``. Nothing is cached: each call reads the files as they are
now, so an active run can be looked at again. Nothing is written or executed. pandas is imported
when a frame is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base import jsonl
from engine.base.errors import PackageError, UsageError
from engine.measure.folder import EvaluationDir, TargetDir, evaluations_of, read_target
from engine.run.manifest import FullManifest, values_of
from engine.run.registry import list_runs as list_rows
from engine.run.run import Run, find_run, runs_root
from engine.run.state import observed_state

if TYPE_CHECKING:
    import pandas as pd

    from engine.run.finding import Finding
    from engine.run.history.rollouts import Group, Rollout


@dataclass(frozen=True, repr=False)
class OpenedRun(Run):
    """A run for notebooks: what ``Run`` has, and its numbers as frames. Each access reads the files
    as they are now.

    A class beside ``Run``, because the answers come from rooms above that of ``Run``.
    """

    def __repr__(self) -> str:
        step, total = self.step, self.total_steps
        of = f" of {total}" if total is not None else ""
        progress = f", step {step}{of}" if step is not None else ""
        return f"<run {self.id}: {self.state}{progress}>"

    @property
    def state(self) -> str:
        """``queued``, ``starting``, ``running``, ``stalled``, ``stopping``; ended: ``finished``,
        ``stopped``, ``failed``, ``lost``."""
        return observed_state(self).word

    @property
    def reason(self) -> str | None:
        """Why the run is in its state, such as ``exit code 1 at step 3 of 20``."""
        return observed_state(self).reason

    @property
    def step(self) -> int | None:
        """The last step; None before the first."""
        return observed_state(self).step

    @property
    def total_steps(self) -> int | None:
        """The steps that the run is to take; None where that is not known."""
        return observed_state(self).total_steps

    @property
    def manifest(self) -> FullManifest:
        """What the run was launched with: config, code and data digests, environment, attempts."""
        return self.read_full_manifest()

    @property
    def config(self) -> dict[str, Any]:
        """The effective values by dotted key, such as ``data.train_batch_size``."""
        return values_of(self.read_config())

    def metrics(self, *names: str, long: bool = False) -> pd.DataFrame:
        """Metrics by step: a column for each of ``names`` (default: all), the steps as index.

        What was not logged and what was logged as NaN are both NaN. With ``long``, a row for each
        logged value: ``step``, ``metric``, ``value``. UsageError for an unknown name, with the
        nearest.
        """
        from engine.logs.formats.series import read_columns
        from engine.report.metric_table import long_table, wide_table

        pandas = _pandas()
        columns = read_columns(str(self.path), self.path.parent, names)
        if not columns.names:
            return pandas.DataFrame(index=pandas.Index([], name="step", dtype="int64"))
        table = (long_table if long else wide_table)([(self.id, columns)], names)
        cells = {name: column.values for name, column in table.columns.items() if name != "run"}
        frame = pandas.DataFrame(cells)
        return frame if long else frame.set_index("step")

    def rollout_steps(self, *, validation: bool = False) -> tuple[int, ...]:
        """The steps that have recorded rollouts."""
        from engine.run.history.rollouts import RolloutStore

        return RolloutStore(self.path).steps("val" if validation else "train")

    def rollouts(self, step: int | None = None, *, validation: bool = False) -> pd.DataFrame:
        """The rollouts of a step (default: the last), a row for each.

        Columns: ``group``, ``rollout``, ``question_id``, ``prompt``, ``response``,
        ``ground_truth``, ``score`` (NaN: failed), ``advantage``, ``length`` (characters),
        ``trained``, ``error``, and ``part/NAME`` for each component of the reward. UsageError for a
        step without rollouts.
        """
        from engine.run.history.rollouts import RolloutStore, require_step

        store, split = RolloutStore(self.path), "val" if validation else "train"
        steps = store.steps(split)  # type: ignore[arg-type]
        loaded = store.load(split, require_step(steps, step, self.path))  # type: ignore[arg-type]
        rows = [_rollout_row(group, each) for group in loaded.groups for each in group.rollouts]
        return _pandas().DataFrame(rows)

    def evaluations(self, folder: str | Path = "evaluations") -> pd.DataFrame:
        """The evaluations of this run and its checkpoints in ``folder``: a row for each evaluation,
        target and metric.

        Columns: ``evaluation``, ``target``, ``metric``, ``mean``, ``low``, ``high`` (95%), ``n``
        (scores), ``items``, ``unscored``.
        """
        found = evaluations_of(self.id, Path(folder))
        rows = [row for path in found for row in _evaluation_rows(EvaluationDir(path))]
        return _pandas().DataFrame(rows, columns=_EVALUATION)

    def findings(self) -> list[Finding]:
        """What ``grubrics-tui diagnose`` finds, the root cause first."""
        from engine.doctor.diagnose import diagnose_run

        return diagnose_run(self)


def open_run(name: str | Path, runs: str | Path | None = None) -> OpenedRun:
    """The run with an ID, a unique prefix of it, or a directory.

    ``runs`` is the directory of the runs (default: $GRUBRICS_RUNS, else ./runs). UsageError for an
    unknown run, with the nearest.
    """
    run = OpenedRun(Path(name))
    return run if run.is_one() else OpenedRun(find_run(_root(runs), str(name)).path)


def list_runs(runs: str | Path | None = None) -> list[OpenedRun]:
    """All runs of a directory (default: as in ``open_run``), the last started first."""
    root = _root(runs)
    if not root.is_dir():
        raise UsageError(f"{root}: no such directory of runs")
    return [OpenedRun(root / info.id) for info in list_rows(root)]


def _root(runs: str | Path | None) -> Path:
    return runs_root(None if runs is None else str(runs))


def _pandas() -> Any:
    try:
        return import_module("pandas")
    except ImportError as error:
        raise PackageError("pandas", error) from error


def _rollout_row(group: Group, rollout: Rollout) -> dict[str, Any]:
    return {
        "group": group.id,
        "rollout": rollout.number,
        "question_id": group.question_id,
        "prompt": group.prompt(),
        "response": rollout.text(),
        "ground_truth": rollout.ground_truth(),
        "score": rollout.score,
        "advantage": rollout.advantage,
        "length": rollout.length,
        "trained": rollout.trained,
        "error": rollout.error.message if rollout.error else None,
        **{f"part/{name}": value for name, value in (rollout.parts or {}).items()},
    }


_EVALUATION = ("evaluation", "target", "metric", "mean", "low", "high", "n", "items", "unscored")


def _evaluation_rows(folder: EvaluationDir) -> Iterator[dict[str, Any]]:
    """The results of all targets of an evaluation; none for one whose setup cannot be read."""
    from engine.measure.summary import measure_targets

    setup = jsonl.read_json(folder.path / "setup.json") or {}
    scoring = setup.get("scoring")
    if not isinstance(scoring, dict):
        return
    sampling = setup.get("sampling")
    samples = jsonl.integer(sampling.get("samples")) if isinstance(sampling, dict) else 1
    targets = [
        (target, TargetDir(file.parent))
        for file in sorted(folder.path.glob("*/target.json"))
        if (target := read_target(file)) is not None
    ]
    for result in measure_targets(targets, scoring, samples or 1)[2]:
        estimate = asdict(result.estimate) if result.estimate else {}
        yield {
            "evaluation": folder.path.name,
            "target": result.target,
            "metric": result.metric,
            **{name: estimate.get(name) for name in ("mean", "low", "high", "n")},
            "items": estimate.get("units"),
            "unscored": result.unscored,
        }
