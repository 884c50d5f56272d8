"""One process at a time decides what becomes of a run that has ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from engine.base import files
from engine.base.errors import UsageError
from engine.runs.rundir import RunDir
from engine.runs.trust import require


@contextlib.contextmanager
def custody(run: RunDir) -> Iterator[None]:
    """Hold a run while its books are closed or a new attempt is started.

    UsageError while another process does, and for a run that nothing may be done with. The lock
    dies with its process, so none is ever left behind; a file system without locks is trusted to
    have one user.
    """
    require(run)
    descriptor = files.open_lock(run.path / ".lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UsageError(f"run '{run.id}' is being stopped or resumed by somebody else") from error
    except OSError:
        pass
    try:
        yield
    finally:
        os.close(descriptor)
