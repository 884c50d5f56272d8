"""Does one history survive many deaths? Runs are killed at random moments and resumed.

    python benchmarks/soak.py [--cycles 200] [--seed 0] [--minutes 9.5] [--out DIR]

A stand-in for the trainer logs steps and saves checkpoints in verl's layout; supervisor, stop,
reap and resume are the real ones. A cycle starts or resumes a run, ends it in one of five ways at
a random moment, checks what the run says of itself, does what its user would do (reap what is
left) and goes on. A run that reached its last step is checked as a whole and the next one starts.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.launch.launcher import start_supervisor
from engine.launch.resume import resume
from engine.run.history.train_log import history, read_steps
from engine.run.identity import Identity
from engine.run.processes import alive, identify, marked, members, send
from engine.run.run import Run
from engine.run.state import RunState, observed_state, recorded_state, write_state
from engine.run.trust import vouch
from engine.supervise.reaper import find_orphans, reap
from engine.supervise.stopping import stop_run

STANDIN = Path(__file__).resolve().parents[1] / "tests" / "engine" / "supervise" / "standin.py"
STEPS = 40
SAVE_EVERY = 4
LONGEST_WAIT_S = 180.0


@dataclass
class Tally:
    """What happened; ``problems`` says, one line each, what should not have."""

    struck: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    resumes: int = 0
    started: int = 0
    whole: int = 0
    reaped: int = 0
    second_looks: int = 0
    redone: int = 0
    orphans: int = 0
    gaps: int = 0
    torn: int = 0
    unfinished: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def table(self) -> str:
        rows = {
            "cycles": self.struck.total(),
            **{f"ended by: {kind}": self.struck[kind] for kind in KINDS},
            **{f"read as: {state}": count for state, count in sorted(self.outcomes.items())},
            "resumed": self.resumes,
            "runs started": self.started,
            "runs that reached their last step": self.whole,
            "runs killed before their first checkpoint": self.started - self.whole,
            "steps redone": self.redone,
            "processes reaped after a lost supervisor": self.reaped,
            "reaps that needed a second one": self.second_looks,
            "orphans": self.orphans,
            "gaps in histories": self.gaps,
            "torn files": self.torn,
            "hidden temporary files of killed supervisors": self.unfinished,
            "problems": len(self.problems),
            "seconds": round(self.seconds),
        }
        lines = [f"| {name} | {value} |" for name, value in rows.items()]
        return "\n".join(["| what | number |", "|---|---|", *lines])


def soak(root: Path, cycles: int, seed: int = 0, longest_s: float = 600.0) -> Tally:
    """``cycles`` deaths in ``root / "runs"``, every kind as often; the last run goes on to its end.

    Fewer when the time is up.
    """
    tally, chance, started = Tally(), random.Random(seed), time.monotonic()
    kinds = [list(KINDS)[number % len(KINDS)] for number in range(cycles)]
    chance.shuffle(kinds)
    run = begin(root, tally)
    try:
        for kind in kinds:
            if time.monotonic() - started > longest_s:
                break
            time.sleep(chance.uniform(0.0, 1.2))
            KINDS[kind](run, chance)
            tally.struck[kind] += 1
            check_end(run, kind, tally)
            clean_up(run, kind, tally)
            run = go_on(run, root, tally)
        finish(run, tally)
    finally:
        for process in (*_ours(root), *_supervisors(root)):
            send(process, signal.SIGKILL)
    tally.seconds = time.monotonic() - started
    return tally


def begin(root: Path, tally: Tally) -> Run:
    """Start a run as a launch does: whole directory first, then its supervisor."""
    tally.started += 1
    run = Run(root / "runs" / f"run-{tally.started}")
    run.attempt(1).path.mkdir(parents=True)
    checkpoints = root / "checkpoints" / run.id
    argv = [sys.executable, str(STANDIN), str(STEPS), "--sleep", "0.04", "--worker"]
    argv += ["--save-to", str(checkpoints), "--save-every", str(SAVE_EVERY)]
    jsonl.write_json(
        run.manifest_file,
        {
            "v": 1,
            "id": run.id,
            "recipe": "soak",
            "kind": "grpo",
            "cwd": str(root),
            "created": time.time(),
            "total_steps": STEPS,
            "checkpoint_dir": str(checkpoints),
            "argv": argv,
            "attempts": [{"number": 1, "argv": argv}],
            "config": {},
        },
    )
    write_state(run, RunState("starting", heartbeat=time.time(), total_steps=STEPS))
    vouch(run)
    start_supervisor(run)
    return run


def kill_trainer(run: Run, chance: random.Random) -> None:
    _kill(_recorded(run).trainer)
    _await(run, lambda: observed_state(run).has_ended)


def kill_supervisor(run: Run, chance: random.Random) -> None:
    _kill(_recorded(run).supervisor)


def kill_everything(run: Run, chance: random.Random) -> None:
    supervisor = _recorded(run).supervisor
    targets = [*members(run), *([supervisor] if supervisor else [])]
    chance.shuffle(targets)
    if supervisor:
        # All at once is what is meant: between two kills it could tell how the others ended.
        send(supervisor, signal.SIGSTOP)
    for target in targets:
        send(target, signal.SIGKILL)
    _kill(supervisor)


def kill_worker(run: Run, chance: random.Random) -> None:
    """One of the trainer's own processes; it has none in the first moments."""
    trainer = _recorded(run).trainer
    try:
        children = psutil.Process(trainer.pid).children(recursive=True) if trainer else []
    except psutil.Error:
        children = []
    _kill(identify(chance.choice(children).pid) if children else trainer)
    _await(run, lambda: observed_state(run).has_ended)


def stop(run: Run, chance: random.Random) -> None:
    stop_run(run)


KINDS: dict[str, Callable[[Run, random.Random], None]] = {
    "SIGKILL to the trainer": kill_trainer,
    "SIGKILL to the supervisor": kill_supervisor,
    "SIGKILL to every process": kill_everything,
    "SIGKILL to a worker": kill_worker,
    "stop": stop,
}
_UNSUPERVISED = ("SIGKILL to the supervisor", "SIGKILL to every process")


def check_end(run: Run, kind: str, tally: Tally) -> None:
    """The run says at once, and rightly, how it ended."""
    state = observed_state(run)
    tally.outcomes[state.state] += 1
    reached_end = state.state == "finished" and state.step == STEPS
    right = {
        "SIGKILL to the trainer": state.state == "failed" and state.signal == "SIGKILL",
        "SIGKILL to the supervisor": state.state == "lost",
        "SIGKILL to every process": state.state == "lost",
        "SIGKILL to a worker": state.state == "failed",
        "stop": state.state == "finished" and (state.reason or "").startswith("stopped by user"),
    }
    if not (right[kind] or reached_end):
        tally.problems.append(f"{run.id}: {kind}, but it reads {state.state}: {state.reason}")


def clean_up(run: Run, kind: str, tally: Tally) -> None:
    """A supervisor leaves nothing; where it was killed, ``reap`` does."""
    left = find_orphans(run.path.parent)
    if kind in _UNSUPERVISED:
        tally.reaped += len(reap(left))
        if left := find_orphans(run.path.parent):
            # One that was reaped had just started another, as a user's second look shows.
            tally.second_looks += 1
            tally.reaped += len(reap(left))
            left = find_orphans(run.path.parent)
    tally.orphans += len(left)
    tally.problems += [f"{run.id}: {kind} left {one.process.pid} {one.command}" for one in left]
    reap(left)


def go_on(run: Run, root: Path, tally: Tally) -> Run:
    """Resume; where that has no sense, the next run."""
    try:
        resume(run)
    except UsageError as error:
        if "already finished" in str(error):
            check_whole(run, tally)
        elif "no complete checkpoint" not in str(error) or _saved(run):
            tally.problems.append(f"{run.id}: {error}")
        return begin(root, tally)
    tally.resumes += 1
    return run


def finish(run: Run, tally: Tally) -> None:
    _await(run, lambda: observed_state(run).has_ended)
    state = observed_state(run)
    if not state.went_well:
        tally.problems.append(f"{run.id}: left alone, but it reads {state.state}: {state.reason}")
    clean_up(run, "left alone", tally)
    check_whole(run, tally)


def check_whole(run: Run, tally: Tally) -> None:
    """One history: every step counts once, those done again say so, no file is torn."""
    tally.whole += 1
    steps = list(read_steps(run.train_log))
    missing = set(range(1, STEPS + 1)) - {step.step for step in history(steps)}
    tally.gaps += len(missing)
    seen: set[int] = set()
    for step in steps:
        if step.redone != (step.step in seen):
            tally.problems.append(f"{run.id}: step {step.step}, redone={step.redone} is wrong")
        seen.add(step.step)
        tally.redone += step.redone
    torn = [str(path) for path in _torn(run.path)]
    tally.torn += len(torn)
    tally.unfinished += len(list(run.path.rglob(".*.json.*")))
    complaints = [*torn, *(f"step {step} is missing" for step in sorted(missing))]
    tally.problems += [f"{run.id}: {complaint}" for complaint in complaints]


def _torn(folder: Path) -> Iterator[Path]:
    """Files that hold a line or an object that is not whole."""
    for path in sorted(folder.rglob("*")):
        texts = []
        if path.suffix == ".json":
            texts = [path.read_text()]
        elif path.suffix == ".jsonl":
            texts = path.read_text().splitlines()
        if any(not _is_json(text) for text in texts):
            yield path


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _saved(run: Run) -> bool:
    """Whether the trainer logged a step after one that it saved."""
    return any(step.step > SAVE_EVERY for step in read_steps(run.train_log))


def _recorded(run: Run) -> RunState:
    state = recorded_state(run)
    assert state is not None
    return state


def _kill(process: Identity | None) -> None:
    """SIGKILL, and wait until it is gone."""
    if process is not None and send(process, signal.SIGKILL):
        while alive(process):
            time.sleep(0.01)


def _await(run: Run, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{run.path}: {observed_state(run)} for too long")
        time.sleep(0.02)


def _ours(root: Path) -> list[Identity]:
    runs = (root / "runs").resolve()
    return [process for process, mark in marked() if mark.directory.parent == runs]


def _supervisors(root: Path) -> list[Identity]:
    states = [recorded_state(Run(path)) for path in (root / "runs").iterdir()]
    return [state.supervisor for state in states if state is not None and state.supervisor]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=9.5)
    parser.add_argument("--out", type=Path, help="Keep the runs in this folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = (given.out or Path(folder)).resolve()
        tally = soak(root, given.cycles, given.seed, 60 * given.minutes)
    print(tally.table())
    print("\n".join(tally.problems), file=sys.stderr)
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
