"""Render a model's chat template as the trainer will, without transformers."""

from __future__ import annotations

import json
import pickle
import resource
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.base import jsonl
from engine.run.host.programs import own_module

Messages = Sequence[Mapping[str, Any]]
_COMPUTES_S = 5.0
"""Seconds of the processor for a conversation, however busy the machine is."""
_MEMORY_BYTES = 2 << 30


class _Generation(Extension):
    """transformers' ``{% generation %}``, around the model's text, renders as its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateLimitError(TemplateError):
    """The template computes too long, needs too much memory, or ends its process otherwise."""


_TEXT, _REFUSAL, _LIMIT = "text", "refusal", "limit"
_ERRORS = {_REFUSAL: TemplateError, _LIMIT: TemplateLimitError}


class ChatTemplate:
    """The template of a model folder. It comes with the model, so it runs sandboxed, in a process
    with limits of time and memory: a loop has no end, and ``'x' * 10**10`` has 10 GB.

    Raises jinja2.TemplateError for what is no template.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self.source = source
        self._process = subprocess.Popen(
            own_module("engine.checks.chat_template"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        weakref.finalize(self, _end, self._process)
        [refusal] = self._ask((source, dict(special_tokens)))
        if isinstance(refusal, TemplateError):
            raise refusal

    def render_each(
        self, conversations: Sequence[Messages], **options: Any
    ) -> list[str | TemplateError]:
        """The text of each conversation, or why the template refuses it."""
        return self._ask((list(conversations), options))

    def _ask(self, question: Any) -> list[str | TemplateError]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            pickle.dump(question, self._process.stdin)
            self._process.stdin.flush()
            answers: list[tuple[str, str]] = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            code = self._process.wait()
            took_long = code == -signal.SIGPROF
            raise TemplateLimitError(
                f"it computes without an end (more than {_COMPUTES_S:g} s)"
                if took_long
                else f"the process that renders it ended with exit code {code}"
            ) from error
        return [text if kind == _TEXT else _ERRORS[kind](text) for kind, text in answers]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def main() -> None:
    """Answer what a ``ChatTemplate`` asks: its source, then lists of conversations."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    source, special_tokens = pickle.load(questions)
    answer = [(_TEXT, "")]
    try:
        with _limited():
            template = _environment().from_string(source)
    except (TemplateError, MemoryError) as error:
        answer = [_described(error)]
    while True:
        pickle.dump(answer, answers)
        answers.flush()
        try:
            conversations, options = pickle.load(questions)
        except EOFError:
            return
        inputs = {**special_tokens, "tools": None, "documents": None, **options}
        answer = [_render(template, {**inputs, "messages": talk}) for talk in conversations]


def _render(template: Template, inputs: Mapping[str, Any]) -> tuple[str, str]:
    try:
        with _limited():
            return _TEXT, template.render(inputs)
    except Exception as error:  # a template may add text to null, or divide by 0
        return _described(error)


def _described(error: Exception) -> tuple[str, str]:
    if isinstance(error, MemoryError):
        return _LIMIT, f"it needs more than {_MEMORY_BYTES >> 30} GiB of memory"
    if isinstance(error, TemplateError):
        return _REFUSAL, str(error)
    return _REFUSAL, f"{type(error).__name__}: {error}"


@contextmanager
def _limited() -> Iterator[None]:
    """End this process if what follows computes too long: no exception reaches a C function."""
    signal.setitimer(signal.ITIMER_PROF, _COMPUTES_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(
        value, ensure_ascii=False, indent=indent
    )
    environment.globals.update(
        raise_exception=_raise, strftime_now=lambda form: datetime.now().strftime(form)
    )
    return environment


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
    texts = _render_all(template, conversations, add_generation_prompt=True, **options)
    token_ids = _encode_all(encode, texts)
    return [Rendered(text, len(ids)) for text, ids in zip(texts, token_ids, strict=True)]


class SftRenderer:
    """Renders rows as verl's SFT data set joins them. Raises RefusedError, also in __init__."""

    def __init__(self, template: ChatTemplate, encode: Encode) -> None:
        self._template, self._encode = template, encode
        texts = _render_all(template, [[_EMPTY], [_EMPTY, _EMPTY]], add_generation_prompt=False)
        single, double = (len(ids) for ids in encode(texts))
        self._system_tokens = 0 if single == double else max(0, 2 * single - double)

    def render(self, conversations: Sequence[Messages]) -> list[Rendered]:
        full_texts = _render_all(self._template, conversations, add_generation_prompt=False)
        pieces = self._render_alone(conversations)
        piece_texts = [text for row in pieces for piece in row for text in piece]
        piece_ids = iter(_encode_all(self._encode, piece_texts))
        full_ids = _encode_all(self._encode, full_texts)
        return [
            self._join(messages, row, piece_ids, text, ids)
            for messages, row, text, ids in zip(
                conversations, pieces, full_texts, full_ids, strict=True
            )
        ]

    def _render_alone(self, conversations: Sequence[Messages]) -> list[list[tuple[str, str]]]:
        """Render each message alone; return its text, and the part of it before the message."""
        render = partial(_render_each, self._template, add_generation_prompt=False)
        alone = iter(render([[message] for messages in conversations for message in messages]))
        rows = []
        for index, messages in enumerate(conversations):
            row: list[tuple[str, str]] = []
            for message in messages:
                texts = [next(alone), ""]
                if isinstance(texts[0], TemplateError):
                    # verl adds an empty question before a message that is refused alone
                    texts = render([[_LEAD, message], [_LEAD]])
                row.append((_required(texts[0], index), _required(texts[1], index)))
            rows.append(row)
        return rows

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


def _render_all(
    template: ChatTemplate, conversations: Sequence[Messages], **options: Any
) -> list[str]:
    texts = _render_each(template, conversations, **options)
    return [_required(text, index) for index, text in enumerate(texts)]


def _render_each(
    template: ChatTemplate, conversations: Sequence[Messages], **options: Any
) -> list[str | TemplateError]:
    try:
        return template.render_each(conversations, **options)
    except TemplateLimitError as error:
        raise RefusedError(error) from error


def _required(text: str | TemplateError, index: int) -> str:
    if isinstance(text, TemplateError):
        raise RefusedError(text, index) from text
    return text


def _encode_all(encode: Encode, texts: Sequence[str]) -> list[list[int]]:
    starts = range(0, len(texts), _BATCH)
    return [ids for start in starts for ids in encode(texts[start : start + _BATCH])]


if __name__ == "__main__":
    main()
