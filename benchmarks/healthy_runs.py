"""Is the product quiet about healthy runs? Tiny runs that really train, followed live.

    python benchmarks/healthy_runs.py [--runs 100 --seed 0] [--at-once 2] [--only NAME] [--out DIR]

Without ``--runs`` it trains one short run of each config of ``healthy_configs.py`` (verl for GRPO,
the project's own SFT); with it, as many runs with settings drawn from ranges. The doctor follows
each run as a screen would and reads it once more at its end. A run is quiet when it finished, the
doctor said nothing above info, ``config RUN --unused`` names nothing, and the weight-sync canary
had its metric at every step. Whatever is not quiet is printed with the run's settings. With
``--out`` of an earlier call the runs that are there are read again instead of trained.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml
from healthy_configs import REWARD, REWARD_FILE, Plan, distinct_plans, drawn_plan

from engine.data.prepare import PrepareOptions, prepare_preset
from engine.data.presets import load_presets
from engine.doctor.diagnose import diagnose_run
from engine.doctor.live import RunFollower
from engine.doctor.metrics.rules.weight_sync import DIFFERENCE
from engine.run.finding import Finding
from engine.run.history.train_log import read_steps
from engine.run.run import Run
from engine.run.state import observed_state

REPOSITORY = Path(__file__).resolve().parents[1]
LOOK_S = 2.0
PATIENCE_S = 1800.0


@dataclass(frozen=True)
class Result:
    """What was said of a run: by the doctor live and at its end, and by ``config --unused``.

    ``compared`` counts the steps in which engine and trainer were compared.
    """

    plan: Plan
    state: str
    steps: int
    compared: int
    live: tuple[str, ...]
    after: tuple[str, ...]
    unused: tuple[str, ...]

    @property
    def canary_ran(self) -> bool:
        return self.compared == (self.steps if self.plan.has_canary else 0)

    @property
    def is_quiet(self) -> bool:
        said = self.live or self.after or self.unused
        return self.state == "finished" and self.canary_ran and not said


def follow(project: Path, plan: Plan) -> Result:
    """Train it, and look at it as a screen would until it ends."""
    begun, run = time.monotonic(), Run(project / "runs" / plan.name)
    earlier = project / "live" / f"{plan.name}.json"
    live = dict.fromkeys(json.loads(earlier.read_text()) if earlier.exists() else [])
    if not run.path.exists():
        _call(project, "-m", "grubrics_tui", "launch", plan.config, *plan.overrides,
              "--name", plan.name, "--json")  # fmt: skip
    follower = RunFollower(run)
    while time.monotonic() - begun < PATIENCE_S:
        state, findings = follower.diagnose()
        live.update(dict.fromkeys(_alerts(findings)))
        if state.has_ended:
            break
        time.sleep(LOOK_S)
    earlier.parent.mkdir(exist_ok=True)
    earlier.write_text(json.dumps(list(live)))
    shutil.rmtree(project / "checkpoints" / plan.name, ignore_errors=True)
    # Step 0 is the validation before training.
    steps = [step for step in read_steps(run.train_log) if step.step >= 1]
    return Result(
        plan,
        str(observed_state(run).state),
        len({step.step for step in steps}),
        sum(DIFFERENCE in step.metrics for step in steps),
        tuple(live),
        tuple(_alerts(diagnose_run(run))),
        _unused(project, plan.name),
    )


def _alerts(findings: Sequence[Finding]) -> list[str]:
    alerts = (finding for finding in findings if finding.severity.is_alert)
    return [f"{finding.severity} {finding.id}: {finding.cause}" for finding in alerts]


def _unused(project: Path, name: str) -> tuple[str, ...]:
    printed = _call(project, "-m", "grubrics_tui", "config", name, "--unused", "--json")
    return tuple(f"{value['key']}: {value['reason']}" for value in json.loads(printed)["unused"])


def _call(project: Path, *arguments: str) -> str:
    path = f"{REPOSITORY}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}: {done.stderr or done.stdout}")
    return done.stdout


def prepare(project: Path) -> None:
    """the tiny demo, and the SFT model that every GRPO run starts from."""
    if not (project / "configs").exists():
        shutil.copytree(REPOSITORY / "configs", project / "configs")
        _write_own_reward(project)
    if not (project / "data").exists():
        _call(project, "-m", "engine.data.tiny_world")
        _write_contrastive(project)
    if not (project / "runs" / "base").exists():
        _call(project, "-m", "grubrics_tui", "launch", "sft_tiny", "--name", "base", "--wait")


def _write_own_reward(project: Path) -> None:
    """``grpo_tiny`` without what only a judge reads, and a reward function."""
    config = yaml.safe_load((project / "configs" / "grpo_tiny.yaml").read_text())
    sections = {name: values for name, values in config.items() if name not in _JUDGED}
    (project / "configs" / "own_reward.yaml").write_text(yaml.safe_dump(sections))
    (project / REWARD_FILE).write_text(REWARD)


_JUDGED = ("judge", "reward_config")


def _write_contrastive(project: Path) -> None:
    """The tiny demo's rows with excerpts of good and poor answers in the prompts."""
    before = Path.cwd()
    os.chdir(project)  # the preset names its files from there
    try:
        name, preset = load_presets(Path("data/tiny/presets.yaml")).get("tiny")
        holdout = Path("data/tiny/sft/holdout_ids.json")
        target = Path("data/contrastive")
        prepare_preset(name, preset, PrepareOptions(target, only_cached=True, holdout=holdout))
    finally:
        os.chdir(before)


def describe(result: Result) -> str:
    """A row: config, steps, findings above info, values named by ``--unused``, canary."""
    plan = result.plan
    findings = len({*result.live, *result.after})
    canary = f"silent, {result.compared} steps" if result.compared else "-"
    if any("weights_not_synced" in text for text in (*result.live, *result.after)):
        canary = "alert"
    elif not result.canary_ran:
        canary = f"{result.compared} of {result.steps} steps"
    name = plan.name.partition("-")[2]
    cells = (f"{plan.config}: {name}", result.state, result.steps, findings, len(result.unused))
    return f"| {' | '.join(map(str, cells))} | {canary} |"


HEADER = "| config: what differs | state | steps | above info | unused | canary |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, help="draw so many (default: each config once)")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="names of runs, e.g. grpo-lora-adapter")
    parser.add_argument("--out", type=Path, help="keep the project here (default: a new folder)")
    given = parser.parse_args()
    project = (given.out or Path(tempfile.mkdtemp(prefix="healthy-runs-"))).resolve()
    project.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    prepare(project)
    drawn = [drawn_plan(number, given.seed) for number in range(given.runs or 0)]
    plans = [
        plan for plan in drawn or distinct_plans() if given.only is None or plan.name in given.only
    ]
    rows, loud = [], 0
    with ThreadPoolExecutor(given.at_once) as pool:
        for result in pool.map(partial(follow, project), plans):
            rows.append(describe(result))
            print(rows[-1], flush=True)
            if not result.is_quiet:
                loud += 1
                said = (result.plan.overrides, result.live, result.after, result.unused)
                print(json.dumps(said, indent=1), flush=True)
    minutes = (time.monotonic() - begun) / 60
    print("\n".join(["", HEADER, "|" + "---|" * 6, *rows]))
    print(f"\n{len(rows) - loud} of {len(rows)} quiet, {minutes:.0f} minutes; runs: {project}")


if __name__ == "__main__":
    main()
