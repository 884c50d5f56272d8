"""One small process per run: starts the trainer, keeps the books, takes requests, leaves nothing.

``python -m engine.runs.supervisor RUN_DIR``. It lives in a session of its own, so neither the
screen nor the SSH connection takes it along, and it is the subreaper of everything below it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from engine import jsonl
from engine.runs import processes, requests
from engine.runs.events import log_event
from engine.runs.processes import Identity
from engine.runs.rundir import ATTEMPT_DIR_VARIABLE, RUN_ID_VARIABLE, RunDir
from engine.runs.state import RunState, write_state
from engine.runs.system import SystemSampler
from engine.runs.verdict import Evidence, Exit, judge
from engine.watch.phases import waiting_for
from engine.watch.tail import Tail
from engine.watch.train_log import StepJoiner

TICK_S = 0.25
HEARTBEAT_S = 2.0
SAMPLE_S = 2.0

# Seconds a signal gets before the next, harder one. verl takes about 5 s to end after SIGINT.
PATIENCE_S = ((signal.SIGINT, 15.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 0.0))


class Supervisor:
    """Runs one attempt from start to verdict."""

    def __init__(self, run: RunDir) -> None:
        manifest = run.read_manifest()
        number = len(manifest["attempts"])
        self.run = run
        self.attempt = run.attempt(number)
        self.argv: list[str] = manifest["attempts"][-1]["argv"]
        self.cwd = Path(manifest["cwd"])
        self.checkpoint_dir = manifest.get("checkpoint_dir")
        self.state = RunState(
            "starting",
            attempt=number,
            waiting_for="trainer process",
            supervisor=processes.identify(os.getpid()),
            started=time.time(),
            total_steps=manifest.get("total_steps"),
        )
        self._exit: Exit | None = None
        self._stop_escalation: Escalation | None = None
        self._joiner = StepJoiner(self.attempt)
        self._console = Tail(self.attempt.console)
        self._sampler = SystemSampler(run.path)
        self._checkpoint_at_request: str | None = None

    def supervise(self) -> int:
        """Start the trainer and stay until nothing of the run is left. Returns its exit code."""
        processes.become_subreaper()
        self._start()
        sample, beat = Every(SAMPLE_S, self._sample), Every(HEARTBEAT_S, self._beat)
        while self._exit is None:
            time.sleep(TICK_S)
            self._reap()
            self._follow()
            self._obey()
            sample()
            beat()
        self._clear_away()
        self._follow()
        self._conclude()
        return self._exit.code or 0

    def _start(self) -> None:
        log_event(self.run, "start", attempt=self.attempt.number, argv=self.argv)
        environment = {
            **os.environ,
            RUN_ID_VARIABLE: self.run.id,
            ATTEMPT_DIR_VARIABLE: str(self.attempt.path.resolve()),
            "VERL_FILE_LOGGER_PATH": str(self.attempt.metrics.resolve()),
            "PYTHONUNBUFFERED": "1",
        }
        with self.attempt.console.open("ab") as console:
            trainer = subprocess.Popen(
                self.argv,
                cwd=self.cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # Reaped by waitpid(-1) below, together with the orphans this process adopts.
        self._trainer_pid = trainer.pid
        trainer.returncode = 0
        self._set(trainer=processes.identify(trainer.pid))

    def _reap(self) -> None:
        for pid, status in processes.reap_children():
            if pid == self._trainer_pid:
                self._exit = Exit.from_status(status)

    def _follow(self) -> None:
        """Carry new steps over to the run's one history and note how far the start has come."""
        for step in self._joiner.new_steps():
            jsonl.append(self.run.train_log, step.to_json())
            self._note_step(step.step)
        if self.state.state == "starting":
            now = waiting_for(self._console.lines(), self.state.waiting_for or "")
            if now != self.state.waiting_for:
                self._set(waiting_for=now)

    def _note_step(self, step: int) -> None:
        if step < 1:
            return
        if self.state.state == "starting":
            self._set(state="running", waiting_for=None, step=step)
        elif step != self.state.step:
            self._set(step=step)

    def _obey(self) -> None:
        request = requests.pending_stop(self.run)
        if request is None:
            return
        if self._stop_escalation is None:
            if request.after_checkpoint and not self._new_checkpoint():
                return
            log_event(self.run, "stop", step=self.state.step)
            self._set(state="stopping", waiting_for=None)
            self._stop_escalation = Escalation(self._signal)
        self._stop_escalation.tick()

    def _new_checkpoint(self) -> bool:
        """Whether a checkpoint was completed since the stop was asked for.

        verl writes its tracker file last, so a change of it means a whole checkpoint.
        """
        tracker = Path(self.cwd, self.checkpoint_dir or "", "latest_checkpointed_iteration.txt")
        content = tracker.read_text() if tracker.exists() else ""
        if self._checkpoint_at_request is None:
            self._checkpoint_at_request = content
            self._set(reason="stops after the next checkpoint")
        return content != self._checkpoint_at_request

    def _signal(self, number: signal.Signals) -> None:
        """SIGINT goes to the trainer alone, which ends its workers; harder ones go to all."""
        trainer = self.state.trainer
        if number == signal.SIGINT:
            targets = [trainer] if trainer is not None else []
        else:
            targets = self._members()
        log_event(self.run, "signal", signal=number.name, pids=[t.pid for t in targets])
        for target in targets:
            processes.send(target, number)

    def _clear_away(self) -> None:
        """End what the trainer left behind, e.g. Ray's agents after a SIGKILL."""
        deadline = time.monotonic() + 2.0
        while (left := self._members()) and time.monotonic() < deadline:
            time.sleep(0.1)
            self._reap()
        if left:
            log_event(self.run, "warning", message="ended leftovers", pids=[p.pid for p in left])
            processes.end(left, patience_s=3.0)
            self._reap()

    def _conclude(self) -> None:
        assert self._exit is not None
        from engine.records.checkpoints import check_checkpoint

        state, reason = judge(
            Evidence(
                exit=self._exit,
                stop_requested=self._stop_escalation is not None,
                step=self.state.step,
                total_steps=self.state.total_steps,
                checkpoint_complete=check_checkpoint(self.run).complete,
                console=self.attempt.console,
            )
        )
        self._set(
            state=state,
            reason=reason,
            waiting_for=None,
            ended=time.time(),
            exit_code=self._exit.code,
            signal=self._exit.signal,
        )
        log_event(self.run, "end", state=state, reason=reason, exit_code=self._exit.code)

    def _members(self) -> list[Identity]:
        return processes.members(self.run.id, roots=[os.getpid()])

    def _sample(self) -> None:
        pids = [process.pid for process in self._members()]
        jsonl.append(self.attempt.system, self._sampler.sample(pids))

    def _beat(self) -> None:
        self._set()

    def _set(self, **changes: object) -> None:
        self.state = self.state.evolve(**changes, heartbeat=time.time())
        write_state(self.run, self.state)


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


class Escalation:
    """Ever harder signals, each after the patience of the one before has run out."""

    def __init__(self, send: Callable[[signal.Signals], None]) -> None:
        self._send = send
        self._left = list(PATIENCE_S)
        self._due = 0.0

    def tick(self) -> None:
        if self._left and time.monotonic() >= self._due:
            number, patience = self._left.pop(0)
            self._due = time.monotonic() + patience
            self._send(number)


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
        processes.end(processes.members(run.id, roots=[os.getpid()]), patience_s=5.0)
        raise


if __name__ == "__main__":
    sys.exit(main())
