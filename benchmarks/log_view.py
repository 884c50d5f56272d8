"""The log view beside lnav, toolong and less, on a verl console log of 60,000 steps (250 MB).

    python benchmarks/log_view.py [--toolong TL_VENV/bin/tl] [--steps 60000]

Each program runs in a real pseudo-terminal of 120x40; what counts is what stands on its emulated
screen. Peers that are not installed are left out. Figures:

    open      from the command until the last step's line is on the screen
    search    from the enter key of a regular expression that matches one line in the middle of the
              file until that line is on the screen
    anywhere  the same for an expression that begins with none of its letters, in a program that was
              opened anew
    latency   of lines appended to a log of 20 MB at 1,000 lines a second: from the write until that
              line, or a later one, is on the screen
    memory    of the program and all it started, after the search (proportional set size)
    idle      CPU while nothing happens, after the search

``grubrics-tui watch`` opens the charts with the log below them, ``--log`` the log itself.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from terminal import Terminal  # noqa: E402

ACTOR = "\x1b[36m(TaskRunnerV1 pid=3734)\x1b[0m "
OURS = "grubrics-tui watch --log"
CHARTS = "grubrics-tui watch"
NEEDLE = "RuntimeError: NCCL watchdog caught a timeout on rank 3"
LINES_A_SECOND, SECONDS = 1000, 10


@dataclass(frozen=True)
class Viewer:
    """A program that shows logs; ``search`` are the keys before and after the expression."""

    name: str
    command: tuple[str, ...]
    search: tuple[str, str] = ("/", "\r")
    at_start: str = ""


@dataclass
class Figures:
    open: float | None = None
    search: float | None = None
    anywhere: float | None = None
    memory: float | None = None
    idle: float | None = None
    latency: tuple[float, float] | None = None


def write_log(path: Path, steps: int) -> None:
    """What verl 0.9.1 prints: a dump line and a metrics line of 4 KB a step, one error."""
    names = [f"timing_per_token_ms/phase_{n}/mean" for n in range(75)]
    with path.open("w") as log:
        for step in range(1, steps + 1):
            values = " - ".join(f"{name}:{step / (n + 7):.12f}" for n, name in enumerate(names))
            log.write(f"{ACTOR}Dumped generations to runs/g3/rollouts/{step}.jsonl\n")
            log.write(f"{ACTOR}step:{step} - training/global_step:{step} - {values}\n")
            if step == steps // 2:
                log.write(f"\x1b[36m(WorkerDict pid=3949)\x1b[0m {NEEDLE}\n")


def viewers(toolong: str | None) -> list[Viewer]:
    ours = (sys.executable, "-m", "grubrics_tui", "watch", "--log", "FILE")
    found = [Viewer(OURS, ours)]
    if shutil.which("lnav"):
        found.append(Viewer("lnav", ("lnav", "FILE"), ("g/", "\r")))
    if toolong and shutil.which(toolong):
        found.append(Viewer("toolong", (toolong, "FILE"), ("\x06", "\r")))
    if shutil.which("less"):
        found.append(Viewer("less +G", ("less", "-R", "-S", "+G", "FILE"), ("?", "\r")))
    return found


def opened(viewer: Viewer, path: Path) -> Terminal:
    return Terminal([str(path) if part == "FILE" else part for part in viewer.command])


def measure_opening(viewer: Viewer, path: Path, steps: int) -> float | None:
    with opened(viewer, path) as terminal:
        return terminal.wait(rf"step:{steps}\b", 60)


def measure_anywhere(viewer: Viewer, path: Path, steps: int) -> float | None:
    with opened(viewer, path) as terminal:
        if terminal.wait(rf"step:{steps}\b", 90) is None:
            return None
        terminal.pump(4)
        terminal.send(viewer.search[0])
        terminal.pump(0.5)
        terminal.send(r"\w+ watchdog caught")
        terminal.pump(0.5)
        terminal.send(viewer.search[1])
        return terminal.wait("caught a timeout", 30)


def measure_file(viewer: Viewer, path: Path, steps: int) -> Figures:
    figures = Figures()
    with opened(viewer, path) as terminal:
        figures.open = terminal.wait(rf"step:{steps}\b", 90)
        if figures.open is None:
            return figures
        terminal.pump(4)
        terminal.send(viewer.search[0])
        terminal.pump(0.5)
        terminal.send(r"nccl watchdog.*rank \d" if viewer.name == OURS else "NCCL watch")
        terminal.pump(0.5)
        terminal.send(viewer.search[1])
        figures.search = terminal.wait("caught a timeout", 30)
        terminal.pump(10)
        figures.memory = terminal.memory()
        figures.idle = terminal.cpu(5)[0]
    return figures


class Writer(threading.Thread):
    """Appends numbered lines at a steady rate and remembers when."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.written = path, list[float]()

    def run(self) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        start = time.monotonic()
        for number in range(LINES_A_SECOND * SECONDS):
            time.sleep(max(0.0, start + number / LINES_A_SECOND - time.monotonic()))
            os.write(descriptor, f"{ACTOR}tick {number:06d} of the trainer\n".encode())
            self.written.append(time.monotonic())


def measure_latency(viewer: Viewer, path: Path, steps: int) -> tuple[float, float] | None:
    """p50 and p95 in seconds over every line; the whole log is longer than what was shown."""
    seen: list[tuple[int, float]] = []
    with opened(viewer, path) as terminal:
        if terminal.wait(rf"step:{steps}\b", 60) is None:
            return None
        terminal.pump(3)
        writer = Writer(path)
        writer.start()
        end = time.monotonic() + SECONDS + 5
        while time.monotonic() < end and (not seen or seen[-1][0] + 1 < LINES_A_SECOND * SECONDS):
            terminal.pump(0.01)
            ticks = [
                int(part[:6]) for part in terminal.text.split("tick ")[1:] if part[:6].isdigit()
            ]
            if ticks and (not seen or max(ticks) > seen[-1][0]):
                seen.append((max(ticks), time.monotonic()))
        if viewer.name == OURS:
            expect_every_line(terminal, path)
    shown, late = [number for number, _ in seen], []
    for number, moment in enumerate(writer.written):
        place = bisect_left(shown, number)
        if place < len(seen):
            late.append(seen[place][1] - moment)
    if len(late) < 0.99 * LINES_A_SECOND * SECONDS:
        return None
    return statistics.median(late), statistics.quantiles(late, n=20)[-1]


def expect_every_line(terminal: Terminal, path: Path) -> None:
    """The view's own count of the file's lines is the file's."""
    count = path.read_bytes().count(b"\n")
    if terminal.wait(f"{count:,} lines", 10) is None:
        raise SystemExit(f"lines were lost: {count:,} were written\n{terminal.text}")


def grep_seconds(path: Path) -> float:
    start = time.monotonic()
    # Not into /dev/null: grep then stops at the first match.
    subprocess.run(["grep", "-c", "step:", str(path)], stdout=subprocess.PIPE, check=True)
    return time.monotonic() - start


def table(found: Sequence[tuple[str, Figures]]) -> str:
    def cell(value: float | None, form: str = "{:.2f} s") -> str:
        return "-" if value is None else form.format(value)

    lines = [
        "| | open at the end | rare regex | anywhere | latency p50 | p95 | memory | idle CPU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, figures in found:
        p50, p95 = figures.latency or (None, None)
        cells = [
            cell(value) for value in (figures.open, figures.search, figures.anywhere, p50, p95)
        ]
        cells += [cell(figures.memory, "{:.0f} MiB"), cell(figures.idle, "{:.1f} %")]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toolong", default=shutil.which("tl"))
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)
    found = []
    with tempfile.TemporaryDirectory() as name:
        log, small = Path(name) / "console.log", Path(name) / "growing.log"
        write_log(log, given.steps)
        print(f"{log.stat().st_size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        grep = min(grep_seconds(log) for _ in range(3))
        for viewer in viewers(given.toolong):
            runs = [measure_file(viewer, log, given.steps)]
            while len(runs) < given.repeats and (runs[0].open or 99) < 20:
                runs.append(measure_file(viewer, log, given.steps))
            figures = runs[-1]
            figures.open = _median([run.open for run in runs])
            figures.search = _median([run.search for run in runs])
            if viewer.name in (OURS, "lnav"):
                tries = [measure_anywhere(viewer, log, given.steps) for _ in range(given.repeats)]
                figures.anywhere = _median(tries)
            write_log(small, 5000)
            figures.latency = measure_latency(viewer, small, 5000)
            found.append((viewer.name, figures))
            print(viewer.name, figures, file=sys.stderr)
        charts = Viewer(CHARTS, (sys.executable, "-m", "grubrics_tui", "watch", "FILE"))
        opens = [measure_opening(charts, log, given.steps) for _ in range(given.repeats)]
        found.insert(1, (CHARTS, Figures(open=_median(opens))))
    print(table([*found, ("grep -c", Figures(open=grep))]))
    return 0


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


if __name__ == "__main__":
    sys.exit(main())
