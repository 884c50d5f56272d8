"""What every command needs: its declaration, its output, and in `options` what several take."""

from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import argument, flag, option
from grubrics_tui.commands.shared.output import (
    answer,
    confirmed,
    on_terminal,
    print_json,
    say,
    warn,
)

__all__ = [
    "Command", "Task", "answer", "argument", "confirmed", "flag", "on_terminal", "option",
    "print_json", "say", "warn",
]  # fmt: skip
