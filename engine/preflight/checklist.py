"""Run the preflight checks, in the order in which a person would go through them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from engine.base.errors import PackageError, UsageError
from engine.base.masking import mask_text
from engine.preflight import (
    batch_and_steps,
    checkpoint,
    config,
    dataset,
    environment,
    holdout,
    judge,
    limits,
    machine,
    memory_and_disk,
    prompt,
    reward,
    testsuite,
    trainer,
    values,
)
from engine.preflight.check import Check, Subject, fail, skip
from engine.recipe.compose import effective
from engine.recipe.recipe import Recipe
from engine.runs.kinds import GRPO, SFT, Kind


@dataclass(frozen=True)
class Item:
    """One question, and the questions that must not have failed for it to make sense."""

    id: str
    answer: Callable[[Subject], Check]
    needs: tuple[str, ...] = ()
    spared: Callable[[Recipe], str | None] = lambda _: None
    """Why the question does not arise for a recipe, whatever else failed; None where it does."""
    kinds: tuple[Kind, ...] = (GRPO, SFT)
    """The kinds whose configs the check can read."""


ITEMS = (
    Item("environment", environment.check),
    Item("credentials", judge.check_credentials),
    Item("config", config.check),
    Item("values", values.check),
    Item("trainer", trainer.check),
    Item("unused", config.check_unused),
    Item("parquet", dataset.check),
    Item("prompt", prompt.check, needs=("parquet",)),
    Item("holdout", holdout.check, needs=("parquet",)),
    Item("reward", reward.check),
    Item("checkpoint", checkpoint.check),
    Item("batch", batch_and_steps.check_batch),
    Item("limits", limits.check),
    Item("steps", batch_and_steps.check_steps, needs=("parquet", "batch")),
    Item("judge", judge.check_judge, needs=("parquet", "batch"), spared=judge.spared),
    Item("memory", memory_and_disk.check_memory, needs=("batch",)),
    Item("disk", memory_and_disk.check_disk),
    Item("ports", machine.check_ports),
    Item("machine", machine.check_machine),
)


def run_checks(
    recipe: Recipe,
    *,
    env: Mapping[str, str] | None = None,
    tests: bool = False,
    runs: Path = Path("runs"),
    ahead: Iterable[str] = (),
    waits: bool = False,
) -> Iterator[Check]:
    """Answer the checklist one line at a time, each when it is asked for. Never raises."""
    try:
        completed = effective(recipe, runs / "attempt_1")
    except Exception as error:
        yield _crash("config", error)
        return
    subject = Subject(completed, os.environ if env is None else env, runs, frozenset(ahead), waits)
    failed: set[str] = set()
    for item in (*ITEMS, Item("tests", testsuite.check if tests else testsuite.not_asked)):
        check = _answer(item, subject, failed)
        if check.status == "fail":
            failed.add(check.id)
        yield check


def blocking(checks: Iterable[Check]) -> list[Check]:
    """The answers that forbid a launch."""
    return [check for check in checks if check.status == "fail"]


def require_launchable(
    recipe: Recipe,
    runs: Path,
    *,
    ahead: Iterable[str] = (),
    waits: bool = False,
    env: Mapping[str, str] | None = None,
) -> list[Check]:
    """Raise UsageError, in one line, when something is known to make this launch fail.

    ``ahead`` are runs that will have ended when it starts: what they write will be there, and
    where they write will be free. One that ``waits`` is checked again when its turn comes: what
    another run does meanwhile is only a warning. Returns the warnings.
    """
    checks = list(run_checks(recipe, env=env, runs=runs, ahead=ahead, waits=waits))
    failures = blocking(checks)
    if failures:
        first, others = failures[0], [check.id for check in failures[1:]]
        more = f"; also failing: {', '.join(others)}" if others else ""
        raise UsageError(f"{first.id}: {first.message}{_hint(first)}{more}")
    return [check for check in checks if check.status == "warn"]


def _hint(check: Check) -> str:
    return f" [fix: {check.fix}]" if check.fix else ""


def _answer(item: Item, subject: Subject, failed: Collection[str]) -> Check:
    lacking = [needed for needed in item.needs if needed in failed]
    # A check that crashes has answered nothing, and the person must still see the others.
    try:
        kind = subject.recipe.kind
        if kind not in item.kinds:
            return skip(item.id, f"not available for {kind.title}")
        if (reason := item.spared(subject.recipe)) is not None:
            return skip(item.id, reason)
        answer = (
            skip(item.id, f"needs the check '{lacking[0]}' to pass")
            if lacking
            else item.answer(subject)
        )
    except PackageError as error:
        answer = fail(item.id, f"not checked: {error}", error.fix)
    except Exception as error:
        answer = _crash(item.id, error)
    # It may quote what a reward function raised, or a file's name with a login in it.
    return replace(answer, message=mask_text(answer.message))


def _crash(id: str, error: Exception) -> Check:
    detail = " ".join(str(error).split())
    return fail(id, f"internal error in this check: {type(error).__name__}: {detail}")
