"""The processes of a deterministic run: their variables, and the algorithms of torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def require_variables(wanted: Mapping[str, str]) -> None:
    """Start this program again, with the same process ID, unless it has these variables.

    Python reads its hash seed only when it starts.
    """
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        sys.stdout.flush()
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **wanted})


def use_deterministic_algorithms() -> None:
    """Let torch choose deterministic algorithms, and warn of operations that have none."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
