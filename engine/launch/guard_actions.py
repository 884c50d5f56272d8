"""Diagnose a run repeatedly, and act on every new alert."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from engine.base.addresses import cleartext_complaint
from engine.base.masking import mask_text
from engine.doctor.live import KnownFindings, RunFollower
from engine.run.events import ask_stop, log_event
from engine.run.finding import Finding, Severity, flattened
from engine.run.guard_settings import GuardSettings, fires
from engine.run.run import OpenRunFolder, Run
from engine.run.state import RunState


class Guard:
    """Acts once on every alert of an attempt, and again when an alert has become more severe."""

    def __init__(self, run: Run, settings: GuardSettings, attempt: int) -> None:
        self._run, self._settings, self._attempt = run, settings, attempt
        self._guard, self._doctor = OpenRunFolder(run), RunFollower(run, since_attempt=attempt)
        self._reported_before = KnownFindings(run, attempt)
        self._acted_on: dict[str, int] = {}
        """The rank of the severity at which it acted, by finding ID."""

    def watch(self) -> None:
        """Diagnose until the attempt has ended, another one has begun, or the run is gone."""
        while not self._guard.is_gone():
            with contextlib.suppress(OSError):  # A file system may fail for a while.
                state, findings = self._doctor.diagnose()
                if state.attempt > self._attempt:
                    return
                self._act_on(findings, state)
                if state.has_ended:
                    return
            time.sleep(self._settings.every_s)

    def _act_on(self, findings: list[Finding], state: RunState) -> None:
        for finding in _watched(findings, self._settings.stop_on):
            rank = finding.severity.rank
            is_new = rank < self._acted_on.get(finding.id, Severity.INFO.rank)
            if is_new and not self._reported_before.has(finding):
                self._acted_on[finding.id] = rank
                self._act(finding, state)

    def _act(self, finding: Finding, state: RunState) -> None:
        """Stop the run, record the finding, notify. The stop is first: on a full disk the other
        actions may fail."""
        if fires(finding, self._settings.stop_on) and not state.has_ended:
            with self._failure_logged("stop"):
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
            for action, send in notify(self._run, finding, self._settings):
                with self._failure_logged(action):
                    send()

    @contextlib.contextmanager
    def _failure_logged(self, action: str) -> Iterator[None]:
        """Log the type of an error only: its text may quote an address that is a secret."""
        try:
            yield
        except Exception as error:
            message = f"the guard's {action} failed: {type(error).__name__}"
            with contextlib.suppress(OSError):
                log_event(self._run, "warning", message=message)


def _watched(findings: Iterable[Finding], stop_on: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings, and the consequences that stop a run which their causes do not stop.

    The other consequences are part of the notice of their cause.
    """
    for finding in findings:
        yield finding
        if not fires(finding, stop_on):
            yield from (later for later in flattened(finding.followed_by) if fires(later, stop_on))


_PATIENCE_S = 20.0


def notify(
    run: Run, finding: Finding, settings: GuardSettings
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The configured notifications by name; each may fail with any error."""
    notice = json.dumps(message(run, finding))
    if settings.command:
        yield "command", partial(_run_command, run, settings.command, notice)
    if settings.webhook_variable:
        yield "webhook", partial(_post, settings.webhook_variable, notice)


def message(run: Run, finding: Finding) -> dict[str, object]:
    """The content of a notification. Chat services show ``text`` only."""
    since = f" since {finding.onset}" if finding.onset else ""
    return {
        "text": mask_text(f"{run.id}: {finding.severity}{since}: {finding.title}. {finding.cause}"),
        "run": run.id,
        "id": finding.id,
        "severity": str(finding.severity),
        "onset_step": finding.onset_step,
    }


def _run_command(run: Run, command: tuple[str, ...], notice: str) -> None:
    """Run without a shell, in the folder of the launch, with the notice in the environment."""
    subprocess.run(
        command,
        cwd=run.read_manifest().cwd,
        env={**os.environ, "GRUBRICS_FINDING": notice},
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=_PATIENCE_S,
    )


def _post(variable: str, notice: str) -> None:
    """Post to the address in ``variable``. The address is a secret, never written to a file."""
    address = os.environ.get(variable, "")
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"{variable} holds no address")
    complaint = cleartext_complaint(variable, address, os.environ)
    if complaint:
        raise ValueError(complaint)
    request = urllib.request.Request(
        address, data=notice.encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=_PATIENCE_S):
        pass


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: the notice is for the configured address only."""

    def redirect_request(self, *_: object) -> None:
        return None
