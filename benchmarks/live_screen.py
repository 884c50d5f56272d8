"""The live screen beside ``wandb leet``: first paint, idle cost, memory, answer to a key.

    python benchmarks/live_screen.py [--steps 20000] [--seconds 10]

Makes a run directory and an offline W&B run with the same numbers and drives both programs through
a pseudo-terminal of 120 x 40 cells, one after the other. The run goes on at a step a second
meanwhile. ``wandb leet`` comes with the wandb package; without it only our side is measured.

First paint: the first moment with 200 characters on the screen. Data: the moment the newest values
(ours), or a curve (leet's), are on it. Idle: CPU of the whole process tree in percent of one core,
bytes to the terminal, memory of the tree. Key: from ``tab`` to the mark on the next panel. Leet's
offline run does not go on: its idle figures are those of a screen that stands still.
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
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "grubrics_tui"), str(Path(__file__).parent)]

from sample_run import SampleRun  # noqa: E402
from terminal import Terminal  # noqa: E402

WANDB_SCRIPT = """
import json, os, sys
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true")
import wandb
run = wandb.init(project="bench", dir=sys.argv[2], settings=wandb.Settings(console="off"))
for line in open(sys.argv[1]):
    step = json.loads(line)
    run.log(step["metrics"], step=step["step"])
run.finish()
"""


DATA, CURVE = r"mean 0\.\d", "[⠁-⣿]{12}"
"""What the screen shows once the history is there: ours, and a curve of leet's."""


@dataclass(frozen=True)
class Cost:
    """Medians over repetitions of the first two; the others are of one window."""

    first_paint_s: float
    data_s: float
    cpu_percent: float
    bytes_per_s: float
    rss_mib: float


def make_run(root: Path, name: str, steps: int, metrics: int) -> SampleRun:
    """A run with that history whose supervisor is this process."""
    sample = SampleRun.create(root, name, total=steps + 100_000)
    noise = random.Random(1)
    with sample.run.train_log.open("w") as log:
        for step in range(1, steps + 1):
            sample.step = step
            log.write(json.dumps(record(sample, noise, metrics)) + "\n")
    sample.say("running")
    return sample


def record(sample: SampleRun, noise: random.Random, metrics: int) -> dict[str, object]:
    values = dict(list(sample.grpo_metrics().items())[:metrics])
    values.update({f"extra/{n}": noise.random() for n in range(metrics - len(values))})
    moment = sample.started + sample.step
    return {"v": 1, "step": sample.step, "attempt": 1, "t": moment, "metrics": values}


def make_wandb(python: str, sample: SampleRun, folder: Path) -> Path | None:
    """An offline W&B run with the same numbers; None without wandb."""
    folder.mkdir()
    command = [python, "-c", WANDB_SCRIPT, str(sample.run.train_log), str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        return None
    return next(folder.glob("wandb/offline-run-*/*.wandb"), None)


class Writer(threading.Thread):
    """Logs a step a second, with its samples and console lines."""

    def __init__(self, sample: SampleRun, metrics: int) -> None:
        super().__init__(daemon=True)
        self._sample, self._metrics = sample, metrics
        self._done = threading.Event()
        self._noise = random.Random(2)

    def run(self) -> None:
        while not self._done.wait(1.0):
            sample = self._sample
            sample.step += 1
            with sample.run.train_log.open("a") as log:
                log.write(json.dumps(record(sample, self._noise, self._metrics)) + "\n")
            sample.print(b"INFO: step %d - critic/score/mean:0.41" % sample.step)
            sample.say("running")

    def stop(self) -> None:
        self._done.set()
        self.join()


def measure(command: list[str], data: str, repeat: int, seconds: float) -> Cost:
    """``data`` is a regular expression that is on the screen once the history is."""
    paints, reads = [], []
    for number in range(repeat):
        with Terminal(command) as terminal:
            for seen, times in ((_painted, paints), (data, reads)):
                if terminal.wait(seen) is None:
                    raise SystemExit(f"{command[0]} never showed its data:\n{terminal.text}")
                times.append(time.monotonic() - terminal.started)
            if number == repeat - 1:
                terminal.pump(4.0)
                cpu, sent = terminal.cpu(seconds)
                rss = terminal.memory()
    return Cost(statistics.median(paints), statistics.median(reads), cpu, sent, rss)


def _painted(text: str) -> bool:
    return sum(not char.isspace() for char in text) >= 200


def key_times(command: list[str], data: str, presses: int) -> list[float]:
    """Seconds from ``tab`` to the mark on the panel that is current then."""
    titles = ["reward", "judge", "step time", "policy", "machine", "log", "validation"]
    times = []
    with Terminal(command) as terminal:
        terminal.wait(data)
        terminal.pump(3.0)
        for number in range(1, presses + 1):
            place = number % len(titles)
            terminal.send("\t")
            times.append(terminal.wait(rf"\[{place + 1} {titles[place]}\]") or 60.0)
            terminal.pump(0.13)
    return times


def say(metrics: int, program: str, cost: Cost) -> None:
    print(
        f"| {metrics} | {program} | {cost.first_paint_s:.2f} | {cost.data_s:.2f} |"
        f" {cost.cpu_percent:.1f} | {cost.bytes_per_s:.0f} | {cost.rss_mib:.0f} |",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--wandb-python", default=sys.executable)
    parser.add_argument("--only-ours", action="store_true")
    given = parser.parse_args()
    leet = Path(given.wandb_python).with_name("wandb")
    print("| metrics | program | first paint s | data s | CPU % | bytes/s | MiB |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(
            XDG_CONFIG_HOME=name, XDG_STATE_HOME=name, PYTHONPATH=str(ROOT), TERM="xterm-256color"
        )
        for metrics in (20, 50):
            sample = make_run(folder / f"runs{metrics}", "bench", given.steps, metrics)
            program = [sys.executable, "-m", "grubrics_tui"]
            ours = [*program, "watch", "bench", "--runs", str(sample.run.path.parent)]
            recorded = make_wandb(given.wandb_python, sample, folder / f"wandb{metrics}")
            writer = Writer(sample, metrics)
            writer.start()
            say(metrics, "grubrics-tui", measure(ours, DATA, given.repeat, given.seconds))
            if metrics == 50:
                times = sorted(key_times(ours, DATA, 60))
            writer.stop()
            if recorded is not None and leet.exists() and not given.only_ours:
                command = [str(leet), "leet", "run", str(recorded)]
                say(metrics, "wandb leet", measure(command, CURVE, given.repeat, given.seconds))
            shutil.rmtree(folder / f"wandb{metrics}", ignore_errors=True)
    worst = times[int(len(times) * 0.95)]
    print(
        f"\nkey press to changed screen: median {statistics.median(times) * 1000:.0f} ms,", end=""
    )
    print(f" p95 {worst * 1000:.0f} ms, {len(times)} presses")
    return 0


if __name__ == "__main__":
    sys.exit(main())
