"""What --help prints: every text as it was written, every option with a description and default."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from grubrics_tui.cli import app

ROOT: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {
    "": ROOT,
    **{name: ROOT.get_command(None, name) for name in ROOT.list_commands(None)},
}
PARAMETERS = [
    (name, parameter)
    for name, command in COMMANDS.items()
    for parameter in command.params
    if parameter.name != "help"
]
NAMES = [f"{name} {parameter.opts[-1]}".strip() for name, parameter in PARAMETERS]


def printed(command: str) -> str:
    done = CliRunner().invoke(app, [*command.split(), "--help"])
    assert done.exit_code == 0
    return squeezed(done.stdout)


def squeezed(text: str) -> str:
    """Without spaces, which the width of the terminal decides."""
    return "".join(text.split())


@pytest.mark.parametrize(("command", "parameter"), PARAMETERS, ids=NAMES)
def test_every_option_and_argument_is_described_as_written(command: str, parameter: Any) -> None:
    described = squeezed((parameter.help or "").split("[")[0])
    assert described, "it has no description"
    assert squeezed(parameter.help) in printed(command)


@pytest.mark.parametrize(("command", "parameter"), PARAMETERS, ids=NAMES)
def test_every_default_is_shown(command: str, parameter: Any) -> None:
    default = parameter.default
    if default in (None, False, "", ()):
        return
    shown = parameter.opts[-1].lstrip("-") if default is True else str(default)
    assert squeezed(f"[default: {shown}]") in printed(command)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name])
def test_every_command_says_what_it_does(name: str) -> None:
    about = COMMANDS[name].help
    assert about and squeezed(about) in printed(name)
    assert squeezed(about.split(".")[0])[:20] in printed("")
