"""What the guard of a run does: diagnose again and again, and act once on every alert."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from engine.base.addresses import cleartext_complaint
from engine.base.masking import mask_text
from engine.doctor.already_known import KnownFindings
from engine.doctor.live import RunFollower
from engine.findings.finding import Finding
from engine.findings.guard_settings import GuardSettings, fires
from engine.runs.events import ask_stop, log_event
from engine.runs.rundir import RunDir, RunDirGuard
from engine.runs.state import RunState


class Guard:
    """Acts once on every finding of an attempt."""

    def __init__(self, run: RunDir, settings: GuardSettings, attempt: int) -> None:
        self._run, self._settings, self._attempt = run, settings, attempt
        self._guard, self._doctor = RunDirGuard(run), RunFollower(run, since_attempt=attempt)
        self._told = KnownFindings(run, attempt)
        self._known: set[str] = set()

    def watch(self) -> None:
        """Until the attempt has ended, another one has begun, or the run is gone."""
        while not self._guard.is_gone():
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


_PATIENCE_S = 20.0


def notify(
    run: RunDir, finding: Finding, settings: GuardSettings
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Every way to tell that was asked for, by name; each may fail with any error."""
    told = json.dumps(message(run, finding))
    if settings.command:
        yield "command", partial(_run_command, run, settings.command, told)
    if settings.webhook_variable:
        yield "webhook", partial(_post, settings.webhook_variable, told)


def message(run: RunDir, finding: Finding) -> dict[str, Any]:
    """What a notice says. ``text`` alone is what chat services show."""
    since = f" since {finding.onset}" if finding.onset else ""
    return {
        "text": mask_text(f"{run.id}: {finding.severity}{since}: {finding.title}. {finding.cause}"),
        "run": run.id,
        "id": finding.id,
        "severity": str(finding.severity),
        "onset_step": finding.onset_step,
    }


def _run_command(run: RunDir, command: tuple[str, ...], told: str) -> None:
    """Without a shell, where the run was launched; what was found is in the environment."""
    subprocess.run(
        command,
        cwd=run.read_manifest().get("cwd"),
        env={**os.environ, "GRUBRICS_FINDING": told},
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=_PATIENCE_S,
    )


def _post(variable: str, told: str) -> None:
    """The address is a secret: it stands in the environment and is never written down."""
    address = os.environ.get(variable, "")
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"{variable} holds no address")
    complaint = cleartext_complaint(variable, address, os.environ)
    if complaint:
        raise ValueError(complaint)
    request = urllib.request.Request(
        address, data=told.encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=_PATIENCE_S):
        pass


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: the notice is for the address that the person named."""

    def redirect_request(self, *_: Any) -> None:
        return None
