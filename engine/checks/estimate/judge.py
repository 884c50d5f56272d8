"""Estimate judge calls, their time and cost, and the concurrency that keeps up with the run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.base.judge_providers import asks_server
from engine.base.parquet import pa, pq
from engine.checks.estimate.earlier_runs import JudgeTimes
from engine.config.load import Config
from engine.config.steps import StepPlan

SLOW_S = 300.0
"""A step that only waits for its judge this long is called slow (seed guide: 5 minutes)."""
NO_EARLIER_RUN = "no earlier run used this judge"


def in_flight(calls: float, latency: float, seconds: float, allowed: int | None = None) -> int:
    """Calls in flight for ``calls`` of ``latency`` seconds to be done in ``seconds``.

    Little's law, L = rate x W. More than there are calls helps nobody, and more than ``allowed``
    the server refuses.
    """
    wanted = calls if seconds <= 0 else min(calls, calls * latency / seconds)
    found = max(1, math.ceil(wanted))
    return found if allowed is None else min(found, allowed)


def allowed(at_once: int, refused: float) -> int:
    """Calls in flight that a server serves which refuses (429) the share ``refused`` of
    ``at_once``: those that it let through."""
    return max(1, math.floor(at_once * (1 - refused)))


def pace(calls: float, at_once: int, latency: float) -> float:
    """Seconds that ``calls`` take at least: rounds x latency. A round's slowest call adds to it."""
    return math.ceil(calls / at_once) * latency


@dataclass(frozen=True)
class Calls:
    """One for every rollout and one for every validation answer; retries come on top."""

    step: int
    steps: int
    validation: int
    validations: int

    @property
    def total(self) -> int:
        return self.step * self.steps + self.validation


@dataclass(frozen=True)
class JudgeUse:
    """``limit`` calls run at once; ``rounds`` of them make a step. Unknown numbers are None, and
    ``unknown`` says why. Seconds and US dollars; tokens are those of one call."""

    calls: Calls
    limit: int
    rounds: int
    latency: float | None
    tokens_in: float | None
    tokens_out: float | None
    cost: float | None
    unknown: tuple[str, ...]
    basis: str | None

    @property
    def least_step(self) -> float | None:
        """No step is shorter: rounds x latency. Each round's slowest call makes it longer."""
        return None if self.latency is None else pace(self.calls.step, self.limit, self.latency)

    def concurrency_for(self, seconds: float) -> int | None:
        """Calls in flight for a step's judging to take ``seconds``."""
        return None if self.latency is None else in_flight(self.calls.step, self.latency, seconds)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "total_calls": self.calls.total, "least_step": self.least_step}


def calls_of(config: Config, plan: StepPlan) -> Calls:
    """The calls of a GRPO run of ``plan.total`` steps."""
    rounds = _validations(config, plan.total)
    return Calls(
        step=plan.batch * int(config.get("actor_rollout_ref.rollout.n")),
        steps=plan.total,
        validation=rounds * _validation_rollouts(config),
        validations=rounds,
    )


def judge_use(config: Config, plan: StepPlan, known: JudgeTimes | None) -> JudgeUse:
    """``known``: what an earlier run measured of the same judge."""
    calls, limit = calls_of(config, plan), int(config.get("judge.max_concurrent"))
    cost, unknown = _cost(config, calls, known)
    return JudgeUse(
        calls=calls,
        limit=limit,
        rounds=math.ceil(calls.step / limit),
        latency=known.latency if known else None,
        tokens_in=known.tokens_in if known else None,
        tokens_out=known.tokens_out if known else None,
        cost=cost,
        unknown=unknown if known else (NO_EARLIER_RUN, *unknown),
        basis=known.run if known else None,
    )


def _cost(
    config: Config, calls: Calls, known: JudgeTimes | None
) -> tuple[float | None, tuple[str, ...]]:
    """Tokens x price. The offline judge costs nothing."""
    if not asks_server(config.get("judge.provider")):
        return 0.0, ()
    prices = [config.get(f"judge.usd_per_million_{way}") for way in ("in", "out")]
    tokens = [known.tokens_in, known.tokens_out] if known else [None, None]
    unknown = []
    if None in prices:
        unknown.append("its price: set judge.usd_per_million_in and judge.usd_per_million_out")
    if None in tokens:
        unknown.append("tokens of a call")
    if unknown:
        return None, tuple(unknown)
    each = sum(price * count for price, count in zip(prices, tokens, strict=True)) / 1e6
    return each * calls.total, ()


def _validations(config: Config, total: int) -> int:
    every = int(config.get("trainer.test_freq"))
    before = int(bool(config.get("trainer.val_before_train")))
    return before + (math.ceil(total / every) if every > 0 else 0)


def _validation_rollouts(config: Config) -> int:
    """0 while the validation file cannot be read: another preflight check reports it."""
    paths = [Path(name).expanduser() for name in config.listed("data.val_files") if name]
    try:
        rows = sum(pq.read_metadata(path).num_rows for path in paths)
    except (OSError, pa.ArrowException):
        return 0
    return int(rows) * int(config.get("actor_rollout_ref.rollout.val_kwargs.n"))
