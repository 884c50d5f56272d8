"""What the preparation of many records takes: seconds, CPU seconds and the peak of memory.

    python benchmarks/preparing.py [--rows N] [--only NAME]

``questions``: ``grubrics-tui prepare`` of short questions with their answers. ``sft``:
``engine.data.prepare_sft`` of questions with rubrics in HealthBench's layout, which become
messages. Each runs in a process of its own, on a generated JSONL file in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUESTIONS = ("-m", "grubrics_tui", "prepare", "records.jsonl", "--task", "questions")
FILES = ("--oss_eval_path", "records.jsonl", "--meta_eval_path", "none.jsonl")
SFT = ("-m", "engine.data.prepare_sft", *FILES, "--holdout_size", "0", "--output_dir", "sft")


def question(number: int) -> dict[str, Any]:
    a, b = number % 97, number % 13
    return {"question": f"What is {number} + {a} * {b}?", "answer": number + a * b}


def rubric(number: int) -> dict[str, Any]:
    prompt = [{"role": "user", "content": f"What helps against ache number {number}?"}]
    criteria = [("Names rest", 6), (f"Asks about sign {number % 97}", 4)]
    rubrics = [{"criterion": text, "points": points, "tags": []} for text, points in criteria]
    return {"prompt_id": f"p{number:07d}", "prompt": prompt, "rubrics": rubrics}


PREPARATIONS: dict[str, tuple[Callable[[int], dict[str, Any]], tuple[str, ...]]] = {
    "questions": (question, QUESTIONS),
    "sft": (rubric, SFT),
}


def measure(words: tuple[str, ...], folder: Path) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak MB of a program."""
    started = time.monotonic()
    # Reads and writes below the folder, and imports this checkout.
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    process = subprocess.Popen([sys.executable, *words], cwd=folder, env=env)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with exit code {process.returncode}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return time.monotonic() - started, cpu_s, usage.ru_maxrss / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=PREPARATIONS)
    args = parser.parse_args()
    table = ["| preparation | rows | input MB | s | CPU s | peak MB |", "|---|---|---|---|---|---|"]
    for name, (make, words) in PREPARATIONS.items():
        if args.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            records = Path(folder, "records.jsonl")
            with records.open("w") as file:
                file.writelines(f"{json.dumps(make(number))}\n" for number in range(args.rows))
            size = records.stat().st_size / 1e6
            seconds, cpu_s, peak = measure(words, Path(folder))
        row = f"{args.rows:,} | {size:,.0f} | {seconds:,.0f} | {cpu_s:,.0f} | {peak:,.0f}"
        table.append(f"| {name} | {row} |")
    print("\n".join(table))


if __name__ == "__main__":
    main()
