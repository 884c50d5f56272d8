"""The error for an option that a command lacks, where the user meant something else."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from engine.base import command_line
from engine.base.command_line import command_prefix, find_begun
from engine.base.errors import UsageError, shorten
from grubrics_tui.commands.shared.command import commands


def unknown_option(context: Any, name: str, options: Collection[str]) -> UsageError:
    """Return the error with the option that begins with ``name``, the key of a config that another
    trainer has as this option, or the option that is spelled most like it."""
    command, plain = command_prefix(context), name.lstrip("-").replace("-", "_")
    takes_keys = any(param.name == "overrides" for param in context.command.params)
    others = _other_options() if takes_keys else {"instead": {}}
    if (instead := others["instead"].get(plain)) is not None:
        return UsageError(f"{command}option '{name}' does not exist; {instead}")
    if find_begun(name, options) is None:
        if takes_keys and (key := others["keys"].get(plain) or _keys_called(plain)):
            advice = f"give the key of the config as KEY=VALUE: {key}"
            return UsageError(f"{command}option '{name}' does not exist; {advice}")
        if not command and (meant := next((word for word in commands() if word in name), None)):
            problem = f"option '{shorten(name)}' does not exist"
            return UsageError(f"{problem}; did you mean '{meant} ...'?")
    return command_line.unknown_option(context, name, options)


def _other_options() -> Any:
    from engine.base.yaml_files import read_table  # Only a wrong option needs YAML.

    return read_table(Path(__file__).with_name("other_options.yaml"))


def _keys_called(name: str) -> str:
    """The keys for what other trainers call ``name``, of GRPO and SFT; empty if there is none."""
    from engine.run.trainer_settings import settings_called  # Only a wrong option needs it.

    keys = next((setting.keys for setting in settings_called(name)), {})
    grpo, sft = keys.get("grpo"), keys.get("sft")
    return f"{grpo} (SFT: {sft})" if grpo and sft else grpo or sft or ""
