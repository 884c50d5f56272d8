"""Render a model's chat template as the trainer will, without transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
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
    """Turns texts into token ids; None without a fast tokenizer's file or its package."""
    if not (folder / "tokenizer.json").is_file():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:  # the base install leaves the trainer's packages alone
        return None

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


Encode = Callable[[Sequence[str]], list[list[int]]]
"""The token ids of each text, without special tokens around it."""
Render = Callable[[Messages], str]

_EMPTY = {"role": "user", "content": ""}
_LEAD = {"role": "user", "content": [{"type": "text", "text": ""}]}
_BATCH = 256


@dataclass(frozen=True)
class Rendered:
    """A row's text and tokens. ``learned_from`` counts the tokens before the last message, of
    which SFT learns; ``differs`` quotes what the whole conversation renders otherwise."""

    text: str
    tokens: int
    learned_from: int = 0
    differs: str | None = None


class RefusedError(Exception):
    """The template refuses a row. The message quotes it; ``index`` is the row's in its batch."""

    def __init__(self, error: TemplateError, index: int | None = None) -> None:
        super().__init__(" ".join(str(error).split()))
        self.index = index


def render_prompts(
    template: ChatTemplate,
    encode: Encode,
    conversations: Sequence[Messages],
    options: Mapping[str, Any],
) -> list[Rendered]:
    """What the model is asked. Raises RefusedError."""
    render = partial(template.render, add_generation_prompt=True, **options)
    texts = _each(render, conversations)
    return [
        Rendered(text, len(ids)) for text, ids in zip(texts, _encoded(encode, texts), strict=True)
    ]


class SftRenderer:
    """Rows as verl's SFT data set joins them. Raises RefusedError, also when it is made."""

    def __init__(self, template: ChatTemplate, encode: Encode) -> None:
        self._render = partial(template.render, add_generation_prompt=False)
        self._encode = encode
        try:
            texts = [self._render([_EMPTY]), self._render([_EMPTY, _EMPTY])]
        except TemplateError as error:
            raise RefusedError(error) from error
        one, two = (len(ids) for ids in encode(texts))
        self._system = 0 if one == two else max(0, 2 * one - two)

    def render(self, conversations: Sequence[Messages]) -> list[Rendered]:
        wholes = _each(self._render, conversations)
        pieces = _each(self._pieces, conversations)
        flat = [text for piece in pieces for part in piece for text in part]
        ids = iter(_encoded(self._encode, flat))
        whole_ids = _encoded(self._encode, wholes)
        return [
            self._joined(messages, parts, ids, whole, expected)
            for messages, parts, whole, expected in zip(
                conversations, pieces, wholes, whole_ids, strict=True
            )
        ]

    def _pieces(self, messages: Messages) -> list[tuple[str, str]]:
        """Of each message its text and what stands before it in that text."""
        return [self._alone(message) for message in messages]

    def _alone(self, message: Mapping[str, Any]) -> tuple[str, str]:
        try:
            return self._render([message]), ""
        except TemplateError:  # verl puts an empty question before what is refused alone
            return self._render([_LEAD, message]), self._render([_LEAD])

    def _joined(
        self,
        messages: Messages,
        pieces: Sequence[tuple[str, str]],
        ids: Iterator[list[int]],
        whole: str,
        expected: list[int],
    ) -> Rendered:
        joined: list[int] = []
        start = 0
        for index, message in enumerate(messages):
            text, before = next(ids), next(ids)
            cut = self._system if index and message["role"] != "system" else 0
            start = len(joined)
            joined += text[len(before) :][cut:]
        parts = "".join(text.removeprefix(before) for text, before in pieces)
        differs = None if joined == expected else _difference(whole, parts)
        return Rendered(whole, len(joined), start, differs)


def _each(render: Callable[[Messages], Any], conversations: Sequence[Messages]) -> list[Any]:
    results = []
    for index, messages in enumerate(conversations):
        try:
            results.append(render(messages))
        except TemplateError as error:
            raise RefusedError(error, index) from error
    return results


def _encoded(encode: Encode, texts: Sequence[str]) -> list[list[int]]:
    starts = range(0, len(texts), _BATCH)
    return [ids for start in starts for ids in encode(texts[start : start + _BATCH])]


def _difference(whole: str, parts: str) -> str:
    """The whole conversation from where it first differs from its parts."""
    pairs = enumerate(zip(whole, parts, strict=False))
    at = next((index for index, (left, right) in pairs if left != right), len(parts))
    return repr(whole[at : at + 40])
