"""What differs between two texts, word by word, in bounded time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

Kind = Literal["same", "added", "missing"]

_WORDS = re.compile(r"\n|[^\S\n]+|\w+|[^\w\s]")
_BLANKS = re.compile(r"[^\S\n]+")
_MOST_PAIRS = 400_000
"""Words of one side times words of the other up to which they are compared one by one."""


@dataclass(frozen=True)
class Piece:
    """A stretch of text: in both, only in the one looked at, or only in the one compared with."""

    kind: Kind
    text: str


Inner = Callable[[str, str], Iterator[Piece]]
"""How to compare what differs once more: the text's stretch, then the other's."""


def differences(text: str, other: str) -> tuple[Piece, ...]:
    """``text`` seen against ``other``: the pieces that are not ``missing`` make up ``text``.

    Lines are matched first; inside what changed, words, unless it is too long for that.
    """
    own, its = text.splitlines(keepends=True), other.splitlines(keepends=True)
    return tuple(_stretches(_compared(own, its, within=_words_of)))


def _words_of(own: str, its: str) -> Iterator[Piece]:
    left, right = _WORDS.findall(own), _WORDS.findall(its)
    yield from _compared(left, right, within=_replaced)


def _replaced(own: str, its: str) -> Iterator[Piece]:
    yield Piece("missing", its)
    yield Piece("added", own)


def _compared(own: Sequence[str], its: Sequence[str], within: Inner) -> Iterator[Piece]:
    if len(own) * len(its) > _MOST_PAIRS:
        yield from _replaced("".join(own), "".join(its))
        return
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, its, own, autojunk=False).get_opcodes():
        mine, theirs = "".join(own[j1:j2]), "".join(its[i1:i2])
        if kind == "equal":
            yield Piece("same", mine)
        else:
            yield from within(mine, theirs) if mine and theirs else _replaced(mine, theirs)


def _stretches(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Changes that only blanks keep apart as one: phrases are easier to read than single words."""
    same = missing = added = ""
    for piece in pieces:
        if piece.kind == "same":
            same += piece.text
            continue
        if same and not ((missing or added) and _BLANKS.fullmatch(same)):
            yield from _known(Piece("missing", missing), Piece("added", added), Piece("same", same))
            missing = added = same = ""
        missing += same + (piece.text if piece.kind == "missing" else "")
        added += same + (piece.text if piece.kind == "added" else "")
        same = ""
    yield from _known(Piece("missing", missing), Piece("added", added), Piece("same", same))


def _known(*pieces: Piece) -> Iterator[Piece]:
    yield from (piece for piece in pieces if piece.text)
