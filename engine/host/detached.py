"""Processes that outlive the terminal they were started from."""

from __future__ import annotations

import os
import signal


def detach() -> None:
    """Leave the launcher's session and parentage; only the new process returns."""
    if os.fork():
        os._exit(0)
    os.setsid()
    # Handlers rather than SIG_IGN: an ignored signal would stay ignored in what is started below.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
