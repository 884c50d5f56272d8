"""The commands of a page, as a reader would type them: docs/evaluation.md, if no other is given."""

from __future__ import annotations

import re
import shlex

from tests.paths import ROOT

GUIDE = ROOT / "docs" / "evaluation.md"


def guide_commands(*names: str, text: str | None = None) -> list[list[str]]:
    """The arguments of every indented ``grubrics-tui`` command with one of these names; of all
    without names."""
    text = (GUIDE.read_text() if text is None else text).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith("    grubrics-tui ")]
    commands = [shlex.split(line, comments=True)[1:] for line in lines]
    return [command for command in commands if not names or command[0] in names]


def commands_in_text(text: str) -> list[list[str]]:
    """The arguments of every ``grubrics-tui`` command between backticks, without variables before
    it."""
    found = re.findall(r"`(?:[A-Z_]+=\S+ )*grubrics-tui ([^`]+)`", text)
    return [shlex.split(command) for command in found]
