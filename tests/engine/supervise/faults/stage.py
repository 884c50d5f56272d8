"""A runs folder with stand-in trainers under real supervisors, and what tests ask of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.launch.launcher import start_supervisor
from engine.run.history.train_log import read_steps
from engine.run.identity import Identity
from engine.run.marks import new_mark
from engine.run.processes import end_members, send
from engine.run.run import Run
from engine.run.state import RunState, observed_state, recorded_state, write_state
from engine.run.trust import vouch
from tests.waiting import wait_for

STANDIN = Path(__file__).parents[1] / "standin.py"

# A stand-in has nothing to save, so nobody waits for it for long.
IMPATIENT = {"interrupt_patience_s": 0.5, "terminate_patience_s": 0.5, "stack_dumps": False}


class Stage:
    """Starts runs below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def prepare(
        self, *arguments: str, steps: int = 3, total: int | None = None, name: str = "", **more: Any
    ) -> Run:
        """A run as a launch leaves it; ``more``: ``supervision`` settings, ``checkpoints``, and
        values of other sections as ``config``."""
        self.root.mkdir(parents=True, exist_ok=True)
        run = Run(self.root / (name or f"run-{len(list(self.root.iterdir()))}"))
        argv = [sys.executable, str(STANDIN), str(steps), *arguments]
        checkpoints, config = more.pop("checkpoints", None), more.pop("config", {})
        settings = {f"supervision.{key}": value for key, value in {**IMPATIENT, **more}.items()}
        settings |= config
        if checkpoints is not None:
            settings["trainer.default_local_dir"] = str(checkpoints)
        run.attempt(1).path.mkdir(parents=True)
        manifest = {
            "v": 1,
            "id": run.id,
            "mark": new_mark(),
            "kind": "grpo",
            "cwd": str(self.root),
            "created": time.time(),
            "total_steps": steps if total is None else total,
            "attempts": [{"number": 1, "argv": argv}],
            "checkpoint_dir": None if checkpoints is None else str(checkpoints),
            "config": {key: {"value": value} for key, value in settings.items()},
        }
        jsonl.write_json(run.manifest_file, manifest)
        vouch(run)
        write_state(run, RunState("starting", heartbeat=time.time()))
        return run

    def start(self, *arguments: str, **more: Any) -> Run:
        run = self.prepare(*arguments, **more)
        start_supervisor(run)
        return run

    def long(self, *arguments: str, **more: Any) -> Run:
        """A run that goes on for minutes and has logged a step."""
        run = self.start("--sleep", "0.1", *arguments, steps=1000, **more)
        wait_for(lambda: logged(run) != [] or observed_state(run).has_ended)
        assert logged(run) != [], run.attempt(1).console.read_text()
        return run

    def clear_away(self) -> None:
        for path in self.root.glob("*"):
            run = Run(path)
            state = recorded_state(run)
            if state is not None and state.supervisor is not None:
                send(state.supervisor, signal.SIGKILL)
            end_members(run, 0.0)


def in_state(run: Run, name: str, step: int | None = None) -> RunState:
    """A state that lasts, once the run is in it, and at ``step`` where one is given.

    What passes by itself may be over before anybody looks: wait for its event.
    """
    seen = [observed_state(run)]

    def reached() -> bool:
        seen[0] = observed_state(run)
        return seen[0].state == name and step in (None, seen[0].step)

    wait_for(reached)
    return seen[0]


def stop_begins(run: Run) -> None:
    """Wait until the run's supervisor has begun to stop it."""
    wait_for(lambda: events(run, "stop"))


def logged(run: Run) -> list[int]:
    """The steps of the run's history, as they were written."""
    return [step.step for step in read_steps(run.train_log)]


def events(run: Run, name: str) -> list[dict[str, Any]]:
    return [event for event in jsonl.read(run.events) if event["event"] == name]


def supervisor_of(run: Run) -> Identity:
    state = recorded_state(run)
    assert state is not None and state.supervisor is not None
    return state.supervisor


def trainer_of(run: Run) -> Identity:
    state = recorded_state(run)
    assert state is not None and state.trainer is not None
    return state.trainer


def deleted(path: Path) -> bool:
    """Delete a directory that others write into, as often as that takes."""
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


def exists(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
