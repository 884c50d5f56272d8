"""``grubrics-tui completion``: print the script by which a shell completes commands."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import Annotated

import typer

from engine.base.errors import unknown_name
from grubrics_tui.commands.shared import Command, Task, answer, argument, options
from grubrics_tui.commands.shared.completions import SHELLS, answer_shell, complete_shell

_WITHOUT_SPACE = """
_grubrics_tui_words() {
    _grubrics_tui_completion "$@"
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F _grubrics_tui_words grubrics-tui"""
"""Of bash, after Typer's script: a value follows ``key=``, not another word."""


def completion(
    context: typer.Context,
    shell: Annotated[str, argument("bash|zsh|fish", "The shell", autocompletion=complete_shell)],
    as_json: options.JsonOption = False,
) -> None:
    """Print the completion script of a shell.

    For bash, add to ~/.bashrc: eval "$(grubrics-tui completion bash)". It completes commands,
    options, run IDs, configs, and their keys, also by their ends: lr.
    """
    if shell not in SHELLS:
        raise unknown_name("shell", shell, SHELLS)
    with redirect_stdout(StringIO()) as printed:
        answer_shell(context.find_root().command, f"source_{shell}")
    script = printed.getvalue() + (_WITHOUT_SPACE if shell == "bash" else "")
    answer({"shell": shell, "script": script}, script, as_json)


COMMAND = Command(completion, Task.KEEP)
