"""What --help prints: every text as it was written, every option with a description and default."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from grubrics_tui.cli import app
from grubrics_tui.commands.shared.command import Task, commands
from tests.paths import ROOT as ROOT_FOLDER

ROOT: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {
    "": ROOT,
    **{name: ROOT.get_command(None, name) for name in ROOT.list_commands(None)},
}
PARAMETERS = [
    (name, parameter)
    for name, command in COMMANDS.items()
    for parameter in command.params
    if parameter.name != "help" and not parameter.hidden
]
NAMES = [f"{name} {parameter.opts[-1]}".strip() for name, parameter in PARAMETERS]


@functools.cache
def printed(command: str) -> str:
    done = CliRunner().invoke(app, [*command.split(), "--help"])
    assert done.exit_code == 0
    return squeezed(done.stdout)


@functools.cache
def printed_lines(command: str) -> str:
    """As a terminal of 80 columns shows it."""
    done = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "80"})
    return done.stdout


def squeezed(text: str) -> str:
    """Without spaces, which the width of the terminal decides."""
    return "".join(text.split())


@pytest.mark.parametrize(("command", "parameter"), PARAMETERS, ids=NAMES)
def test_every_option_and_argument_is_described_as_written(command: str, parameter: Any) -> None:
    assert parameter.help, "it has no description"
    assert squeezed(parameter.help) in printed(command)
    assert "[" not in parameter.help, "brackets may be taken for markup; use parentheses"


@pytest.mark.parametrize(("command", "parameter"), PARAMETERS, ids=NAMES)
def test_every_default_is_shown(command: str, parameter: Any) -> None:
    default = parameter.default
    if default in (None, False, "", ()):
        return
    shown = parameter.opts[-1].lstrip("-") if default is True else str(default)
    assert squeezed(f"(default: {shown})") in printed(command)


@pytest.mark.parametrize(("command", "parameter"), PARAMETERS, ids=NAMES)
def test_every_value_has_a_name_of_its_own(command: str, parameter: Any) -> None:
    assert not re.search(rf"{parameter.opts[-1]} <\w+>", printed_lines(command))


@pytest.mark.parametrize("name", [name for name in COMMANDS if name])
def test_every_command_has_a_summary_that_fits_in_one_line(name: str) -> None:
    about = COMMANDS[name].help
    assert about and squeezed(about) in printed(name)
    summary = about.split("\n\n")[0]
    assert summary.endswith(".") and "\n" not in summary
    listed = next(line for line in printed_lines("").splitlines() if line.startswith(f"  {name} "))
    assert listed.endswith(summary)


def test_the_groups_are_those_of_the_readme() -> None:
    """A command that the README names in several groups is listed in one of them."""
    text = (ROOT_FOLDER / "README.md").read_text().split("## Commands")[1].split("\n## ")[0]
    groups = re.split(r"(?m)^    # ", text)[1:]
    assert [group.partition("\n")[0] for group in groups] == [task.lower() for task in Task]
    for name, command in commands().items():
        uses = [group for group in groups if f"grubrics-tui {name} " in group]
        assert not uses or any(group.startswith(command.task.lower()) for group in uses), name


def test_commands_are_listed_by_task() -> None:
    lines = printed_lines("").splitlines()
    places = [lines.index(f"{task}:") for task in Task]
    assert places == sorted(places)
