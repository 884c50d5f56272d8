"""``--trust``: show what a run or config would execute, and act on it with consent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from engine.run.run import Run
from engine.run.trust import Case, UntrustedError, agree, objection
from grubrics_tui.commands.shared.output import confirmed, on_terminal, say

if TYPE_CHECKING:
    from engine.config.load import Config
    from engine.launch.pipelines.record import Record


def require_trust(run: Run, trust: bool, *, executes: bool = False) -> None:
    """Show a run that others may have written. Raises UntrustedError unless it is trusted.

    On a terminal, asks about a run that came from elsewhere but that nobody else can write.
    """
    _require(objection(run, executes=executes), trust)


def require_run_code_trust(run: Run, trust: bool) -> None:
    """Require trust to execute a run, and trust in the code of its config."""
    from engine.config.load import load_config

    require_trust(run, trust, executes=True)
    if trust and run.config_file.is_file():
        require_code_trust(load_config(str(run.config_file), (), {}), trust)


def require_code_trust(config: Config, trust: bool) -> None:
    """Require trust in the files outside of a run that a launch of the config would execute."""
    from engine.config.executed import code_objection

    _require(code_objection(config), trust)


def require_pipeline_trust(record: Record, trust: bool) -> None:
    """Require trust in the file of a pipeline, and in the scripts that its stages execute."""
    from engine.launch.pipelines.start import objection as pipeline_objection

    _require(pipeline_objection(record), trust)


def require_config_trust(config: Config, trust: bool) -> None:
    """Require trust in the run that a config belongs to, and in the files that it executes."""
    require_folder_trust(config.path, trust)
    require_code_trust(config, trust)


def require_folder_trust(file: Path, trust: bool) -> None:
    """Require trust in the run whose directory contains the file of a config, if there is one."""
    above = (Run(folder) for folder in file.resolve().parents)  # It may be a link.
    run = next((run for run in above if run.is_one()), None)
    if run is not None:
        require_trust(run, trust, executes=True)


def trusted_source(
    source: str, overrides: list[str], root: Path, trust: bool
) -> tuple[Config, Run | None]:
    """Return the config that ``source`` names, and the run if it is one; both may be executed."""
    from engine.launch.rerun import config_of_source

    config, run = config_of_source(source, overrides, root)
    if run is not None:
        require_trust(run, trust, executes=True)
    else:
        require_config_trust(config, trust)
    return config, run


def _require(case: Case | None, trust: bool) -> None:
    if case is None:
        return
    say("\n".join([f"{case.subject}: {'; '.join(case.reasons)}", *case.lines]), to=sys.stderr)
    can_ask = on_terminal() and not case.is_exposed
    if not trust and not (can_ask and confirmed("Trust this?")):
        raise UntrustedError(case)
    agree(case)
