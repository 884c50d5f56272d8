"""From settings to a judge."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.judge.base import Judge
from engine.judge.offline import OfflineKeywordJudge
from engine.judge.slots import make_slots
from engine.rubrics.settings import JudgeSettings


def make_judge(settings: JudgeSettings, slots_dir: Path | None, env: Mapping[str, str]) -> Judge:
    """The judge that ``settings`` names; raises UsageError when credentials are missing.

    All processes that pass the same ``slots_dir`` share ``settings.max_concurrent`` calls in
    flight; None bounds this process alone.
    """
    slots = make_slots(slots_dir, settings.max_concurrent)
    if settings.provider == "offline":
        return OfflineKeywordJudge(slots)
    from engine.judge.api import make_api_judge

    return make_api_judge(settings, slots, env)
