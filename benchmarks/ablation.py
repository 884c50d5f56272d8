"""How long the table of an ablation with 200 runs takes: at first, again, and after a new step.

    python benchmarks/ablation.py

Ten arms with 20 seeds each; every run has 100 steps with 20 metrics and a validation every 10. The
two rows of ``again`` are what the screen does every other second.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from engine.ablations.plan import AblationPlan, make_plan
from engine.ablations.report import ReportReader
from engine.base import jsonl
from engine.recipe.recipe import load_recipe
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, write_state
from grubrics_tui.drawing.arms import draw_arms

ARMS, SEEDS, STEPS = 10, 20, 100
LR = "actor_rollout_ref.actor.optim.lr"
STARTED = 1_767_312_000.0


def write_ablation(root: Path) -> AblationPlan:
    """The plan and its runs, in the current folder."""
    base = load_recipe("grpo_tiny", (), {})
    arms = [(f"lr-{number}", [f"{LR}={number}e-5"]) for number in range(1, ARMS)]
    plan = replace(make_plan(base, {}, arms, SEEDS, STEPS), id="benchmark")
    plan.write(base)
    for number, job in enumerate(plan.jobs()):
        run = RunDir(root / job.run)
        run.attempt(1).path.mkdir(parents=True)
        jsonl.write_json(run.manifest, {"v": 1, "id": run.id, "kind": "grpo", "config": {}})
        for step in range(1, STEPS + 1):
            log_step(run, step, number)
        write_state(run, RunState("finished", started=STARTED, ended=STARTED + 1000))
    return plan


def log_step(run: RunDir, step: int, number: int) -> None:
    metrics = {f"actor/metric_{index}": 0.123456789 for index in range(19)}
    metrics["reward/mean"] = step / STEPS
    if step % 10 == 0:
        metrics["val/reward"] = 0.4 + 0.001 * (number * 7919 % 101)
    moment = STARTED + 10 * step
    record = {"v": 1, "step": step, "attempt": 1, "t": moment, "metrics": metrics}
    jsonl.append(run.train_log, record)


def timed(reader: ReportReader) -> float:
    """Seconds to read the report and to draw its table."""
    started = time.perf_counter()
    report = reader.read()
    draw_arms(report.rows, 0, 120, {})
    return time.perf_counter() - started


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        root = Path("runs")
        plan = write_ablation(root)
        reader = ReportReader(plan, root)
        print(f"{ARMS} arms x {SEEDS} seeds = {ARMS * SEEDS} runs of {STEPS} steps")
        print(f"first              {timed(reader):6.3f} s")
        print(f"again              {min(timed(reader) for _ in range(5)):6.3f} s")
        last = RunDir(root / list(plan.jobs())[-1].run)
        log_step(last, STEPS + 1, 0)
        print(f"again, a new step  {timed(reader):6.3f} s")
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
