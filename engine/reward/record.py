"""The lines of reward.jsonl: one for each scored rollout.

``engine.history.reward_records`` and ``engine.doctor.rewards`` read them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.base import jsonl
from engine.base.masking import mask_data

RECORD_VERSION = 1
HELD_OUT_SPLITS = frozenset({"val", "valid", "validation", "test", "holdout"})

Split = Literal["train", "val"]


@dataclass(frozen=True)
class Position:
    """Where in a run a rollout belongs. ``group`` is its prompt in this step."""

    split: Split
    step: int | None
    group: str
    rollout: int | None


def split_of(extra_info: Mapping[str, Any], step: int | None) -> Split:
    """``val`` for rows of a held-out split and before step 1, else ``train``."""
    return "val" if extra_info.get("split") in HELD_OUT_SPLITS or step == 0 else "train"


def append_record(path: Path, position: Position, result: Mapping[str, Any]) -> None:
    """Add a line: version, time and position, then ``result`` (``ScoredRollout.record``).

    Errors quote what they failed at, so they are masked; texts and scores are kept as they are.
    """
    record = {
        "v": RECORD_VERSION,
        "t": time.time(),
        **vars(position),
        "pid": os.getpid(),
        **result,
    }
    jsonl.append(path, {**record, "error": mask_data(record.get("error"))})
