"""Values of configs as text."""

from __future__ import annotations

from typing import Any

from engine.base import jsonl


def format_config_value(value: Any) -> str:
    """Format a value as one line, as in a config file: ``null``, ``true``, ``[1, 2]``."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{', '.join(format_config_value(item) for item in value)}]"
    if isinstance(value, dict):
        items = (f"{key}: {format_config_value(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    return jsonl.line(str(value)) or "''"
