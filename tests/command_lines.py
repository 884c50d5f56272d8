"""The commands of the program in a text, and whether the command line takes them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache

import typer
from typer.core import TyperCommand, TyperGroup

from engine.base.errors import UsageError
from grubrics_tui.cli import app, build_command
from grubrics_tui.commands.shared.command import commands

PROGRAM = "grubrics-tui"
NUMBERS = {"N": "1", "S": "1", "STEP": "1", "PID": "1", "SECONDS": "1", "I": "1"}
"""Placeholders of numbers; others stand for names and texts."""


def shell_lines(page: str) -> Iterator[str]:
    """Every command that a page shows: indented, after a prompt, or within a sentence."""
    text = page.replace("\\\n", " ")
    yield from re.findall(rf"(?m)^(?: {{4,}}|\$ )(\S*.*\b{PROGRAM}\b.*)$", text)
    yield from re.findall(rf"`({PROGRAM} [^`\n]+)`", text)


def commands_of(line: str) -> list[list[str]]:
    """The words of each command of a shell line, without its comment, pipes and redirections.

    A synopsis has all of its optional words, and of alternatives the first.
    """
    text = re.sub(r"\s#\s.*$", "", line)
    if re.search(r"\[[-A-Za-z]", text) and not re.search(r"=\[", text):
        text = re.sub(r"[\[\]]", "", text).replace("...", "")
    words = shlex.split(text.replace("...", ""))
    found: list[list[str]] = []
    for word in words:
        if word.rpartition("/")[2] == PROGRAM:
            found.append([])
        elif word in ("|", "&&", ";", ">", "&", "||"):
            found.append([""])
        elif found:
            found[-1].append(word.rstrip(";"))
    return [words for words in found if words[:1] != [""]]


@cache
def _program() -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


@cache
def _build(name: str) -> TyperCommand:
    return build_command(name, commands()[name])


def refusal(words: list[str]) -> str | None:
    """Why the command line does not take ``words``; None if options and arguments fit.

    A single word is the name of a command.
    """
    group = _program()
    given = [NUMBERS.get(word, word) for word in words]
    names = [index for index, word in enumerate(given) if word in commands()]
    index = names[0] if names else len(given)
    if len(given) == 1 and names:
        return None
    try:
        context = group.make_context(PROGRAM, given[: index + 1])
        if names:
            command = _build(given[index])
            command.make_context(given[index], given[index + 1 :], parent=context)
    except UsageError as error:
        return str(error)
    except typer.Exit:
        pass
    return None
