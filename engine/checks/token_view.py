"""What the trainer makes of a row: its tokens, those that are trained, and what a tool call does.

verl renders the row, in a process of its own (``engine.train.token_view``).
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import msgspec
from jinja2 import TemplateError

from engine.base.errors import UsageError
from engine.checks.chat_template import TemplateLimitError, read_template
from engine.checks.samples import Split
from engine.config.load import Config
from engine.config.places import is_hub_name, local_folder, model_name
from engine.run.conversation import Outcome
from engine.run.host.environment import install_command
from engine.run.host.programs import own_module

TIME_LIMIT_S = 300.0
"""Importing verl takes seconds, on a busy machine a minute."""

Role = Literal["prompt", "model", "tools"]
"""``model``: what the model would generate. ``tools``: their reply, and the template around it."""


@dataclass(frozen=True)
class Token:
    id: int
    text: str


@dataclass(frozen=True)
class Part:
    """Tokens that follow each other and are all trained or all masked."""

    role: Role
    trained: bool
    tokens: tuple[Token, ...]
    text: str


@dataclass(frozen=True)
class ToolUse:
    """The tools as the chat template gets them, and a call of the first one.

    ``written``: whether the template writes tool calls; otherwise the call is in the form of
    Hermes. ``listed``: whether the prompt names all tools. ``outcome``: what the parser and the
    tool's schema make of the call, None if it is not read. ``answered``: whether the model sees
    the reply.
    """

    schemas: tuple[dict[str, Any], ...]
    written: bool
    listed: bool
    outcome: Outcome | None
    answered: bool

    @property
    def names(self) -> list[str]:
        return [str(schema["function"]["name"]) for schema in self.schemas]


@dataclass(frozen=True)
class TokenView:
    """A row as the trainer sees it, with its right answer in place of a response.

    Of a conversation for SFT, the parts that are trained have the role ``model``.
    """

    file: str
    row: int
    parts: tuple[Part, ...]
    tools: ToolUse | None = None

    def count(self, *, trained: bool) -> int:
        return sum(len(part.tokens) for part in self.parts if part.trained == trained)


class NoModelError(UsageError):
    """The model is not on this disk, so that nothing can be rendered before a download."""


def require_model(config: Config) -> Path:
    """The folder of the model. NoModelError if it has none."""
    name = model_name(config)
    folder = local_folder(name, os.environ)
    if folder is None:
        fix = f". Download it: grubrics-tui model fetch {name}" if is_hub_name(name) else ""
        raise NoModelError(f"{name} is not on this disk{fix}")
    return folder


def read_token_view(config: Config, row: int = 0, split: Split = "train") -> TokenView:
    """Let verl render a row. UsageError, with the reason, if it cannot. No tool is called."""
    return msgspec.convert(ask_trainer(config, str(row), split), TokenView)


def ask_trainer(config: Config, asked: str, split: Split) -> dict[str, Any]:
    """What verl makes of the data of a config, in a process of its own: a row, or the ``length`` of
    the data set. UsageError, with the reason, if it cannot."""
    _require_bounded(require_model(config), config)
    if find_spec("verl") is None:
        raise UsageError(f"verl reads the data and is not installed: {install_command('train')}")
    what = asked if asked == "length" else f"row {asked}"
    try:
        done = subprocess.run(
            own_module("engine.train.token_view", asked, split),
            input=pickle.dumps(config),
            capture_output=True,
            timeout=TIME_LIMIT_S,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"reading {what} took longer than {TIME_LIMIT_S:g} s") from error
    if done.returncode != 0 or not done.stdout:
        # A crash, or code of the tools that ended the process.
        ended = f"the process that renders ended with exit code {done.returncode}"
        lines = done.stderr.decode(errors="replace").split("\n")
        raise UsageError(": ".join([ended, *[line for line in lines if line.strip()][-1:]]))
    value: dict[str, Any] = json.loads(done.stdout)
    if "error" in value:
        raise UsageError(value["error"])
    return value


def _require_bounded(folder: Path, config: Config) -> None:
    """UsageError for a chat template that computes without an end: verl sets it no limits."""
    try:
        template = read_template(folder, config.get(config.kind.template_key))
        if template is not None:
            [text] = template.render_each([[{"role": "user", "content": "Hello"}]])
            if isinstance(text, TemplateLimitError):
                raise text
    except TemplateError as error:
        raise UsageError(f"the chat template of {folder} cannot be used: {error}") from error
