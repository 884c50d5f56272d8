"""The guard: watches a run that nobody watches, and acts when a chosen finding fires.

``python -m engine.launch.guard RUN_DIR``, a process of its own beside the supervisor, for one
attempt. It ends with the attempt. What it finds goes into ``run_log.jsonl``; what it stops, it
stops by request, as a person would. A guard that dies changes nothing for the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from engine.base import files
from engine.findings.guard_settings import GuardSettings
from engine.host.programs import detach
from engine.runs.events import log_event
from engine.runs.rundir import RunDir, RunDirGuard

LOCK = "guard.lock"
_LOOK_S = 0.25


def main() -> None:
    run = RunDir(Path(sys.argv[1]))
    detach()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # A machine that goes down need not wait for it.
    manifest = run.read_manifest()
    settings = GuardSettings.from_manifest(manifest)
    attempts = manifest.get("attempts", [])
    if not settings.is_on or not attempts:
        return
    with contextlib.suppress(FileNotFoundError), _alone(run):
        _guard(run, settings, attempts[-1]["number"])


def _guard(run: RunDir, settings: GuardSettings, attempt: int) -> None:
    try:
        from engine.launch.guard_actions import Guard  # The launch need not wait for all its rules.

        Guard(run, settings, attempt).watch()
    except Exception as error:
        with contextlib.suppress(OSError):
            told = f"the guard stopped working: {type(error).__name__}: {error}"
            log_event(run, "warning", message=told)
        raise


@contextlib.contextmanager
def _alone(run: RunDir) -> Iterator[IO[str]]:
    """The guard of an earlier attempt may not have noticed its end yet."""
    guard = RunDirGuard(run)
    with os.fdopen(files.open_lock(run.path / LOCK), "w") as lock:
        while not _locked(lock):
            if guard.is_gone():
                raise FileNotFoundError(run.path)
            time.sleep(_LOOK_S)
        yield lock


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # Some network file systems refuse locks.
    return True


if __name__ == "__main__":
    main()
