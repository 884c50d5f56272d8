"""A run continues whatever W&B does: verl's ``Tracking`` with a W&B that cannot end the training.

If W&B cannot start, it logs offline, and if that fails too, it does not log. If it fails later, it
is left alone from then on. Each is said once on the console.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

Start = Callable[[str], Mapping[str, Any]]
"""Starts W&B under a name, and returns verl's loggers: ``{"wandb": module}``."""


class GuardedWandb:
    """The W&B module as verl's logger, until its first failure."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._has_failed = False

    def log(self, data: Mapping[str, Any], step: int) -> None:
        self._call(lambda: self._module.log(data=data, step=step))

    def finish(self, exit_code: int = 0) -> None:
        self._call(lambda: self._module.finish(exit_code=exit_code))

    def _call(self, call: Callable[[], object]) -> None:
        if self._has_failed:
            return
        try:
            call()
        except Exception as error:
            self._has_failed = True
            _say(error, "W&B gets no more values of this attempt")


def start_wandb(start: Start, name: str) -> dict[str, Any]:
    """Start W&B as configured, else offline, else not at all. ``$WANDB_NAME`` replaces ``name``."""
    name = os.environ.get("WANDB_NAME") or name
    modes = dict.fromkeys((os.environ.get("WANDB_MODE", "online"), "offline"))
    endings = ["W&B logs offline", "W&B gets no values of this attempt"][-len(modes) :]
    for mode, ending in zip(modes, endings, strict=True):
        os.environ["WANDB_MODE"] = mode
        try:
            return {key: GuardedWandb(module) for key, module in start(name).items()}
        except Exception as error:
            _say(error, ending)
            # W&B's process ends, so that the next start reads the environment again.
            with suppress(Exception):
                import wandb

                wandb.teardown()
    return {}


def split_backends(backends: str | Sequence[str]) -> tuple[bool, list[str]]:
    """Whether verl's loggers include W&B, and the others. ``tracking`` is verl's old name of it."""
    listed = [backends] if isinstance(backends, str) else list(backends)
    names = ("wandb", "tracking")
    return any(name in listed for name in names), [each for each in listed if each not in names]


def _say(error: Exception, ending: str) -> None:
    """Print the failure in one line; the console may be closed while the program exits."""
    text = " ".join(str(error).split()) or "no message"
    with suppress(Exception):
        line = f"W&B failed: {type(error).__name__}: {text}. The run continues; {ending}"
        print(line, file=sys.stderr, flush=True)
