"""``grubrics-tui smoke-test``: test a config end to end in ten short steps."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, answer, argument, options, say
from grubrics_tui.commands.shared.finding_text import say_changes
from grubrics_tui.commands.shared.follow import followed
from grubrics_tui.commands.shared.trust import require_config_trust


def smoke_test(
    config: Annotated[
        str | None,
        argument("[CONFIG]", "GRPO config (default: verl_grpo_debug; without a GPU: grpo_tiny)"),
    ] = None,
    dry_run: options.DryRunOption = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Test a config end to end: ten short steps, four checks.

    Exits with 1 if a check fails.
    """
    from engine.checks.preflight import require_launchable
    from engine.config.scoring import asks_judge
    from engine.launch.launcher import launch
    from engine.launch.smoke_test import check_steps, default_config, small_run
    from engine.run.history.train_log import history, read_steps

    plan, changes = small_run(config or default_config(), runs_root(runs))
    require_config_trust(plan.config, trust)
    if not as_json:
        say(f"config: {plan.config.name} ({plan.config.path})")
        say_changes("changed for the smoke test:", changes)
    value = {
        "config": plan.config.name,
        "run": plan.run_id,
        "dir": str(plan.directory),
        "shrunk": [change.to_json() for change in changes],
    }
    if dry_run:
        answer({**value, "ticks": None}, "dry run: nothing was launched", as_json)
        return
    require_launchable(plan.config, plan.directory.parent, env=os.environ)
    small = launch(plan)
    state = followed(small, as_json)
    steps = history(read_steps(small.train_log))
    checks = check_steps(steps, judged=asks_judge(plan.config))
    passed = state.went_well and all(check.passed for check in checks)
    lines = [f"{'✓' if check.passed else '✗'} {check.id}: {check.text}" for check in checks]
    if not state.went_well:
        lines.append(f"the run {state.word}: {state.reason or 'reason unknown'}")
    result = {
        "state": state.word,
        "reason": state.reason,
        "ok": passed,
        "ticks": checks,
    }
    answer({**value, **result}, "\n".join(lines), as_json)
    raise typer.Exit(0 if passed else 1)


COMMAND = Command(smoke_test, Task.PREPARE)
