"""One small process per run: starts the trainer, records the run, takes requests, cleans up.

``python -m engine.supervise.supervisor RUN_DIR`` runs in its own session, so that it outlives the
TUI and the SSH connection. It is the subreaper of all its descendants.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TypeVar

from msgspec import structs

from engine.base import files
from engine.base.errors import UsageError
from engine.base.follow import Tail
from engine.base.masking import mask_words
from engine.run import processes
from engine.run.checkpoints.find import check_checkpoint
from engine.run.checkpoints.ownership import claim, is_known, loaded_checkpoint
from engine.run.checkpoints.step_folders import tracked_step
from engine.run.events import pending_stop
from engine.run.history.train_log import last_validation, read_steps
from engine.run.host.gpus import ALL
from engine.run.host.programs import detach, keep_folder_last
from engine.run.host.system import SystemSampler
from engine.run.manifest import Manifest, Ticket
from engine.run.run import ARGV_VARIABLE, OpenRunFolder, Run
from engine.run.state import (
    UNREADABLE,
    RunState,
    StateName,
    recorded_state,
    this_host,
    write_state,
)
from engine.supervise import private_ray
from engine.supervise.final_state import Evidence, final_state, full_disk
from engine.supervise.follower import Report
from engine.supervise.hang import Dumps, Hang, find_hang, find_stopped, sample_members, write_stacks
from engine.supervise.hosts import find_host
from engine.supervise.milestones import (
    CheckpointWatch,
    CodeWatch,
    next_save,
    skipped_updates_of,
    validation_of,
)
from engine.supervise.program_steps import open_steps
from engine.supervise.queue import (
    DoctorCommand,
    Never,
    QueuePlace,
    Start,
    doctor_command,
    end_record,
    examine,
)
from engine.supervise.run_writer import RunWriter
from engine.supervise.stall import StallWatch, Supervision
from engine.supervise.stopping import Escalation
from engine.supervise.trainer import Trainer, recording, said_total, waiting_for
from engine.supervise.troubles import Troubles

TICK_S = 0.25
HEARTBEAT_S = 2.0
CODE_LOOK_S = 5.0
CHECKPOINT_LOOK_S = 1.0
SAMPLE_S = 2.0
QUEUE_LOOK_S = 1.0
GRACE_S = 2.0
READ_S = 0.5
"""In a turn; what is left by then is for the next one."""
AT_ONCE = 2 << 20
READ = "read its output"
OPEN_S = 10.0
PATIENCE_S = 20.0
LAST_WORDS_S = 600.0
WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""torch's own variable: all loads of the process unpickle only tensors and plain values."""

T = TypeVar("T")


class Supervisor:
    """Runs one attempt from start to end."""

    def __init__(self, run: Run, ask_doctor: DoctorCommand = doctor_command) -> None:
        """``ask_doctor`` returns the command that examines the run before this one."""
        manifest = run.read_full_manifest()
        current = manifest.attempts[-1]
        self.run = run
        self.attempt = run.attempt(current.number)
        files.make_folder(self.attempt.path)
        if manifest.cwd is None:
            raise UsageError(f"{run.manifest_file}: the folder of the command is missing")
        self.cwd = Path(manifest.cwd)
        self.host = find_host(run, manifest)
        self._heard: Report | None = None
        self.supervision = Supervision.of(manifest)
        if self.host.shows_by_files:
            self.supervision = structs.replace(self.supervision, stall_factor=math.inf)
        self.checkpoints = self.cwd / (manifest.checkpoint_dir or "")
        self._guard = OpenRunFolder(run)
        # Its files are read and written in the open folder: it may be moved, or a mount away.
        self._held = self._guard.held
        held_attempt = self._held.attempt(self.attempt.number)
        self.writer = RunWriter(run, self.attempt.number, self._held)
        self._troubles = Troubles(
            lambda text: self.writer.event("warning", message=text, kind="system")
        )
        self._warned: set[str] = set()
        self._ask_doctor = ask_doctor
        # A resumed run does not queue again.
        self._ticket = manifest.queue if self.attempt.number == 1 else None
        self.state = _first_state(run, manifest, queued=self._ticket is not None)
        is_on_cuda = manifest.value("grubrics.device") == "cuda"
        self._on_gpu = bool(manifest.gpus) or (is_on_cuda and self.host.trains_here)
        self._planned_steps = manifest.total_steps
        given = os.environ.pop(ARGV_VARIABLE, None)
        self._argv: Sequence[str] = json.loads(given) if given else current.argv
        self._variables = manifest.variables
        self._is_command = manifest.is_command
        self._code = CodeWatch(manifest, self.cwd)
        self._steps = open_steps(self._held, held_attempt, manifest)
        history = read_steps(self._held.train_log)
        self._last_before = max((step.step for step in history), default=-1)
        self._console = Tail(held_attempt.console)
        self._saved = CheckpointWatch(self.checkpoints)
        self._next_save = next_save(manifest)
        self._manifest = manifest
        self._sampler = SystemSampler(self._held.path)
        self._stopping: Escalation | None = None
        self._stopped_by: str | None = None
        self._waits_for_checkpoint = False
        self._checkpoint_at_request: int | None = None
        self._got_sigterm = False
        self._is_stopped_stall = False
        self._before_stall: StateName = "starting"

    def supervise(self) -> int:
        """Run the trainer, and stay until no process of the run is left. Returns its exit code."""
        processes.become_subreaper()
        if self._held.path.stat().st_mode & 0o070:
            # The group may read the run, but must not write files of the trainer's libraries.
            os.umask(os.umask(0o077) | 0o022)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        start = Start() if self._ticket is None else self._await_turn(self._ticket)
        if start is None or not self.examine_predecessor() or not self._claim_checkpoints():
            self.writer.flush_until(LAST_WORDS_S)
            return 0
        self._begin(start)
        if not self._train():
            return 1
        self._conclude(self._read_to_the_end())
        self.writer.flush_until(LAST_WORDS_S)
        return self.trainer.exit.code or 0 if self.trainer.exit else 1

    def _train(self) -> bool:
        """Follow the trainer until it has ended; False if the run was deleted meanwhile.

        A turn takes seconds at most, whatever is printed. Whatever fails in it, the rest is done,
        and the trainer trains on.
        """
        turn: dict[str, Callable[[], object]] = {
            "see which processes end": self.trainer.reap,
            "take requests": self._obey,
            READ: self._follow,
            "measure the machine": Every(SAMPLE_S, self._sample),
            "look for stalls": self._check_stall,
            "watch its code": Every(CODE_LOOK_S, self._warn_of_edited_code),
            "watch its checkpoints": Every(CHECKPOINT_LOOK_S, self._record_checkpoints),
            "find its folder": self._guard.require,
            "say how it is": Every(HEARTBEAT_S, self._set),
            "write its files": self.writer.flush,
        }
        while self.trainer.exit is None:
            if not self._steps.is_behind:
                with suppress(OSError):
                    time.sleep(TICK_S)
            for part, function in turn.items():
                self._troubles.survive(part, function)
            if self._guard.is_gone():
                # No command could find, watch or stop this run any more.
                self._eventually(
                    lambda: processes.end_members(self._held, 3.0, roots=[os.getpid()])
                )
                self.trainer.reap()
                return False
        return True

    def _read_to_the_end(self) -> Evidence:
        """End what the trainer left, and read what it wrote: only then the run can be judged."""
        last: dict[str, Callable[[], object]] = {
            "end what it left": self._end_remaining,
            READ: self._follow,
            "watch its code": self._warn_of_edited_code,
            "watch its checkpoints": self._record_checkpoints,
        }
        evidence: list[Evidence] = []
        last["judge its end"] = lambda: evidence.append(self._evidence())
        reading = "its trainer has ended; what it wrote is read"
        beat = Every(HEARTBEAT_S, lambda: self._set(state="stopping", reason=reading))
        for part, function in last.items():
            while not self._troubles.survive(part, function) or (
                part == READ and self._steps.is_behind
            ):
                error = self._troubles.error(part)
                patience_s = LAST_WORDS_S if files.is_trouble(error) else GRACE_S
                if error is not None and self._troubles.lasted_s(part) > patience_s:
                    break
                beat()
                self._troubles.survive("write its files", self.writer.flush)
                if error is not None:
                    time.sleep(TICK_S)
        if not evidence:
            raise self._troubles.error("judge its end") or RuntimeError("no evidence")
        return evidence[0]

    def _eventually(self, function: Callable[[], T]) -> T:
        """The result, once the system answers. For what comes before the training: an error that is
        an answer is raised, and so is trouble that lasts."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return function()
            except Exception as error:
                if not files.is_trouble(error) or time.monotonic() > deadline:
                    raise
            time.sleep(TICK_S)

    def _before_start(self) -> Iterator[None]:
        """Yield, with heartbeats, until the queued run is stopped or its directory is gone."""
        beat = Every(HEARTBEAT_S, self._set)
        while not self._got_sigterm and pending_stop(self._held) is None:
            yield
            self._troubles.survive("say how it is", beat)
            if self._guard.is_gone():
                return
            self.writer.flush()
            time.sleep(TICK_S)
        self._never_start("finished", f"stopped by {self._stopper()} before it started")

    def _await_turn(self, ticket: Ticket) -> Start | None:
        """Wait in the queue for as long as it takes; None if the run must not start."""
        queue, due = QueuePlace(self.run, ticket), 0.0
        self.writer.event("queued", after=ticket.after, turn=ticket.turn, gpus=ticket.gpus)
        for _ in self._before_start():
            now = time.monotonic()
            if now < due:
                continue
            decision = queue.decide()
            if isinstance(decision, Start):
                return decision
            if isinstance(decision, Never):
                self._never_start("failed", decision.reason)
                return None
            if (decision.waiting_for, decision.held) != (self.state.waiting_for, self.state.reason):
                self._set(waiting_for=decision.waiting_for, reason=decision.held)
            # With very many runs a decision takes longer; it must stay cheap on average.
            due = now + max(QUEUE_LOOK_S, 50 * (time.monotonic() - now))
        return None

    def examine_predecessor(self) -> bool:
        """Warn if the run that this one follows finished unhealthy.

        The examination can take two minutes. Returns False if the run was stopped meanwhile.
        """
        if self._ticket is None or self._ticket.after is None:
            return True
        before = Run(self.run.path.parent / self._ticket.after)
        if find_host(before).has_unknown_end():
            unknown = f"run '{before.id}' was adopted: whether it succeeded is unknown"
            self.writer.event("warning", message=unknown)
        with ExitStack() as stack:
            examination = self._careful(
                lambda: stack.enter_context(examine(before, self._ask_doctor))
            )
            if examination is None:
                return True
            self._set(waiting_for=f"the diagnosis of run '{before.id}'", reason=None)
            for _ in self._before_start():
                if examination.is_over:
                    if (message := examination.complaint()) is not None:
                        self.writer.event("warning", message=message)
                    return True
        return False

    def _never_start(self, state: StateName, reason: str) -> None:
        self.writer.event("end", state=state, reason=reason, exit_code=None)
        self._set(state=state, reason=reason, waiting_for=None, ended=time.time())

    def _claim_checkpoints(self) -> bool:
        """Claim the checkpoint folder for the run; False if the run cannot start because of it."""
        try:
            moved = self._eventually(lambda: claim(self.run))
        except UsageError as error:
            self._never_start("failed", str(error))
            return False
        if moved is not None:
            self.writer.event("warning", message=moved)
        return True

    def _loading(self) -> dict[str, str]:
        """Variables that keep torch from executing code in a checkpoint of unknown origin."""
        checkpoint = loaded_checkpoint(self._manifest)
        if checkpoint is None or is_known(checkpoint) or WEIGHTS_ONLY in os.environ:
            return {}
        message = f"{checkpoint}: may not come from a run of yours; loaded with weights_only"
        self.writer.event("warning", message=message)
        return {WEIGHTS_ONLY: "1"}

    def _recording(self) -> Mapping[str, str]:
        return recording(self.run, self.attempt)

    def _begin(self, start: Start) -> None:
        """Record that the run starts, and with which GPUs, before its trainer starts."""
        added = {
            **({} if self._is_command else self._eventually(self._recording)),
            **self._variables,
            **start.environment,
            **(self._patiently(self._loading) or {}),
        }
        environment = {**os.environ, **added}
        gpus = environment.get("CUDA_VISIBLE_DEVICES", ALL) if self._on_gpu else None
        self._set(
            state="starting",
            waiting_for=self.host.first_wait,
            reason=None,
            started=self.host.started(time.time()),
            gpus=gpus,
        )
        argv = mask_words(self._argv)
        self.writer.event("start", attempt=self.attempt.number, argv=argv, gpus=gpus)
        self.writer.flush()
        self._began = time.monotonic()
        self._stall = StallWatch(self.supervision)
        self._eventually(self._steps.skip_existing)
        if not self._is_command:
            added = {"PYTHONPATH": environment.get("PYTHONPATH", ""), **added}
            keep_folder_last(added)
        self.trainer = self._eventually(
            lambda: Trainer(self.run, self._held, self.attempt.number, self._argv, self.cwd, added)
        )
        self._set(trainer=self.trainer.identity)
        self._hear()
        self.writer.flush()

    def _follow(self) -> None:
        """Append new steps to the run's history, and record what a starting run waits for."""
        is_history = not self._has_started
        self._hear()
        before = self._steps.progress
        for step in self._steps.new_steps(time.monotonic() + READ_S):
            self.writer.step(replace(step, redone=step.redone or step.step <= self._last_before))
            if (validation := validation_of(step)) is not None:
                self.writer.event("validation", **validation)
            if (skipped := skipped_updates_of(step)) is not None:
                self.writer.event("skipped_updates", **skipped)
            if step.step < 1:
                continue
            if not is_history:
                self._stall.step()
            if self.state.state in ("starting", "stalled"):
                self._set(state="running", reason=None, waiting_for=None, step=step.step)
            else:
                self._set(step=step.step)
        if self._steps.progress > before:
            self._stall.progress()
        self._see_total(self._steps.total_steps)
        if self.state.waiting_for is not None:
            lines = self._console.lines(AT_ONCE)
            total = said_total(lines)
            if total is not None and self._planned_steps != 0:  # 0: it only validates
                self._planned_steps = total
                self._see_total(total)
            now = waiting_for(lines, self.state.waiting_for)
            if now != self.state.waiting_for:
                self._set(waiting_for=now)

    @property
    def _has_started(self) -> bool:
        """Whether the run waits for its host no longer."""
        return self._heard is not None and self._heard.waiting_for is None

    def _hear(self) -> None:
        """Record whether the run waits for its start, and whether it may not be running."""
        report = self.host.report(self._held.attempt(self.attempt.number).path)
        if report is None or self._stopping is not None:
            return
        had_started = self._has_started
        was_quiet = self._heard is not None and self._heard.quiet is not None
        self._heard = report
        if report.waiting_for is not None:
            if (self.state.state, self.state.waiting_for) != ("queued", report.waiting_for):
                self._set(state="queued", waiting_for=report.waiting_for)
        elif not had_started:
            self._stall = StallWatch(self.supervision)
            # Nothing tells when a program begins to train, or whether it does.
            state: StateName = "running" if self._is_command else "starting"
            waiting_for = None if self._is_command else "trainer process"
            started = self.host.started(self.state.started)
            self._set(state=state, waiting_for=waiting_for, started=started)
        elif report.quiet is not None and self.state.state == "running":
            self._set(state="stalled", reason=report.quiet)
        elif report.quiet is None and was_quiet:
            self._set(state="running", reason=None)

    def _see_total(self, total: int | None) -> None:
        """Take over the number of steps that a program says; it may say none, or a new one."""
        if total is not None and total != self.state.total_steps:
            self._set(total_steps=total)

    def _obey(self) -> None:
        if self.trainer.exit is not None:
            return
        if self._stopping is None and self._should_stop():
            self._stopped_by = self._stopper()
            self._stopping = Escalation(
                lambda n: self.writer.event("signal", signal=n.name, pids=self.trainer.signal(n)),
                self.supervision,
            )
            self.writer.event(
                "stop",
                step=self.state.step,
                asked_by=self._stopped_by,
                attempt=self.attempt.number,
                console_bytes=files.size_of(self.attempt.console),
            )
            self._set(state="stopping", reason=f"asked by {self._stopped_by}", waiting_for=None)
            # What the signal makes the console show is after the stop for every reader.
            self.writer.flush()
        if self._stopping is not None:
            self._stopping.tick()

    def _should_stop(self) -> bool:
        """Whether a stop was requested, and the checkpoint that it waits for is complete.

        verl writes its tracker file last, so a change of it means a complete checkpoint. The step
        itself, with its validation, is logged after that.
        """
        if self._got_sigterm:
            return True
        request = pending_stop(self._held)
        if request is None or not request.after_checkpoint:
            return request is not None
        newest = tracked_step(self.checkpoints)
        if not self._waits_for_checkpoint:
            self._waits_for_checkpoint = True
            self._checkpoint_at_request = newest
        reason = f"stops {self._next_save.after(self.state.step)}"
        if reason != self.state.reason:
            self._set(reason=reason)
        is_saved = newest is not None and newest != self._checkpoint_at_request
        return is_saved and (self.state.step or 0) >= (newest or 0)

    def _stopper(self) -> str:
        if self._got_sigterm:
            return "SIGTERM to its supervisor"
        request = pending_stop(self._held)
        return "user" if request is None else request.by

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """Stop the run in order: a machine sends SIGTERM before it shuts down."""
        self._got_sigterm = True

    def _check_stall(self) -> None:
        if self.state.state == "stalled" and self._is_stopped_stall and not self._stall.is_stopped:
            # The stopped process runs again.
            self._stall.continued()
            self.writer.event("continued", step=self.state.step)
            self._set(state=self._before_stall, reason=None)
        if self.state.state not in ("starting", "running") or self._troubles.error(READ):
            return
        if (complaint := self._stall.complaint()) is None:
            return
        name = f"stacks-{time.strftime('%H%M%S')}.txt"
        hang = self._careful(lambda: self._find_hang(self.attempt.path / name))
        reason = f"{complaint}; {hang.text}" if hang else complaint
        details = {**hang.to_json(), "stacks": name} if hang else {}
        self._is_stopped_stall = hang is not None and hang.kind == "stopped"
        self._before_stall = self.state.state
        self.writer.event("stall", step=self.state.step, reason=reason, **details)
        self._set(state="stalled", reason=reason)

    def _find_hang(self, target: Path) -> Hang | None:
        main_process = self.host.process(self.trainer)
        driver = main_process.pid if main_process else None
        members = sample_members(self.host.members(self.trainer), driver)
        dumps = Dumps() if self.supervision.stack_dumps else None
        stack_of = dumps.of if dumps else lambda pid: None
        hang = find_hang(members, stack_of)
        if dumps is not None:
            stacks = ((f"{m.label}, state {m.state}", dumps.of(m.pid)) for m in members)
            write_stacks(target, stacks)
        return hang

    def _end_remaining(self) -> None:
        """End remaining processes of the trainer, e.g. Ray's agents after a SIGKILL."""
        deadline = time.monotonic() + GRACE_S
        while (remaining := self.trainer.members()) and time.monotonic() < deadline:
            time.sleep(0.1)
            self.trainer.reap()
        if remaining:
            pids = [process.pid for process in remaining]
            self.writer.event("warning", message="ended orphans", pids=pids)
            processes.end_members(self._held, patience_s=3.0, roots=[os.getpid()])
            self.trainer.reap()
        if not self.trainer.members():
            private_ray.remove_all(self._held)

    def _evidence(self) -> Evidence:
        assert self.trainer.exit is not None
        attempt = self._held.attempt(self.attempt.number)
        self._careful(lambda: files.tighten(attempt.path))
        written = self.writer.trouble is None or self.writer.passes
        write_error = None if written else f"cannot write {self.writer.trouble}"
        report = self._last_report()
        return Evidence(
            exit=self.trainer.exit,
            stopped_by=self._stopped_by,
            step=self.state.step,
            total_steps=(
                self.state.total_steps if report.outcome == "unknown" else self._planned_steps
            ),
            checkpoint_complete=self._patiently(lambda: check_checkpoint(self.run).complete)
            is True,
            attempt=attempt,
            checkpoints=self.checkpoints,
            validation=self._patiently(lambda: last_validation(self._held.train_log)),
            report=report,
            trouble=write_error or self._troubles.phrase(READ) or full_disk(self._held, self.run),
        )

    def _conclude(self, evidence: Evidence) -> None:
        exit_, is_heard = evidence.exit, not self.host.ran_before
        state, reason = final_state(evidence)
        if state == "failed":
            self.writer.event("error", step=self.state.step, message=reason)
        self.writer.event("end", state=state, reason=reason, exit_code=exit_.code)
        if self._ticket is not None:
            # A program may have no steps.
            has_stepped = self.state.step is not None or self._is_command
            ran_s = time.monotonic() - self._began
            fast_s = self.supervision.queue_fast_failure_s
            self.writer.queue(end_record(self.run.id, state, ran_s, fast_s, has_stepped))
        self._set(
            state=state,
            reason=reason,
            waiting_for=None,
            ended=evidence.report.ended or time.time(),
            exit_code=exit_.code if is_heard else None,
            signal=exit_.signal if is_heard else None,
        )

    def _last_report(self) -> Report:
        """What the local process said last. Without an end, the job that it left is stopped."""
        attempt = self._held.attempt(self.attempt.number)
        report = self.host.report(attempt.path) or Report(self.host.where)
        if report.outcome is None and not self.host.ran_before:
            self._careful(self.host.stop_left)
        return report

    def _warn_of_edited_code(self) -> None:
        for path in self._code.changes():
            self.writer.event("warning", message=self._code.describe(path), path=str(path))

    def _record_checkpoints(self) -> None:
        for step, path in self._careful(lambda: list(self._saved.new())) or ():
            self.writer.event("checkpoint", step=step, path=str(path))

    def _sample(self) -> None:
        members = self.host.members(self.trainer)
        self._stall.see_stopped(find_stopped(members))
        pids = [process.pid for process in members]
        sample = self._careful(lambda: self._sampler.sample(pids))
        if sample is not None:
            self.writer.sample(sample)

    def _patiently(self, measure: Callable[[], T]) -> T | None:
        """As ``_careful``, once the system answers."""
        return self._careful(lambda: self._eventually(measure))

    def _careful(self, measure: Callable[[], T]) -> T | None:
        """The result, or None with a warning: a run is not called troubled for a measurement."""
        try:
            return measure()
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
            if trouble not in self._warned:
                self._warned.add(trouble)
                self.writer.event("warning", message=trouble)
            return None

    def _set(self, **changes: object) -> None:
        now, beat = time.time(), time.monotonic()
        self.state = self.state.evolve(**changes, heartbeat=now, beat=beat)
        complaint = None if self.state.has_ended else self._troubles.complaint
        reasons = [text for text in (self.state.reason, complaint) if text]
        self.writer.state(self.state.evolve(reason="; ".join(reasons) or None))


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


def _first_state(run: Run, manifest: Manifest, *, queued: bool) -> RunState:
    """The state of the manifest's last attempt before its trainer starts."""
    attempt, before = manifest.attempts[-1], recorded_state(run) or UNREADABLE
    return RunState(
        "queued" if queued else "starting",
        attempt=attempt.number,
        waiting_for="its place in the queue" if queued else "trainer process",
        supervisor=processes.identify(os.getpid()),
        host=this_host(),
        started=None if queued else time.time(),
        step=attempt.from_step or None,
        total_steps=manifest.total_steps,
        ran_before=before.ran_before,
        began=before.began,
    )


def main() -> int:
    run = Run(Path(sys.argv[1]))
    detach()
    if (recorded_state(run) or UNREADABLE).state in ("failed", "finished"):
        return 1  # The launch has given up on this process and recorded that.
    try:
        return _open(run).supervise()
    except Exception as error:
        give_up(run, error)
        raise


def _open(run: Run) -> Supervisor:
    """A manifest that cannot be read now counts as empty; it can be a moment later."""
    deadline = time.monotonic() + OPEN_S
    while True:
        try:
            return Supervisor(run)
        except Exception:
            if time.monotonic() > deadline:
                raise
        time.sleep(TICK_S)


def give_up(run: Run, error: Exception) -> None:
    """End the run and record the error in its state: nobody reads this process's output.

    Nothing is trained yet, or any more.
    """
    reason = f"supervisor: {type(error).__name__}: {error}"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            processes.end_members(run, patience_s=5.0, roots=[os.getpid()])
            state = recorded_state(run) or RunState("failed")
            end = state.evolve(state="failed", reason=reason, waiting_for=None, ended=time.time())
            write_state(run, end)
        except OSError:
            time.sleep(TICK_S)
        else:
            return


if __name__ == "__main__":
    sys.exit(main())
