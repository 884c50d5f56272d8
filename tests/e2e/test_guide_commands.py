"""The commands of guides: which tests run them, or whether the program knows their words."""

from __future__ import annotations

import re

import pytest

from engine.config.config_files import config_names
from engine.config.load import load_config
from grubrics_tui.cli import build_command
from grubrics_tui.commands.shared.command import commands, find_command
from tests.e2e.guide import commands_in_text, guide_commands
from tests.e2e.test_ablate import COMPARING
from tests.e2e.test_training import MEASURING
from tests.paths import ROOT

SUMMARIZING = ("summarize",)
"""Run in tests/grubrics_tui/commands/test_summarize.py: it needs no training."""

OTHER_GUIDES = (ROOT / "docs" / "seeds.md").read_text()
COMMANDS = commands_in_text(OTHER_GUIDES)


def overrides_of(words: list[str]) -> list[str]:
    """The overrides of a command with a packaged config."""
    if words[1:2] and words[1] in config_names():
        return [word for word in words[2:] if re.match(r"[a-z_.]+=", word)]
    return []


def test_every_command_of_the_guide_is_run_by_a_test() -> None:
    names = [command[0] for command in guide_commands()]
    assert {*names} == {*MEASURING, *COMPARING, *SUMMARIZING}
    assert len(names) >= 8


def test_a_page_has_its_commands_between_backticks() -> None:
    text = "| `A=1 grubrics-tui launch x 'a b'` | `train.py` | `grubrics-tui show RUN` |"
    assert commands_in_text(text) == [["launch", "x", "a b"], ["show", "RUN"]]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_program_knows_the_options_of_commands_for_users_of_other_guides(
    words: list[str],
) -> None:
    command = find_command(words[0])
    assert command is not None
    known = {name for param in build_command(words[0], command).params for name in param.opts}
    options = words[: words.index("--")] if "--" in words else words
    assert {word for word in options if word.startswith("--")} <= known


@pytest.mark.parametrize(
    "words", [words for words in COMMANDS if overrides_of(words)], ids=" ".join
)
def test_the_config_has_the_overrides_for_users_of_other_guides(words: list[str]) -> None:
    config = load_config(words[1], overrides_of(words), env={})
    assert len(config.changes) == len(config.overrides)


def test_most_commands_are_named_for_users_of_other_guides() -> None:
    named = {words[0] for words in COMMANDS}
    assert len(named & {*commands()}) >= 25
