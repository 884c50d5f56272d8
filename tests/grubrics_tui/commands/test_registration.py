"""How a command is found: by its name, or as one of an installed package."""

from __future__ import annotations

import re
import sys

import pytest
from typer.testing import CliRunner

from grubrics_tui.cli import app, main
from grubrics_tui.commands.shared.command import commands, find_command
from tests.paths import ROOT
from tests.plugins import InstallPlugin


@pytest.mark.parametrize("name", commands())
def test_the_readme_shows_every_command(name: str) -> None:
    assert re.search(rf"grubrics-tui {name}\b", (ROOT / "README.md").read_text())


@pytest.mark.parametrize("name", ["shared", "../cli", "judge_test", "", "x" * 300, "__init__"])
def test_nothing_else_is_a_command(name: str) -> None:
    assert find_command(name) is None


@pytest.mark.parametrize(("typed", "near"), [("diagnos", "diagnose"), ("smoke-tets", "smoke-test")])
def test_an_unknown_command_is_refused_with_the_nearest(
    typed: str, near: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["grubrics-tui", typed])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert f"'{typed}'" in (error := capsys.readouterr().err) and f"'{near}'" in error


PLUGIN = """
from grubrics_tui.commands.shared.command import Command, Task


def greet() -> None:
    \"\"\"Greet somebody.\"\"\"
    print("hello")


COMMAND = Command(greet, Task.KEEP)
WRONG = 3
"""


@pytest.fixture
def plugin(install_plugin: InstallPlugin) -> None:
    """An installed package with a command, one that is no command, and one that is broken."""
    named = {"greet": "COMMAND", "odd": "WRONG", "broken": "MISSING", "show": "COMMAND"}
    points = [f"{name} = greeting_plugin:{attribute}" for name, attribute in named.items()]
    install_plugin("greeting_plugin", PLUGIN, "\n".join(["[grubrics.commands]", *points]))


@pytest.mark.usefixtures("plugin")
def test_an_installed_package_adds_a_command() -> None:
    done = CliRunner().invoke(app, ["greet"])
    assert (done.exit_code, done.stdout) == (0, "hello\n")


@pytest.mark.usefixtures("plugin")
def test_a_broken_command_is_named_and_skipped() -> None:
    done = CliRunner().invoke(app, ["--help"])
    assert done.exit_code == 0
    assert "greet" in done.stdout and "odd" not in done.stdout and "broken" not in done.stdout
    assert all(f" {name} of " in done.stderr for name in ("odd", "broken"))


@pytest.mark.usefixtures("plugin")
def test_a_package_does_not_replace_a_command() -> None:
    shown = commands()["show"]
    assert shown is find_command("show")
    assert shown.function.__module__ == "grubrics_tui.commands.show"
