"""The speed of the screen beside that of other programs: the same data, in turns, in one call.

    python benchmarks/peers.py [--rounds 5] [--only values idle log search] [--wandb-python PYTHON]

Each program runs in a pseudo-terminal of 120 x 40 cells; what counts is what its emulated screen
shows. In every round each program has one turn, so that other work on the machine hits all of them.
Programs that are not installed are left out. Tests:

    values   from the command until the newest values of a run of 20,000 steps are on the screen;
             beside it, a curve of ``wandb leet`` on an offline W&B run with the same numbers
    idle     CPU of the process tree in percent of a core, while the run logs nothing; of
             grubrics-tui also while it logs a step a second, which leet's offline run cannot
    log      from the command until the last line of a console log of 250 MB is on the screen;
             beside it, ``lnav``
    search   for a text that one of 200,000 rollouts contains, in all 400 steps of a run; beside it,
             ``grep -i``, which only finds the file. From the command to its end

Seconds are minimum and median over the rounds; CPU seconds are user and system of the process tree.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "grubrics_tui"), str(Path(__file__).parent)]

from live_screen import CURVE, Writer, make_run, make_wandb  # noqa: E402
from log_view import write_log  # noqa: E402
from sample_run import SampleRun  # noqa: E402
from terminal import Terminal  # noqa: E402

OURS = (sys.executable, "-m", "grubrics_tui")
STEPS = 20_000
LOG_STEPS = 60_000
ROLLOUT_STEPS, GROUPS, OF_GROUP = 400, 64, 8
NEEDLE = "Lagrange multiplier of the second kind"
SENTENCE = "the sum of two roots is equal to so we set x and get let us check it again"


@dataclass(frozen=True)
class Cost:
    """One turn of a program."""

    seconds: float
    cpu: float


Turn = Callable[[], Cost]


def screen_turn(command: Sequence[str], seen: str) -> Turn:
    """A turn from the command until its screen shows the regular expression ``seen``."""

    def turn() -> Cost:
        with Terminal(command) as terminal:
            if terminal.wait(seen) is None:
                raise SystemExit(f"{command[0]} never showed {seen}:\n{terminal.text}")
            return Cost(time.monotonic() - terminal.started, terminal.cpu_seconds())

    return turn


def command_turn(command: Sequence[str], found: bytes) -> Turn:
    """A turn from the command to its end; ``found`` is a part of its output."""

    def turn() -> Cost:
        started = time.monotonic()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            output = process.stdout.read()
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
        if found not in output:
            raise SystemExit(f"{command}: {output[-500:].decode(errors='replace')}")
        return Cost(time.monotonic() - started, usage.ru_utime + usage.ru_stime)

    return turn


def in_turns(test: str, turns: Mapping[str, Turn], rounds: int) -> None:
    """Print a row for each program."""
    costs: dict[str, list[Cost]] = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            costs[name].append(turn())
    for name, measured in costs.items():
        wall, cpu = [cost.seconds for cost in measured], [cost.cpu for cost in measured]
        cells = (min(wall), statistics.median(wall), min(cpu), statistics.median(cpu))
        row(test, name, *(f"{cell:.2f}" for cell in cells))


def row(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


@contextmanager
def logging_steps(sample: SampleRun, metrics: int) -> Iterator[None]:
    """Log a step a second."""
    writer = Writer(sample, metrics)
    writer.start()
    try:
        yield
    finally:
        writer.stop()


@dataclass(frozen=True)
class LiveRun:
    """A run whose newest reward is 0.9 where all earlier ones are below, and its copy for leet."""

    sample: SampleRun
    metrics: int
    ours: Sequence[str]
    leet: Sequence[str] | None

    newest, complete = r"reward 0\.910", r"mean 0\.91"
    """On our screen: the newest reward, and the curve up to it."""

    @classmethod
    def make(cls, folder: Path, metrics: int, python: str) -> LiveRun:
        sample = make_run(folder / f"runs{metrics}", "bench", STEPS, metrics)
        lines = sample.run.train_log.read_text().splitlines(keepends=True)
        last = json.loads(lines[-1])
        last["metrics"]["reward/mean"] = 0.91
        sample.run.train_log.write_text("".join([*lines[:-1], json.dumps(last) + "\n"]))
        recorded = make_wandb(python, sample, folder / f"wandb{metrics}")
        leet = None
        if recorded is not None:
            leet = (str(Path(python).with_name("wandb")), "leet", "run", str(recorded))
        ours = (*OURS, "watch", "bench", "--runs", str(sample.run.path.parent))
        return cls(sample, metrics, ours, leet)

    def values(self, rounds: int) -> None:
        self.sample.say("running")
        turns = {
            "grubrics-tui": screen_turn(self.ours, self.newest),
            "grubrics-tui, whole curves": screen_turn(self.ours, self.complete),
        }
        if self.leet is not None:
            turns["wandb leet, a curve"] = screen_turn(self.leet, CURVE)
        in_turns(f"newest values, {self.metrics} metrics", turns, rounds)

    def idle(self, seconds: float) -> None:
        name = f"idle CPU, {self.metrics} metrics"
        self.sample.say("running")
        # This process is the supervisor, so a run without new steps still looks alive.
        self._idle(name, "grubrics-tui, no new steps", self.ours, self.complete, seconds)
        if self.leet is not None:
            self._idle(name, "wandb leet, no new steps", self.leet, CURVE, seconds)
        with logging_steps(self.sample, self.metrics):
            self._idle(name, "grubrics-tui, a step a second", self.ours, r"mean 0\.\d", seconds)

    def _idle(
        self, test: str, name: str, command: Sequence[str], seen: str, seconds: float
    ) -> None:
        with Terminal(command) as terminal:
            if terminal.wait(seen) is None:
                raise SystemExit(f"{name} never showed {seen}:\n{terminal.text}")
            terminal.pump(5.0)
            percent, _ = terminal.cpu(seconds)
        row(test, name, f"{percent:.2f} %", "", "", "")


def measure_log(folder: Path, rounds: int) -> None:
    path = folder / "console.log"
    write_log(path, LOG_STEPS)
    last = rf"step:{LOG_STEPS}\b"
    turns = {"grubrics-tui watch --log": screen_turn((*OURS, "watch", "--log", str(path)), last)}
    if shutil.which("lnav"):
        turns["lnav"] = screen_turn(("lnav", str(path)), last)
    in_turns(f"log of {path.stat().st_size / 1e6:.0f} MB", turns, rounds)
    path.unlink()


def write_rollouts(sample: SampleRun) -> int:
    """Dumps as verl writes them: 400 steps of 64 groups of 8 responses of 2,000 characters."""
    chance = random.Random(0)
    texts = [" ".join(chance.choices(SENTENCE.split(), k=500)) + "." for _ in range(200)]
    folder = sample.run.attempt(1).rollouts
    folder.mkdir()
    for step in range(1, ROLLOUT_STEPS + 1):
        with (folder / f"{step}.jsonl").open("w") as dump:
            for number in range(GROUPS * OF_GROUP):
                group, rollout = divmod(number, OF_GROUP)
                text = chance.choice(texts)
                if (step, group, rollout) == (ROLLOUT_STEPS - 10, 7, 3):
                    text += f"\n{NEEDLE}"
                record = {
                    "input": f"user\nQuestion {group} of step {step}: {texts[group][:400]}\n",
                    "output": text,
                    "gts": str(number),
                    "score": chance.random(),
                    "step": step,
                    "uid": f"{step}-{group}_{rollout}_0",
                }
                dump.write(json.dumps(record, ensure_ascii=False) + "\n")
    return ROLLOUT_STEPS * GROUPS * OF_GROUP


def measure_search(folder: Path, rounds: int) -> None:
    sample = SampleRun.create(folder / "searched", "bench", total=ROLLOUT_STEPS)
    count = write_rollouts(sample)
    dumps = sample.run.attempt(1).rollouts
    place = ("--runs", str(sample.run.path.parent))
    search = (*OURS, "rollouts", "bench", *place, "--search", NEEDLE, "--across-steps")
    grep = ("grep", "-rliF", NEEDLE, str(dumps))
    turns = {
        "grubrics-tui rollouts --search": command_turn(search, b"rollout 3"),
        "grep -rliF": command_turn(grep, f"{ROLLOUT_STEPS - 10}.jsonl".encode()),
    }
    in_turns(f"search of {count:,} rollouts", turns, rounds)
    shutil.rmtree(dumps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the idle test")
    parser.add_argument("--only", nargs="+", default=["values", "idle", "log", "search"])
    parser.add_argument("--metrics", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--wandb-python", default=sys.executable)
    given = parser.parse_args()
    row("test", "program", "s, minimum", "s, median", "CPU s, minimum", "CPU s, median")
    row(*["---"] * 6)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(
            XDG_CONFIG_HOME=name, XDG_STATE_HOME=name, XDG_CACHE_HOME=name, PYTHONPATH=str(ROOT)
        )
        # An installed program is compiled once.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        if {"values", "idle"} & {*given.only}:
            for metrics in given.metrics:
                live = LiveRun.make(folder, metrics, given.wandb_python)
                if "values" in given.only:
                    live.values(given.rounds)
                if "idle" in given.only:
                    live.idle(given.seconds)
        if "log" in given.only:
            measure_log(folder, given.rounds)
        if "search" in given.only:
            measure_search(folder, given.rounds)
    print(f"\nload {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
