"""Runs with everything that a report shows, and evaluations of their checkpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.typed import to_json
from engine.measure.folder import AnswerRow, ScoreRow
from engine.report.run_report.assemble import Choice, make_report
from engine.report.run_report.pages import render_html
from engine.report.run_report.report import Report, Section
from engine.run.history.sweep import Sweep, SweepPoint, write_sweep
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.engine.run.history.rollout_files import write_step

START = 1_700_000_000.0
SHA = "0123456789abcdef" * 4
ENVIRONMENT = {"python": "3.11.7", "packages": {"torch": "2.13.0", "verl": "0.9.1"}}


def make_run(
    root: Path,
    name: str,
    *,
    seed: int = 1,
    lr: float = 1e-6,
    steps: int = 20,
    state: RunState | None = None,
    **manifest: Any,
) -> Run:
    """A run of GRPO with rollouts in its last step, a commit, data and a machine."""
    run = Run(root / "runs" / name)
    run.attempt(1).path.mkdir(parents=True)
    values = {
        "grubrics.seed": seed,
        "actor_rollout_ref.actor.optim.lr": lr,
        "judge.usd_per_million_in": 1.0,
        "judge.usd_per_million_out": 2.0,
    }
    contents = {
        "v": 1,
        "id": name,
        "kind": "grpo",
        "recipe": "grpo_small",
        "config_path": "configs/grpo_small.yaml",
        "cwd": str(root),
        "created": START,
        "argv": ["python", "-m", "engine.train.grpo"],
        "fingerprint": SHA,
        "config": {key: {"value": value, "origin": "file"} for key, value in values.items()},
        "changes": [],
        "gpus": 2,
        "git": {"commit": "c0ffee" * 6, "branch": "main", "dirty": True},
        "hardware": {"cpu": "EPYC", "cpu_count": 8, "gpus": [{"name": "NVIDIA H100"}] * 2},
        "environment": ENVIRONMENT,
        "data": {"data/train.parquet": {"sha256": SHA, "rows": 512, "bytes": 1}},
        **manifest,
    }
    jsonl.write_json(run.manifest_file, contents)
    log_steps(run, [usual_metrics(step, seed, lr) for step in range(1, steps + 1)])
    if steps:
        write_step(run.attempt(1).path, steps, {"g1": [0.1, 0.9, 0.5], "g2": [0.3, None, 0.7]})
    ended = RunState("finished", started=START, ended=START + 3600, step=steps, total_steps=steps)
    write_state(run, state or ended)
    return run


def usual_metrics(step: int, seed: int, lr: float) -> dict[str, float | None]:
    values: dict[str, float | None] = {
        "reward/mean": 0.3 + 1e5 * lr * math.tanh(step / 10) + 0.01 * seed,
        "actor/grad_norm": 0.5,
        "judge/calls": 8.0,
        "judge/errors": 0.0,
        "judge/tokens_in": 1e6 / 20,
        "judge/tokens_out": 1e6 / 20,
        "timing_s/step": 10.0,
    }
    if step % 10 == 0:
        values["val/reward"] = 0.2 + step / 100
    return values


def log_steps(run: Run, metrics: Sequence[Mapping[str, float | None]]) -> None:
    """Steps 1, 2, ... in the training log."""
    lines = (
        {"v": 1, "step": step, "attempt": 1, "t": START + 60 * step, "metrics": dict(values)}
        for step, values in enumerate(metrics, start=1)
    )
    run.train_log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def make_evaluation(root: Path, rewards: Mapping[str, Sequence[float]]) -> Path:
    """An evaluation with the scores of each target; baselines are targets, too."""
    folder = root / "evaluations" / "held_out-12345678"
    items = len(next(iter(rewards.values())))
    setup = {
        "data": "data/val.parquet",
        "items": items,
        "items_sha256": SHA,
        "sampling": {"samples": 1},
        "scoring": {"function": "reward.py:score", "files": {}, "kwargs": {}},
    }
    folder.mkdir(parents=True)
    jsonl.write_json(folder / "setup.json", setup)
    for number, (name, scores) in enumerate(rewards.items()):
        target = folder / f"target-{number}"
        target.mkdir()
        described = {"name": name, "form": "checkpoint", "source": "x", "sha256": f"{number}" * 64}
        jsonl.write_json(target / "target.json", described)
        for item, score in enumerate(scores):
            uid = f"item-{item}"
            answer = AnswerRow(uid, 0, f"sha-{uid}", f"prompt-{uid}", "answer", 5, True)
            jsonl.append(target / "answers.jsonl", to_json(answer))
            jsonl.append(target / "scores.jsonl", to_json(ScoreRow(uid, 0, score, {})))
    return folder


def make_sweep(run: Run) -> None:
    points = (SweepPoint(0, 0.3, 0.2, 0.4, 64, 0), SweepPoint(20, 0.6, 0.5, 0.7, 64, 0))
    write_sweep(run, Sweep("held_out-12345678", "reward", points))


def report_of(*runs: Run, **choice: Any) -> Report:
    folder = runs[0].path.parent.parent / "evaluations"
    return make_report({run.id: run for run in runs}, Choice(evaluations=folder, **choice))


def page_of(*runs: Run, **choice: Any) -> str:
    return render_html(report_of(*runs, **choice))


def section(report: Report, name: str) -> Section:
    return next(section for section in report.sections if section.name == name)
