"""How long ``grubrics-tui runs`` takes, start of Python included, with 10 and 10,000 runs.

    python benchmarks/listing.py

Cold is the first call ever (no index yet), warm every later one; ``--json`` goes to a pipe as well.
The manifests are those of ``grpo_tiny``, 0.1 MB each, so 1.1 GB go to the temporary folder
meanwhile. Beside it, on as many offline runs of its own: ``wandb sync --dry-run --verbose``, which
prints their names.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

from engine.runs.processes import Identity, identify
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, write_state

ROOT = Path(__file__).resolve().parents[1]
COUNTS = (10, 10_000)
UNFINISHED = 20
REPEATS, COLD_REPEATS = 7, 3


def make_runs(root: Path, count: int) -> None:
    """Runs that ended in every way, and up to 20 that say they go on; half of those are lost."""
    from engine.launch.launcher import manifest, plan
    from engine.launch.recipe import load_recipe

    os.chdir(ROOT)
    text = json.dumps(manifest(plan(load_recipe("grpo_tiny"), "template")), indent=2)
    chance, now = random.Random(0), time.time()
    for number in range(count):
        started = now - 600.0 * number
        run = RunDir(root / time.strftime("grpo_tiny-%Y%m%d-%H%M%S", time.gmtime(started)))
        run.path.mkdir(parents=True)
        run.manifest.write_text(text)
        state = _going_on(number) if number < min(UNFINISHED, count // 2) else _ended(chance)
        write_state(run, state.evolve(started=started, heartbeat=now, total_steps=60))


def _going_on(number: int) -> RunState:
    here, gone = identify(os.getppid()), Identity(2**22 + 1, 1, "an earlier boot")
    return RunState("running", step=number, supervisor=gone if number % 2 else here)


def _ended(chance: random.Random) -> RunState:
    step = chance.randrange(60)
    return chance.choice(
        [
            RunState("finished", step=60, exit_code=0),
            RunState("finished", reason=f"stopped by user at step {step} of 60", step=step),
            RunState("failed", reason=f"killed by SIGKILL at step {step} of 60", step=step),
        ]
    )


def make_wandb_runs(folder: Path, count: int) -> None:
    """Empty offline runs: their names are all that is listed."""
    for number in range(count):
        run = folder / "wandb" / f"offline-run-20260101_000000-{number:08x}"
        run.mkdir(parents=True)
        (run / f"run-{number:08x}.wandb").touch()


def measure(command: Sequence[str], folder: Path, lines: int) -> tuple[float, float]:
    """Seconds and MiB of one call, whose output is read through a pipe."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}
    started = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    took = time.monotonic() - started
    if process.returncode != 0 or output.count(b"\n") < lines:
        raise SystemExit(f"{command}: {output[-500:].decode(errors='replace')}")
    return took, usage.ru_maxrss / 1024


def rows(count: int, folder: Path) -> Iterator[str]:
    """The lines of the table for ``count`` runs."""
    ours = [sys.executable, "-m", "grubrics_tui", "runs"]
    # In a process of its own: the peak memory of a child starts at that of its parent.
    maker = get_context("spawn").Process(target=make_runs, args=(folder / "runs", count))
    maker.start()
    maker.join()
    cold = []
    for _ in range(COLD_REPEATS):
        shutil.rmtree(folder / "cache", ignore_errors=True)
        cold.append(measure(ours, folder, count))
    yield _row(count, "runs, cold", cold)
    yield _row(count, "runs, warm", [measure(ours, folder, count) for _ in range(REPEATS)])
    as_json = [*ours, "--json"]
    yield _row(count, "runs --json, warm", [measure(as_json, folder, 1) for _ in range(REPEATS)])
    wandb = Path(sys.executable).with_name("wandb")
    if wandb.exists():
        make_wandb_runs(folder, count)
        theirs = [str(wandb), "sync", "--dry-run", "--verbose"]
        yield _row(
            count, "wandb sync --dry-run", [measure(theirs, folder, count) for _ in range(3)]
        )


def _row(count: int, name: str, measured: Sequence[tuple[float, float]]) -> str:
    seconds = [took for took, _ in measured]
    memory = max(held for _, held in measured)
    median, worst = statistics.median(seconds), max(seconds)
    return f"| {count:,} | {name} | {median:.3f} | {worst:.3f} | {memory:.0f} |"


def main() -> int:
    print("| runs | command | s, median | s, worst | MiB |\n|---|---|---|---|---|")
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as name:
            for row in rows(count, Path(name)):
                print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
