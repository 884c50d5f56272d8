"""agent_stable_slo's ``train_log.jsonl``: one flat JSON object per step, beside a manifest.

With ``mean_reward`` the run samples a group per step, ``reward`` is its best and
``group_rewards`` are all of them; without it a step is one sample.
"""

from __future__ import annotations

from pathlib import Path
from statistics import stdev
from typing import Any

from engine.base import jsonl
from engine.formats.format import About, LineFormat, Parser, Sample
from engine.formats.json_lines import JsonLines, Record, records
from engine.formats.names import clean_name, find_setting
from engine.history import metrics
from engine.history.train_log import Metrics, numbers

_MARKS = frozenset({"advantage", "json_valid", "latency_ms", "tokens_out", "schema_path"})
_ENOUGH_MARKS = 3


class SloFormat(LineFormat):
    key, name = "slo", "agent_stable_slo train_log.jsonl"
    trainers = ("agent_stable_slo",)
    reads = "one flat object per step; steps and model from the manifest beside it"

    def matches(self, sample: Sample) -> bool:
        return any(_is_step(record) for record in records(sample))

    def parser(self, path: Path) -> Parser:
        return SloLog(path)


class SloLog(JsonLines):
    def __init__(self, path: Path) -> None:
        super().__init__()
        # A log of another name was moved away from its run: the manifest beside it is not its own.
        is_home = path.name == "train_log.jsonl"
        self._about = _about(path.with_name("manifest.json")) if is_home else About()

    def about(self) -> About:
        return self._about

    def values(self, record: Record) -> Metrics | None:
        if not _is_step(record):
            return None
        plain = numbers(record)
        del plain["step"]
        values = _rewards(plain, record.get("group_rewards"))
        if "step_ms" in plain:
            took = plain.pop("step_ms")
            values[metrics.STEP_TIME] = None if took is None else took / 1000
        for name, value in plain.items():
            values.setdefault("actor/loss" if name == "loss" else clean_name(name), value)
        return values


def _is_step(record: Record) -> bool:
    has_step = jsonl.integer(record.get("step")) is not None
    return has_step and "reward" in record and len(_MARKS & record.keys()) >= _ENOUGH_MARKS


def _rewards(plain: Metrics, group: Any) -> Metrics:
    """The mean reward and, of a group, its min, max and std."""
    reward = plain.pop("reward", None)
    if "mean_reward" not in plain:
        return {metrics.REWARD_MEAN: reward}
    values = {metrics.REWARD_MEAN: plain.pop("mean_reward"), metrics.REWARD_MAX: reward}
    scores = group if isinstance(group, list) else []
    numbers = [score for raw in scores if (score := jsonl.number(raw)) is not None]
    if len(numbers) > 1 and len(numbers) == len(scores):
        values[metrics.REWARD_MIN] = min(numbers)
        values[metrics.REWARD_STD] = stdev(numbers)
        values[metrics.ZERO_STD_SHARE] = float(values[metrics.REWARD_STD] == 0)
    return values


def _about(manifest: Path) -> About:
    raw = jsonl.read_json(manifest) or {}
    config = raw.get("config")
    settings = config if isinstance(config, dict) else {}
    return About(
        jsonl.integer(find_setting(settings, "steps")),
        jsonl.line(find_setting(settings, "base_model")),
        jsonl.moment(raw.get("created_at")),
    )
