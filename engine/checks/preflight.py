"""Run the preflight checks, from the environment to the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from engine.base.errors import PackageError, UsageError
from engine.base.masking import mask_text
from engine.checks import (
    audit,
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
    tools,
    trainer,
    values,
)
from engine.checks.check import Check, Subject, fail, skip
from engine.config.compose import effective
from engine.config.load import Config
from engine.run.kinds import GRPO, SFT, Kind


@dataclass(frozen=True)
class Item:
    """One check, and the checks that must not have failed for it to make sense."""

    id: str
    check: Callable[[Subject], Check]
    needs: tuple[str, ...] = ()
    skip_reason: Callable[[Config], str | None] = lambda _: None
    """Returns why the check does not apply to a config, whatever else failed; None if it does."""
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
    Item(
        "tools",
        tools.check,
        needs=("config", "parquet"),
        skip_reason=tools.skip_reason,
        kinds=(GRPO,),
    ),
    Item("audit", audit.check, needs=("parquet", "reward"), skip_reason=audit.skip_reason),
    Item("checkpoint", checkpoint.check),
    Item("batch", batch_and_steps.check_batch),
    Item("limits", limits.check),
    Item("steps", batch_and_steps.check_steps, needs=("parquet", "batch")),
    Item("judge", judge.check_judge, needs=("parquet", "batch"), skip_reason=judge.skip_reason),
    Item("memory", memory_and_disk.check_memory, needs=("batch",)),
    Item("disk", memory_and_disk.check_disk),
    Item("ports", machine.check_ports),
    Item("machine", machine.check_machine),
)


def run_checks(
    config: Config,
    *,
    env: Mapping[str, str] | None = None,
    tests: bool = False,
    runs: Path = Path("runs"),
    ahead: Iterable[str] = (),
    waits: bool = False,
) -> Iterator[Check]:
    """Run the checks lazily, one after the other. Never raises."""
    try:
        completed = effective(config, runs / "attempt_1")
    except Exception as error:
        yield _crash("config", error)
        return
    subject = Subject(completed, os.environ if env is None else env, runs, frozenset(ahead), waits)
    failed: set[str] = set()
    for item in (*ITEMS, Item("tests", testsuite.check if tests else testsuite.skip_tests)):
        check = _run_check(item, subject, failed)
        if check.status == "fail":
            failed.add(check.id)
        yield check


def blocking(checks: Iterable[Check]) -> list[Check]:
    """The checks that forbid a launch."""
    return [check for check in checks if check.status == "fail"]


def require_launchable(
    config: Config,
    runs: Path,
    *,
    ahead: Iterable[str] = (),
    waits: bool = False,
    env: Mapping[str, str] | None = None,
) -> list[Check]:
    """Return the warnings. Raises UsageError, in one line, if a check fails.

    ``ahead`` are runs that will have ended when this one starts: the files that they write will
    exist, and their folders will be free. ``waits``: the run waits for its turn in the queue.
    """
    checks = list(run_checks(config, env=env, runs=runs, ahead=ahead, waits=waits))
    failures = blocking(checks)
    if failures:
        first, others = failures[0], [check.id for check in failures[1:]]
        fix = f" [fix: {first.fix}]" if first.fix else ""
        more = f"; also failing: {', '.join(others)}" if others else ""
        raise UsageError(f"{first.id}: {first.message}{fix}{more}")
    return [check for check in checks if check.status == "warn"]


def _run_check(item: Item, subject: Subject, failed: Collection[str]) -> Check:
    """Run one check. If it raises, it fails, and the other checks still run."""
    kind = subject.config.kind
    failed_need = next((needed for needed in item.needs if needed in failed), None)
    try:
        if kind not in item.kinds:
            check = skip(item.id, f"not available for {kind.title}")
        elif (reason := item.skip_reason(subject.config)) is not None:
            check = skip(item.id, reason)
        elif failed_need is not None:
            check = skip(item.id, f"needs the check '{failed_need}' to pass")
        else:
            check = item.check(subject)
    except PackageError as error:
        check = fail(item.id, f"not checked: {error}", error.fix)
    except Exception as error:
        check = _crash(item.id, error)
    # The message may quote what a reward function raised, or a file name with a login in it.
    return replace(check, message=mask_text(check.message))


def _crash(id: str, error: Exception) -> Check:
    detail = " ".join(str(error).split())
    return fail(id, f"internal error in this check: {type(error).__name__}: {detail}")
