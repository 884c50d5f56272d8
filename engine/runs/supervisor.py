"""One small process per run: starts the trainer, keeps the books, takes requests, leaves nothing.

``python -m engine.runs.supervisor RUN_DIR``. It lives in a session of its own, so neither the
screen nor the SSH connection takes it along, and it is the subreaper of everything below it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.records.checkpoints import check_checkpoint, tracked_step
from engine.runs import processes, requests, stacks
from engine.runs.books import Books
from engine.runs.escalation import Escalation
from engine.runs.rundir import RunDir
from engine.runs.settings import Supervision
from engine.runs.stall import StallWatch
from engine.runs.state import RunState, write_state
from engine.runs.system import SystemSampler
from engine.runs.trainer import Trainer
from engine.runs.verdict import Evidence, Exit, judge
from engine.watch.phases import waiting_for
from engine.watch.tail import Tail
from engine.watch.train_log import StepJoiner, read_steps

TICK_S = 0.25
HEARTBEAT_S = 2.0
SAMPLE_S = 2.0
GRACE_S = 2.0
LAST_WORDS_S = 600.0


class Supervisor:
    """Runs one attempt from start to verdict."""

    def __init__(self, run: RunDir) -> None:
        manifest = run.read_manifest()
        current = manifest["attempts"][-1]
        self.run = run
        self.attempt = run.attempt(current["number"])
        self.attempt.path.mkdir(exist_ok=True)
        self.cwd = Path(manifest["cwd"])
        self.supervision = Supervision.from_manifest(manifest)
        self.checkpoints = self.cwd / (manifest.get("checkpoint_dir") or "")
        self.books = Books(run, self.attempt)
        self.state = RunState(
            "starting",
            attempt=self.attempt.number,
            waiting_for="trainer process",
            supervisor=processes.identify(os.getpid()),
            started=time.time(),
            total_steps=manifest.get("total_steps"),
        )
        self._argv: list[str] = current["argv"]
        self._joiner = StepJoiner(self.attempt)
        self._last_before = max((step.step for step in read_steps(run.train_log)), default=-1)
        self._console = Tail(self.attempt.console)
        self._sampler = SystemSampler(run.path)
        self._stall = StallWatch(self.supervision)
        self._stopping: Escalation | None = None
        self._checkpoint_when_asked: int | None = None
        self._asked = False

    def supervise(self) -> int:
        """Start the trainer and stay until nothing of the run is left. Returns its exit code."""
        processes.become_subreaper()
        self.books.event("start", attempt=self.attempt.number, argv=self._argv)
        self.trainer = Trainer(self.run, self.attempt, self._argv, self.cwd)
        self._set(trainer=self.trainer.identity)
        self.books.flush()
        sample, beat = Every(SAMPLE_S, self._sample), Every(HEARTBEAT_S, self._set)
        while self.trainer.exit is None:
            time.sleep(TICK_S)
            self.trainer.reap()
            self._follow()
            self._obey()
            self._look_for_stall()
            sample()
            beat()
            self.books.flush()
        self._clear_away()
        self._follow()
        self._conclude(self.trainer.exit)
        self.books.flush_until(LAST_WORDS_S)
        return self.trainer.exit.code or 0

    def _follow(self) -> None:
        """Carry new steps over to the run's one history and note how far the start has come."""
        for step in self._joiner.new_steps():
            self.books.step(replace(step, redone=step.step <= self._last_before))
            if step.step >= 1:
                self._stall.step()
                self._note_step(step.step)
        if self.state.state == "starting":
            now = waiting_for(self._console.lines(), self.state.waiting_for or "")
            if now != self.state.waiting_for:
                self._set(waiting_for=now)

    def _note_step(self, step: int) -> None:
        if self.state.state in ("starting", "stalled"):
            self._set(state="running", reason=None, waiting_for=None, step=step)
        else:
            self._set(step=step)

    def _obey(self) -> None:
        request = requests.pending_stop(self.run)
        if request is None:
            return
        if self._stopping is None:
            if request.after_checkpoint and not self._new_checkpoint():
                return
            self.books.event("stop", step=self.state.step)
            self._set(state="stopping", reason=None, waiting_for=None)
            self._stopping = Escalation(self._signal, self.supervision)
        self._stopping.tick()

    def _new_checkpoint(self) -> bool:
        """Whether a checkpoint was completed since the stop was asked for.

        verl writes its tracker file last, so a change of it means a whole checkpoint.
        """
        now = tracked_step(self.checkpoints)
        if not self._asked:
            self._asked = True
            self._checkpoint_when_asked = now
            self._set(reason="stops after the next checkpoint")
        return now != self._checkpoint_when_asked

    def _signal(self, number: signal.Signals) -> None:
        self.books.event("signal", signal=number.name, pids=self.trainer.signal(number))

    def _look_for_stall(self) -> None:
        if self.state.state != "running" or (complaint := self._stall.complaint()) is None:
            return
        where = self._where() if self.supervision.stack_dumps else None
        reason = f"{complaint}; in {where}" if where else complaint
        self.books.event("stall", step=self.state.step, reason=reason)
        self._set(state="stalled", reason=reason)

    def _where(self) -> str | None:
        name = f"stacks-{time.strftime('%H%M%S')}.txt"
        return stacks.dump(self.trainer.members(), self.attempt.path / name)

    def _clear_away(self) -> None:
        """End what the trainer left behind, e.g. Ray's agents after a SIGKILL."""
        deadline = time.monotonic() + GRACE_S
        while (left := self.trainer.members()) and time.monotonic() < deadline:
            time.sleep(0.1)
            self.trainer.reap()
        if left:
            pids = [process.pid for process in left]
            self.books.event("warning", message="ended leftovers", pids=pids)
            processes.end(left, patience_s=3.0)
            self.trainer.reap()

    def _conclude(self, exit_: Exit) -> None:
        evidence = Evidence(
            exit=exit_,
            stop_requested=self._stopping is not None,
            step=self.state.step,
            total_steps=self.state.total_steps,
            checkpoint_complete=check_checkpoint(self.run).complete,
            console=self.attempt.console,
        )
        state, reason = judge(evidence)
        self.books.event("end", state=state, reason=reason, exit_code=exit_.code)
        self._set(
            state=state,
            reason=reason,
            waiting_for=None,
            ended=time.time(),
            exit_code=exit_.code,
            signal=exit_.signal,
        )

    def _sample(self) -> None:
        pids = [process.pid for process in self.trainer.members()]
        self.books.sample(self._sampler.sample(pids))

    def _set(self, **changes: object) -> None:
        self.state = self.state.evolve(**changes, heartbeat=time.time())
        self.books.state(self.state)


class Every:
    """Calls a function at most once per period."""

    def __init__(self, period_s: float, function: Callable[[], None]) -> None:
        self._period_s = period_s
        self._function = function
        self._due = 0.0

    def __call__(self) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._period_s
            self._function()


def detach() -> None:
    """Leave the launcher's session and parentage; only the new process returns."""
    if os.fork():
        os._exit(0)
    os.setsid()
    # Handlers rather than SIG_IGN: an ignored signal would stay ignored in the trainer.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)


def main() -> int:
    run = RunDir(Path(sys.argv[1]))
    detach()
    try:
        return Supervisor(run).supervise()
    except Exception as error:
        # Nobody sees this process's output: the state file has to say what went wrong.
        reason = f"supervisor: {type(error).__name__}: {error}"
        write_state(run, RunState("failed", reason=reason, ended=time.time()))
        processes.end(processes.members(run, roots=[os.getpid()]), patience_s=5.0)
        raise


if __name__ == "__main__":
    sys.exit(main())
