"""Audit the config's task or reward function on a few rows."""

from __future__ import annotations

import asyncio
import shlex

from engine.base.errors import UsageError
from engine.checks.check import Check, Subject, fail, ok, skip, warn
from engine.config.load import Config
from engine.config.places import data_files
from engine.config.scoring import reward_function
from engine.reward.answers import read_audit_rows
from engine.reward.audit import NO_TRUTH, Audit, AuditOptions, run_audit
from engine.reward.own.function import RewardFunction

ID = "audit"
_LIMIT = "grubrics.reward_check_s"
_ROWS = 32
_HOSTILE_ROWS = 16
_PACE_S = 0.05
"""A function that takes longer for an answer may call a service, which costs."""


def skip_reason(config: Config) -> str | None:
    """Why there is nothing to audit; None if there is."""
    if not config.kind.has_rollouts:
        return f"{config.kind.title} has no rewards"
    if reward_function(config) is None:
        return "the config has neither a task nor a reward function of its own"
    if not float(config.get(_LIMIT)):
        return f"{_LIMIT}=0"
    return None


def check(subject: Subject) -> Check:
    """Check that right answers score, and that hostile ones do not and raise nothing."""
    config = subject.config
    function = reward_function(config)
    assert function is not None
    if subject.objection is not None:
        return skip(ID, f"{function.label} was not run: another user could have written its code")
    budget_s = float(config.get(_LIMIT))
    options = AuditOptions(
        hostile_rows=_HOSTILE_ROWS,
        limit_s=min(budget_s, float(config.get("grubrics.reward_timeout_s"))),
        budget_s=budget_s,
        pace_s=_PACE_S,
        start_limit_s=budget_s,
    )
    command = f"grubrics-tui audit {shlex.join([config.name, *config.overrides])}"
    try:
        rows = read_audit_rows(data_files(config)[0], _ROWS)
        audit = asyncio.run(run_audit(function, rows, options, subject.env))
    except UsageError as error:
        return skip(ID, f"not audited: {error}")
    return _judge(audit, function, command)


_PAY = (
    "let the reward function find the answer in such a response; if the ground truth is no answer "
    "itself, set grubrics.reward_check_s to 0"
)
_NAME_COLUMN = "name its column: grubrics-tui prepare DATA --task rows --column truth=COLUMN"


def _judge(audit: Audit, function: RewardFunction, command: str) -> Check:
    problems = audit.problems()
    has_truth = bool(audit.right.scores or audit.right.failures)
    is_own = function.task is None
    is_unknown = is_own and has_truth and audit.style is None and not audit.right.mean
    if not audit.is_complete and not problems:
        return skip(
            ID, f"{function.label} takes too long for an answer to audit it here: {command}"
        )
    if audit.unpaid is not None:
        return fail(ID, f"{audit.unpaid} ({command})", _PAY)
    if is_unknown:
        return skip(ID, f"no known way of writing a right answer scores: {command} --right TEXT")
    problems += audit.notes() if audit.without_truth and has_truth else []
    if problems:
        more = f"; {len(problems) - 1} more" if len(problems) > 1 else ""
        return warn(ID, f"{problems[0]}{more} ({command})")
    if not has_truth:
        return warn(ID, NO_TRUTH, _NAME_COLUMN)
    most = max((group.mean for group in audit.hostile), default=0.0)
    message = (
        f"{len(audit.right.scores)} right answers score {audit.right.mean:.3g}, hostile ones at "
        f"most {most:.3g}"
    )
    best = audit.best_constant
    constant = f"; always answering {best.answer} scores {best.mean:.3g}" if best else ""
    return ok(ID, "; ".join((message + constant, *audit.notes())))
