"""A private Ray instance for one run: own directory, own token, gone when the run ends."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# A Unix socket's path may have 107 bytes, of which Ray takes some 70 below this directory.
LONGEST_BASE = 30


@contextmanager
def private_instance() -> Iterator[Path]:
    """Set the environment for a private Ray; yields its directory, removed at the end.

    Call before ``ray`` is imported: its C++ side reads the environment at import.
    """
    base = tempfile.gettempdir()
    directory = Path(
        tempfile.mkdtemp(prefix="gr-", dir=base if len(base) < LONGEST_BASE else "/tmp")
    )
    os.environ.update(
        RAY_ADDRESS="local",
        RAY_TMPDIR=str(directory),
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=secrets.token_hex(32),
    )
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
