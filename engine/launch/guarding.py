"""What the guard of a run does: looks again and again, and acts once on every finding."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from engine.doctor.already_known import ToldBefore
from engine.doctor.live import RunFollower
from engine.findings.finding import Finding
from engine.findings.guard_settings import GuardSettings, fires
from engine.launch.notice import notify
from engine.runs.events import log_event
from engine.runs.home import Home
from engine.runs.requests import ask_stop
from engine.runs.rundir import RunDir
from engine.runs.state import RunState


class Guard:
    """Acts once on every finding of an attempt."""

    def __init__(self, run: RunDir, settings: GuardSettings, attempt: int) -> None:
        self._run, self._settings, self._attempt = run, settings, attempt
        self._home, self._doctor = Home(run), RunFollower(run, since_attempt=attempt)
        self._told = ToldBefore(run, attempt)
        self._known: set[str] = set()

    def watch(self) -> None:
        """Until the attempt has ended, another one has begun, or the run is gone."""
        while not self._home.is_gone():
            with contextlib.suppress(OSError):  # A file system may fail for a while.
                state, found = self._doctor.look()
                if state.attempt > self._attempt:
                    return
                self._act_on(found, state)
                if state.has_ended:
                    return
            time.sleep(self._settings.every_s)

    def _act_on(self, found: list[Finding], state: RunState) -> None:
        for finding in found:
            is_new = finding.severity.is_alarm and finding.id not in self._known
            if is_new and not self._told.has(finding):
                self._known.add(finding.id)
                self._act(finding, state)

    def _act(self, finding: Finding, state: RunState) -> None:
        """The stop first: on a full disk the rest may fail."""
        if fires(finding, self._settings.stop_on) and not state.has_ended:
            with self._told_when_it_fails("stop"):
                ask_stop(
                    self._run, after_checkpoint=not self._settings.stop_at_once, by="the guard"
                )
        with contextlib.suppress(OSError):
            log_event(
                self._run,
                "finding",
                id=finding.id,
                severity=str(finding.severity),
                step=finding.onset_step,
                message=finding.title,
            )
        if fires(finding, self._settings.notify_on):
            for what, send in notify(self._run, finding, self._settings):
                with self._told_when_it_fails(what):
                    send()

    @contextlib.contextmanager
    def _told_when_it_fails(self, what: str) -> Iterator[None]:
        """Only the kind of error: its text may quote an address that is a secret."""
        try:
            yield
        except Exception as error:
            trouble = f"the guard's {what} failed: {type(error).__name__}"
            with contextlib.suppress(OSError):
                log_event(self._run, "warning", message=trouble)
