"""A private Ray instance for one run: own directory, own token, gone when the run ends."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.runs import private_ray

# Ray's default lets a driver wait a minute for a control service that was killed. Private services
# are never restarted, so there is nothing to wait for.
GCS_PATIENCE_S = 5


@contextmanager
def private_instance(attempt: Path) -> Iterator[Path]:
    """Set the environment for a private Ray; yields its directory, removed at the end.

    Call before ``ray`` is imported: its C++ side reads the environment at import. A driver that is
    killed leaves the directory to its supervisor, which finds it in the attempt.
    """
    directory = private_ray.create(attempt)
    os.environ.update(
        RAY_ADDRESS="local",
        RAY_TMPDIR=str(directory),
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=secrets.token_hex(32),
    )
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(GCS_PATIENCE_S))
    # A port that was fixed for another instance is taken; without it Ray picks a free one.
    os.environ.pop("RAY_GCS_SERVER_PORT", None)
    try:
        yield directory
    finally:
        private_ray.remove(attempt)
