"""Telling somebody who does not look: a command of theirs, and an address they named."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from engine.base.addresses import cleartext_complaint
from engine.base.masking import mask_text
from engine.findings.finding import Finding
from engine.findings.guard_settings import GuardSettings
from engine.runs.rundir import RunDir

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
