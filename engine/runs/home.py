"""Whether a run's directory is still there, and the one the run was started in."""

from __future__ import annotations

import os
import time

from engine.runs.rundir import RunDir

_PATIENCE_S = 2.0


class Home:
    """Notices that a run was deleted, moved away, or replaced by another of its name."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        # Held open, so that no later directory can get its inode number.
        self._descriptor = os.open(run.path, os.O_RDONLY | os.O_DIRECTORY)
        self._own = os.fstat(self._descriptor)
        self._missing_since: float | None = None

    def is_gone(self) -> bool:
        """True once it has been missing for a moment, and at once when another took its place."""
        try:
            found = self._run.path.stat()
            # A deletion that met a writer leaves the directory, but no manifest.
            self._run.manifest.stat()
        except FileNotFoundError:
            return self._missing_for() > _PATIENCE_S
        except OSError:
            return False
        self._missing_since = None
        return not os.path.samestat(found, self._own)

    def _missing_for(self) -> float:
        now = time.monotonic()
        if self._missing_since is None:
            self._missing_since = now
        return now - self._missing_since
