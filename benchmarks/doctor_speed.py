"""How quickly the doctor reads long healthy files, beside what ``grep -c`` needs for one word.

``python benchmarks/doctor_speed.py [MEGABYTES] [--only KIND] [--beside COMMAND]`` writes a file of
that size (1000) of each kind to a temporary folder and prints MB/s of wall time and of processor
time, the best of three, and the memory that reading it took: a mixed console, verl's lines of
metrics, short ones, the dicts of HF's Trainer and of TRL, and the records of rewards. ``--beside
"runmedic scan"`` times another program on the same consoles.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from engine.doctor.diagnose import diagnose_file
from engine.doctor.rewards import reward_findings

MB = 1_000_000
_REPEATS = 3
_METRICS = [f"part_{number % 12}/metric_{number}" for number in range(90)]
_FEW = ["train/loss", "train/grad_norm", "train/lr", "timing_s/step", "train/epoch"]
_TRL = [f"rewards/part_{number}/mean" for number in range(8)]
_WHO = "\x1b[36m(TaskRunner pid=3734)\x1b[0m "
_SAID = "Let me think step by step: the train leaves at nine, and the answer follows from that."
_RUBRIC = "\n".join(f"Points: {points}, Item: Names sudden chest pressure." for points in range(4))


def mixed(draw: random.Random) -> Iterator[str]:
    """What a run prints in one step: answers, the engine's reports, a bar, the metrics."""
    for step in count(1):
        for number in range(200):
            yield f"{_WHO}[response] {number} {_SAID} {draw.random()!r}\n"
        for _ in range(40):
            rate = draw.random() * 1000
            yield f"INFO 05-05 05:05:10 [loggers.py:116] Avg throughput: {rate:.1f} tokens/s\n"
        yield f"{_bar(step)}\r"
        yield _verl(_WHO, step, _METRICS, draw)


def verl(draw: random.Random) -> Iterator[str]:
    """Ninety metrics a step and a bar; a checkpoint's time in every twentieth."""
    for step in count(1):
        yield f"{_bar(step)}\r"
        saved = [] if step % 20 else ["timing_s/save_checkpoint"]
        yield _verl(_WHO, step, [*_METRICS, *saved], draw)


def short(draw: random.Random) -> Iterator[str]:
    for step in count(1):
        yield _verl("", step, _FEW, draw)


def trainer(draw: random.Random) -> Iterator[str]:
    """HF's Trainer: a dict of four numbers as texts, a bar after every fifth."""
    for step in count(1):
        loss, norm, rate = draw.random(), draw.random(), draw.random() * 1e-5
        yield (
            f"{{'loss': '{loss:.4f}', 'grad_norm': '{norm:.4f}', 'learning_rate': '{rate:.4g}', "
            f"'epoch': '{step / 1000:.2f}'}}\n"
        )
        if step % 5 == 0:
            yield f" 38%|###8      | {step}/900000 [00:48<01:19,  1.89s/it]\r"


def trl(draw: random.Random) -> Iterator[str]:
    for _ in count():
        names = ("loss", "grad_norm", "learning_rate", "reward", "reward_std", "kl", *_TRL)
        yield str({name: draw.random() for name in names}) + "\n"


def rewards(draw: random.Random) -> Iterator[str]:
    """Eight rollouts of eight prompts a step, as the reward records them."""
    for step in count(1):
        for rollout in range(64):
            scores = [draw.random() for _ in range(6)]
            record = {
                "v": 1, "t": 1.7e9 + step, "split": "train", "step": step, "pid": 26559,
                "group": f"{step}-{rollout // 8}", "rollout": rollout % 8, "reward": scores[0],
                "question_id": "tiny-0369", "rubric": f"{_RUBRIC}{rollout}", "n_chars": 190,
                "parts": {"alignment": scores[1], "length_penalty": 0.0, "info_value": 0.5},
                "gold_scores": [0.0, 0.2, 0.4, 0.6, 0.8, 1.0], "judge_scores": scores,
                "judge_latency_s": scores[2], "semaphore_wait_s": scores[3], "attempts": 1,
                "failed_attempts": [], "tokens": None, "duration_s": 0.1, "error": None,
            }  # fmt: skip
            yield json.dumps(record) + "\n"


KINDS = {one.__name__: one for one in (mixed, verl, short, trainer, trl, rewards)}


def _verl(who: str, step: int, names: list[str], draw: random.Random) -> str:
    return f"{who}step:{step} - {' - '.join(f'{name}:{draw.random()!r}' for name in names)}\n"


def _bar(step: int) -> str:
    return f"Training Progress:  10%|#         | {step}/90000 [10:37<5:08:06, 6.47s/it]"


def write(path: Path, size: int, lines: Iterator[str]) -> None:
    written = 0
    with path.open("w") as handle:
        while written < size:
            written += handle.write(next(lines))


def measure(name: str, size: float, work: Callable[[], object], repeats: int = _REPEATS) -> None:
    walls, busies = [], []
    for _ in range(repeats):
        before, begin = _processor(), time.perf_counter()
        work()
        walls.append(time.perf_counter() - begin)
        busies.append(_processor() - before)
    wall, busy = size / min(walls), size / max(min(busies), 1e-3)
    print(f"  {name:<10} {wall:8.0f} MB/s   {busy:8.0f} MB/s of the processor")


def _processor() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def compare(kind: str, folder: Path, megabytes: int, beside: str | None) -> None:
    path = folder / ("reward.jsonl" if kind == "rewards" else "console.log")
    write(path, megabytes * MB, KINDS[kind](random.Random(7)))
    diagnose = reward_findings if kind == "rewards" else diagnose_file
    size = path.stat().st_size / MB
    print(f"{kind}: {size:.0f} MB, {len(diagnose(path))} findings")
    grep = ["grep", "-c", "Error", str(path)]
    measure("grep -c", size, lambda: subprocess.run(grep, stdout=subprocess.DEVNULL))
    measure("doctor", size, lambda: diagnose(path))
    print(
        f"  memory     {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.0f} MiB at most"
    )
    if beside and kind != "rewards":
        command = [*shlex.split(beside), str(path)]
        measure("beside", size, lambda: subprocess.run(command, stdout=subprocess.DEVNULL), 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("megabytes", nargs="?", type=int, default=1000)
    parser.add_argument("--only", choices=KINDS, help="one kind of file; else all")
    parser.add_argument("--beside", help="another program, which is given the log's path")
    given = parser.parse_args()
    for kind in [given.only] if given.only else KINDS:
        with tempfile.TemporaryDirectory() as folder:
            compare(kind, Path(folder), given.megabytes, given.beside)


if __name__ == "__main__":
    main()
