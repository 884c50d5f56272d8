"""Exceptions that no rule knows: what kind of trouble their type and frames speak of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from engine.doctor.text.paths import within
from engine.doctor.text.rules import RULES, read_yaml
from engine.doctor.text.tracebacks import Raised


@dataclass(frozen=True)
class Kind:
    """The first kind whose every given pattern is found names the trouble."""

    id: str
    title: str
    cause: str
    confidence: float
    type: str = ""
    message: str = ""
    frames: str = ""
    innermost: str = ""
    code: str = ""

    def fits(self, raised: Raised) -> bool:
        looked_at = (
            (self.type, raised.type),
            (self.message, raised.message),
            (self.frames, within("\n".join(raised.frames))),
            (self.innermost, within("\n".join(raised.frames[-3:]))),
            (self.code, raised.code),
        )
        return all(re.search(pattern, text) for pattern, text in looked_at if pattern)


@cache
def _kinds() -> tuple[Kind, ...]:
    entries: list[dict[str, Any]] = read_yaml(RULES / "unknown" / "exceptions.yaml")
    return tuple(Kind(**entry) for entry in entries)


_WRAPPERS = re.compile(
    r"/click/|/typer/|/fire/|/absl/|runpy\.py|torch/distributed/(?:launcher|elastic|run\.py)"
    r"|accelerate/commands|/hydra/(?:main|_internal/utils)\.py|/ray/_private/(?:worker|client_mode_hook|auto_init_hook)\.py|/ray/_raylet|^ray:task"
    r"|concurrent/futures|/asyncio/|threading\.py|multiprocessing/process\.py|/tqdm/|contextlib\.py"
)
"""Frames between the program and whoever started it: alone they tell of nothing."""


def is_telling(raised: Raised) -> bool:
    """Whether the frames come down to the place of the trouble."""
    told = bool(raised.frames) and not _WRAPPERS.search(raised.innermost)
    return told and not is_noise(raised)


def is_noise(raised: Raised) -> bool:
    kind = kind_of(raised)
    return kind is not None and kind.id.startswith("healthy_noise")


def kind_of(raised: Raised) -> Kind | None:
    return next((kind for kind in _kinds() if kind.fits(raised)), None)
