"""The guard: diagnose an unattended run, and act when a chosen finding fires.

``python -m engine.launch.guard RUN_DIR`` is a separate process beside the supervisor, for one
attempt, and ends with the attempt. It writes findings to ``run_log.jsonl`` and stops a run by a
stop request, as a user does. If the guard dies, the run is not affected.
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
from engine.run.events import log_event
from engine.run.guard_settings import GuardSettings
from engine.run.host.programs import detach
from engine.run.run import OpenRunFolder, Run

LOCK = "guard.lock"
_LOOK_S = 0.25


def main() -> None:
    run = Run(Path(sys.argv[1]))
    detach()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # A shutdown need not wait for it.
    settings, attempts = GuardSettings.of(run.read_config()), run.read_manifest().attempts
    if not settings.is_on or not attempts:
        return
    with contextlib.suppress(FileNotFoundError), _guard_lock(run):
        _guard(run, settings, attempts[-1].number)


def _guard(run: Run, settings: GuardSettings, attempt: int) -> None:
    try:
        from engine.launch.guard_actions import Guard  # The rules load after the launch.

        Guard(run, settings, attempt).watch()
    except Exception as error:
        with contextlib.suppress(OSError):
            message = f"the guard stopped working: {type(error).__name__}: {error}"
            log_event(run, "warning", message=message)
        raise


@contextlib.contextmanager
def _guard_lock(run: Run) -> Iterator[IO[str]]:
    """Wait for the guard of an earlier attempt, which may not have noticed its end yet."""
    guard = OpenRunFolder(run)
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
