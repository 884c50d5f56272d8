"""How long ``grubrics-tui runs`` takes, start of Python included, with 10 and 10,000 runs.

    python benchmarks/listing.py [--beside TREE] [--counts 10 10000]

Cold is the first call ever (no index yet). Warm is a call after every finished run was examined,
which takes many calls; with running ones the doctor examines those in each call. Output goes to a
pipe. Manifests and configs are those of ``grpo_tiny``, 0.1 MB each: 1.1 GB in the temporary folder
meanwhile; all runs share one log of sixty steps. Beside it, in turns, on the same folder:

    TREE                    the same commands of another checkout, such as an earlier commit's
    ls -l */state.json      the least that looking at every run costs
    find -newer             a program of C that looks at two files of each run
    wandb sync --dry-run    on as many offline runs of its own; prints their names

CPU seconds are of the whole command, user and system.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from engine.run.identity import Identity
from engine.run.processes import identify
from engine.run.run import Run
from engine.run.state import RunState, write_state

ROOT = Path(__file__).resolve().parents[1]
COUNTS = (10, 10_000)
UNFINISHED = 20
REPEATS, COLD_REPEATS = 7, 2
OURS = (sys.executable, "-m", "grubrics_tui", "runs")

Measured = tuple[Sequence[str], int, Path]


def make_runs(root: Path, count: int, unfinished: int = UNFINISHED) -> None:
    """Runs that ended in every way, and up to 20 that say they go on; half of those are lost."""
    from engine.config.load import load_config
    from engine.launch.launcher import manifest, plan

    os.chdir(ROOT)
    template = manifest(plan(load_config("grpo_tiny"), "template"))
    chance, now = random.Random(0), time.time()
    for number in range(count):
        started = now - 600.0 * number
        run = Run(root / time.strftime("grpo_tiny-%Y%m%d-%H%M%S", time.gmtime(started)))
        run.path.mkdir(parents=True)
        run.write_manifest(template)
        state = _going_on(number) if number < min(unfinished, count // 2) else _ended(chance)
        write_state(run, state.evolve(started=started, heartbeat=now, total_steps=60))
        if number == 0:
            steps = run.train_log
            steps.write_text(_steps(chance))
        else:
            run.train_log.hardlink_to(steps)


def _steps(chance: random.Random) -> str:
    """The log of sixty steps with fifty metrics, a validation every ten steps."""
    lines = []
    for step in range(1, 61):
        metrics = {f"actor/metric_{index}/mean": chance.random() for index in range(50)}
        metrics["reward/mean"] = chance.random()
        if step % 10 == 0:
            metrics["val/reward"] = chance.random()
        record = {"v": 1, "step": step, "attempt": 1, "t": 1e9 + step, "metrics": metrics}
        lines.append(json.dumps(record) + "\n")
    return "".join(lines)


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


@dataclass(frozen=True)
class Cost:
    """One call of a command: seconds, CPU seconds, and MiB of memory at most."""

    seconds: float
    cpu: float
    memory: float


def measure(command: Sequence[str], folder: Path, lines: int, tree: Path = ROOT) -> Cost:
    """One call, whose output of at least ``lines`` lines is read through a pipe."""
    cost, output = _call(command, folder, tree)
    if output.count(b"\n") < lines:
        raise SystemExit(f"{command}: {output[-500:].decode(errors='replace')}")
    return cost


def _call(command: Sequence[str], folder: Path, tree: Path) -> tuple[Cost, bytes]:
    cache = folder / f"cache-{tree.name}"
    environment = {**os.environ, "PYTHONPATH": str(tree), "XDG_CACHE_HOME": str(cache)}
    # An installed program is compiled once.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
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
    if process.returncode != 0:
        raise SystemExit(f"{command}: {output[-500:].decode(errors='replace')}")
    return Cost(took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), output


def examine(folder: Path, tree: Path) -> None:
    """Call ``runs`` until the doctor has examined every finished run."""
    while b" not checked yet" in _call(OURS, folder, tree)[1]:
        pass


def rows(count: int, folder: Path, beside: Path | None) -> Iterator[str]:
    """The lines of the table for ``count`` runs."""
    # In a process of its own: the peak memory of a child starts at that of its parent.
    maker = get_context("spawn").Process(target=make_runs, args=(folder / "runs", count, 0))
    maker.start()
    maker.join()
    cold = []
    for _ in range(COLD_REPEATS):
        shutil.rmtree(folder / f"cache-{ROOT.name}", ignore_errors=True)
        cold.append(measure(OURS, folder, count))
    yield _row(count, "runs, cold", cold)
    trees = [ROOT, *([beside] if beside else [])]
    for tree in trees:
        examine(folder, tree)
    make_wandb_runs(folder, count)
    yield from _in_turns(count, folder, dict(_commands(trees, count)))
    going_on = min(UNFINISHED, count // 2)
    for number, path in enumerate(sorted((folder / "runs").iterdir())[:going_on]):
        write_state(Run(path), _going_on(number).evolve(heartbeat=time.time()))
    running = f"runs, warm, {going_on // 2} running"
    yield from _in_turns(count, folder, {running: (OURS, count, ROOT)})


def _commands(trees: Sequence[Path], count: int) -> Iterator[tuple[str, Measured]]:
    """What is measured by its name in the table: command, least lines of output, checkout."""
    for tree in trees:
        where = "" if tree == ROOT else f" of {tree.name}"
        yield f"runs, warm{where}", (OURS, count, tree)
        yield f"runs --json, warm{where}", ((*OURS, "--json"), 1, tree)
    listed = ("sh", "-c", "cd runs && ls -l */state.json")
    yield "ls -l */state.json", (listed, count, ROOT)
    newer = ("find", "runs", "-mindepth", "2", "-newer", sys.executable)
    yield "find -newer", (newer, count, ROOT)
    wandb = Path(sys.executable).with_name("wandb")
    if wandb.exists():
        yield "wandb sync --dry-run", ((str(wandb), "sync", "--dry-run", "--verbose"), count, ROOT)


def _in_turns(count: int, folder: Path, commands: Mapping[str, Measured]) -> Iterator[str]:
    """Rows of commands that are called in turns: what else the machine does hits all of them."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(REPEATS):
        for name, (command, lines, tree) in commands.items():
            costs[name].append(measure(command, folder, lines, tree))
    for name, measured in costs.items():
        yield _row(count, name, measured)


def _row(count: int, name: str, measured: Sequence[Cost]) -> str:
    seconds, cpu = [cost.seconds for cost in measured], [cost.cpu for cost in measured]
    cells = [statistics.median(cpu), min(cpu), statistics.median(seconds)]
    memory = max(cost.memory for cost in measured)
    numbers = " | ".join(f"{cell:.3f}" for cell in cells)
    return f"| {count:,} | {name} | {numbers} | {memory:.0f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path, metavar="TREE")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    given = parser.parse_args()
    print("| runs | command | CPU s, median | CPU s, least | s, median | MiB |")
    print("|---|---|---|---|---|---|")
    for count in given.counts:
        with tempfile.TemporaryDirectory() as name:
            for row in rows(count, Path(name), given.beside and given.beside.resolve()):
                print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
