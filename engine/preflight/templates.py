"""A model's chat template, rendered as the trainer will, without transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.base import jsonl

Messages = Sequence[Mapping[str, Any]]


class _Generation(Extension):
    """transformers' ``{% generation %}`` marks what the model wrote; it renders as its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """The template of one model folder. Templates come with models, so they run sandboxed."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals.update(
            raise_exception=_raise, strftime_now=lambda form: datetime.now().strftime(form)
        )
        self.source = source
        self._template = environment.from_string(source)
        self._special_tokens = special_tokens

    def render(self, messages: Messages, **options: Any) -> str:
        """The text the model sees. Raises jinja2.TemplateError when the template refuses."""
        given = {"messages": messages, "tools": None, "documents": None}
        try:
            return self._template.render(**{**self._special_tokens, **given, **options})
        except TemplateError:
            raise
        except Exception as error:  # a template is a program: it adds texts to nulls, divides by 0
            raise TemplateError(f"{type(error).__name__}: {error}") from error


def read_template(folder: Path, source: str | None = None) -> ChatTemplate | None:
    """The chat template of a model folder, or ``source`` in place of it; None without either.

    Raises jinja2.TemplateError when it is no template.
    """
    config = jsonl.read_json(folder / "tokenizer_config.json") or {}
    source = source or _source(folder, config)
    return ChatTemplate(source, _special_tokens(config)) if source else None


def read_encoder(folder: Path) -> Callable[[Sequence[str]], list[list[int]]] | None:
    """Turns texts into token ids; None without a fast tokenizer's file."""
    if not (folder / "tokenizer.json").is_file():
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)]

    return encode


def _source(folder: Path, config: Mapping[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """bos_token, eos_token, ... as text; the file holds text or an object with its content."""
    tokens = {name: value for name, value in config.items() if name.endswith("_token")}
    texts = {
        name: value.get("content") if isinstance(value, dict) else value
        for name, value in tokens.items()
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)
