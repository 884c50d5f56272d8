"""What ``grubrics-tui report`` costs: time, memory, and the sizes of the files.

    python benchmarks/reports.py [--runs 3] [--steps 2000] [--metrics 12] [--samples 17]

Writes runs of GRPO into a temporary folder and starts the command as a program: HTML, Markdown and
charts at once, and the HTML alone. ``CPU`` is the processor time of the whole process, which other
programs on the machine hardly change; ``peak`` is its largest resident memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from engine.base import jsonl
from engine.history.metrics import USUAL
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, write_state

START = 1_700_000_000.0


def write_run(root: Path, name: str, seed: int, steps: int, metrics: int, rollouts: int) -> None:
    """A finished run with noise in its metrics and long responses in its last step."""
    run, noise = RunDir(root / name), random.Random(seed)
    run.attempt(1).path.mkdir(parents=True)
    values = {"grubrics.seed": seed, "actor_rollout_ref.actor.optim.lr": seed * 1e-6}
    config = {key: {"value": value, "origin": "file"} for key, value in values.items()}
    manifest = {"v": 1, "id": name, "kind": "grpo", "created": START, "config": config}
    jsonl.write_json(run.manifest, manifest)
    names = [group[0] for group in USUAL[:metrics]]
    lines = (
        {
            "v": 1,
            "step": step,
            "attempt": 1,
            "t": START + 10 * step,
            "metrics": {name: 1 + math.tanh(step / 500) + noise.gauss(0, 0.1) for name in names},
        }
        for step in range(1, steps + 1)
    )
    run.train_log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    dump = run.attempt(1).path / "rollouts" / f"{steps}.jsonl"
    dump.parent.mkdir()
    rows = (_rollout(steps, number, noise) for number in range(rollouts))
    dump.write_text("".join(json.dumps(row) + "\n" for row in rows))
    end = START + 10 * steps
    write_state(run, RunState("finished", started=START, ended=end, step=steps, total_steps=steps))


def _rollout(step: int, number: int, noise: random.Random) -> dict[str, object]:
    words = ("because", "the", "sum", "of", "both", "is", "4", "then", "we", "check")
    response = " ".join(noise.choices(words, k=2_000))
    return {
        "step": step,
        "uid": f"g{number // 8}_{number % 8}_0",
        "input": f"Question {number // 8}: " + " ".join(noise.choices(words, k=200)),
        "output": response,
        "score": noise.random(),
    }


def measure(words: list[str]) -> str:
    """Seconds of a command, those of the CPU, and its peak of resident memory."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "grubrics_tui", "report", *words], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"report failed with exit code {process.returncode}")
    took, cpu = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    return f"{took:.1f} s, CPU {cpu:.1f} s, peak {usage.ru_maxrss / 1000:.0f} MB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--metrics", type=int, default=12)
    parser.add_argument("--samples", type=int, default=17, help="of each run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, names = Path(folder), [f"run-{number}" for number in range(1, options.runs + 1)]
        for seed, name in enumerate(names, start=1):
            write_run(root, name, seed, options.steps, options.metrics, 4 * options.samples)
        html, markdown, charts = root / "out.html", root / "out.md", root / "charts"
        words = [*names, "--runs", folder, "--samples", str(options.samples)]
        alone = measure([*words, "-o", str(html)])
        everything = [*words, "-o", str(html), "--markdown", str(markdown), "--svg", str(charts)]
        together = measure(everything)
        count = options.runs * options.samples
        print(
            f"{options.runs} runs x {options.steps} steps x {options.metrics} metrics, "
            f"{count} samples"
        )
        print(f"HTML alone: {alone}")
        print(f"HTML, Markdown and SVG: {together}")
        sizes = {
            "HTML": html.stat().st_size,
            "Markdown": markdown.stat().st_size,
            "largest SVG": max(path.stat().st_size for path in charts.iterdir()),
        }
        print(", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in sizes.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
