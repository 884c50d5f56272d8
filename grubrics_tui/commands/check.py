"""``grubrics-tui check``: run the preflight checks of a config."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, flag, options, print_json, say
from grubrics_tui.commands.shared.output import terminal_width
from grubrics_tui.commands.shared.trust import require_code_trust, require_folder_trust
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.checks.check import Check


_NARROWEST = 20
"""Columns for the messages of the checks in the narrowest terminal."""


def check(
    config: options.ConfigArgument,
    overrides: options.OverridesArgument = None,
    tests: Annotated[bool, flag("Also run the project's quick tests")] = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Run the preflight checks for a config.

    Exits with 1 if a check fails.
    """
    from engine.checks.preflight import run_checks
    from engine.config.load import load_config

    checks, loaded = [], load_config(config, overrides or [])
    require_folder_trust(loaded.path, trust)
    if trust:
        require_code_trust(loaded, trust)
    for result in run_checks(loaded, tests=tests, runs=runs_root(runs)):
        checks.append(result)
        if not as_json:
            for line in check_lines(result, terminal_width()):
                say(line, flush=True)
    passed = all(result.status != "fail" for result in checks)
    if as_json:
        print_json({"ok": passed, "checks": checks})
    raise typer.Exit(0 if passed else 1)


def check_lines(check: Check, width: int | None) -> list[str]:
    """Return a check as one line, or on a terminal as lines of at most ``width`` columns.

    Lines break between words. The fix has its own line, which never breaks, so that a command can
    be copied from it.
    """
    head = f"{check.status:<4}  {check.id:<12} "
    if width is None:
        fix = f"  [{check.fix}]" if check.fix else ""
        return [f"{head}{check.message}{fix}"]
    indent = " " * len(head)
    lines = textwrap.wrap(
        clean_text(check.message),
        max(width, len(head) + _NARROWEST),
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*(lines or [head]), *([f"      fix: {check.fix}"] if check.fix else [])]


COMMAND = Command(check, Task.PREPARE)
