"""Rows as verl 0.9.1 turns them into tokens.

GRPO: the agent loop renders the whole prompt at once (verl.utils.tokenizer.continuous_token).
SFT: the data set renders each message alone, cuts the tokens that the template puts before every
conversation, joins the rest, and refuses a row whose whole conversation renders otherwise
(verl.utils.dataset.multiturn_sft_dataset).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from jinja2 import TemplateError

from engine.preflight.templates import ChatTemplate, Messages

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
