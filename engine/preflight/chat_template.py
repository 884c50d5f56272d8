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
    """transformers' ``{% generation %}``, around the model's text, renders as its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """The template of a model folder. It comes with the model, so it runs sandboxed."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = lambda value, indent=None: json.dumps(
            value, ensure_ascii=False, indent=indent
        )
        environment.globals.update(
            raise_exception=_raise, strftime_now=lambda form: datetime.now().strftime(form)
        )
        self.source = source
        self._template = environment.from_string(source)
        self._special_tokens = special_tokens

    def render(self, messages: Messages, **options: Any) -> str:
        """The text that the model sees. Raises jinja2.TemplateError if the template refuses."""
        inputs = {"messages": messages, "tools": None, "documents": None}
        try:
            return self._template.render(**{**self._special_tokens, **inputs, **options})
        except TemplateError:
            raise
        except Exception as error:  # a template may add text to null, or divide by 0
            raise TemplateError(f"{type(error).__name__}: {error}") from error


def read_template(folder: Path, source: str | None = None) -> ChatTemplate | None:
    """Read the chat template of a model folder; ``source`` replaces it. None without either.

    Raises jinja2.TemplateError if it is not a template.
    """
    config = jsonl.read_json(folder / "tokenizer_config.json") or {}
    file = folder / "chat_template.jinja"
    if not source and file.is_file():
        source = file.read_text(encoding="utf-8")
    elif not source:
        template = config.get("chat_template")
        if isinstance(template, list):
            by_name = {entry.get("name"): entry.get("template") for entry in template}
            template = by_name.get("default")
        source = template if isinstance(template, str) else None
    return ChatTemplate(source, _special_tokens(config)) if source else None


def read_encoder(folder: Path) -> Callable[[Sequence[str]], list[list[int]]] | None:
    """Return a function from texts to token IDs; None without a fast tokenizer or its package."""
    if not (folder / "tokenizer.json").is_file():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:  # the base install has no package of the trainer
        return None

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def encode(texts: Sequence[str]) -> list[list[int]]:
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    return encode


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """bos_token, eos_token, ... as text; the file holds text or an object with its content."""
    tokens = {name: value for name, value in config.items() if name.endswith("_token")}
    texts = {
        name: value.get("content") if isinstance(value, dict) else value
        for name, value in tokens.items()
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


Encode = Callable[[Sequence[str]], list[list[int]]]
"""Returns the token IDs of each text, without special tokens around it."""
Render = Callable[[Messages], str]

_EMPTY = {"role": "user", "content": ""}
_LEAD = {"role": "user", "content": [{"type": "text", "text": ""}]}
_BATCH = 256


@dataclass(frozen=True)
class Rendered:
    """The text and tokens of a row.

    ``learned_from`` counts the tokens before the last message, which SFT trains on. ``differs``
    quotes where the whole conversation renders differently from its joined messages.
    """

    text: str
    tokens: int
    learned_from: int = 0
    differs: str | None = None


class RefusedError(Exception):
    """The template refuses a row. The message quotes the reason; ``index``: row of the batch."""

    def __init__(self, error: TemplateError, index: int | None = None) -> None:
        super().__init__(" ".join(str(error).split()))
        self.index = index


def render_prompts(
    template: ChatTemplate,
    encode: Encode,
    conversations: Sequence[Messages],
    options: Mapping[str, Any],
) -> list[Rendered]:
    """Render and count the prompts that the model gets. Raises RefusedError."""
    render = partial(template.render, add_generation_prompt=True, **options)
    texts = _render_all(render, conversations)
    token_ids = _encode_all(encode, texts)
    return [Rendered(text, len(ids)) for text, ids in zip(texts, token_ids, strict=True)]


class SftRenderer:
    """Renders rows as verl's SFT data set joins them. Raises RefusedError, also in __init__."""

    def __init__(self, template: ChatTemplate, encode: Encode) -> None:
        self._render = partial(template.render, add_generation_prompt=False)
        self._encode = encode
        try:
            texts = [self._render([_EMPTY]), self._render([_EMPTY, _EMPTY])]
        except TemplateError as error:
            raise RefusedError(error) from error
        single, double = (len(ids) for ids in encode(texts))
        self._system_tokens = 0 if single == double else max(0, 2 * single - double)

    def render(self, conversations: Sequence[Messages]) -> list[Rendered]:
        full_texts = _render_all(self._render, conversations)
        pieces = _render_all(
            lambda messages: [self._render_alone(message) for message in messages], conversations
        )
        piece_texts = [text for row in pieces for piece in row for text in piece]
        piece_ids = iter(_encode_all(self._encode, piece_texts))
        full_ids = _encode_all(self._encode, full_texts)
        return [
            self._join(messages, row, piece_ids, text, ids)
            for messages, row, text, ids in zip(
                conversations, pieces, full_texts, full_ids, strict=True
            )
        ]

    def _render_alone(self, message: Mapping[str, Any]) -> tuple[str, str]:
        """Render one message; return its text, and the part of it before the message."""
        try:
            return self._render([message]), ""
        except TemplateError:  # verl adds an empty question before a message that is refused alone
            return self._render([_LEAD, message]), self._render([_LEAD])

    def _join(
        self,
        messages: Messages,
        pieces: Sequence[tuple[str, str]],
        piece_ids: Iterator[list[int]],
        full_text: str,
        full_ids: list[int],
    ) -> Rendered:
        joined: list[int] = []
        start = 0
        for index, message in enumerate(messages):
            ids, lead_ids = next(piece_ids), next(piece_ids)
            cut = self._system_tokens if index and message["role"] != "system" else 0
            start = len(joined)
            joined += ids[len(lead_ids) :][cut:]
        differs = None
        if joined != full_ids:
            text = "".join(text.removeprefix(lead) for text, lead in pieces)
            pairs = enumerate(zip(full_text, text, strict=False))
            first = next((index for index, (full, part) in pairs if full != part), len(text))
            differs = repr(full_text[first : first + 40])
        return Rendered(full_text, len(joined), start, differs)


def _render_all(render: Callable[[Messages], Any], conversations: Sequence[Messages]) -> list[Any]:
    results = []
    for index, messages in enumerate(conversations):
        try:
            results.append(render(messages))
        except TemplateError as error:
            raise RefusedError(error, index) from error
    return results


def _encode_all(encode: Encode, texts: Sequence[str]) -> list[list[int]]:
    starts = range(0, len(texts), _BATCH)
    return [ids for start in starts for ids in encode(texts[start : start + _BATCH])]
