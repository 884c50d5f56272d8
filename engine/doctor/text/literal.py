"""The texts that a pattern cannot match without.

A log of gigabytes is searched for these texts, not with regular expressions: only a line that
holds one is shown to the pattern it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SHORTEST = 4
_WORDS = """
answer attention available batch_size both chat checkpoint checkpoints config data dataset decod
empty error exceed expert experts failed found grad_norm gradient gradients input inputs line
loading logits loss memory messages metrics micro_batch_size mixed model module must
n_gpus_per_node nnodes number output param params pars please process prompt rank request
requests response reward rewards score server size start state step target_modules task template
terminat terminated text token tokens training using valid validation wandb worker world zero
"""
COMMON = frozenset(_WORDS.split())
"""Words of healthy logs: to look at every line with one of them would be to read the log."""
_CLASSES = frozenset("dDwWsSbBAZ")
_COLOURED = re.compile(r"(?<=error)(?=: )|(?<=exception)(?=: )")
"""Notebooks and consoles colour the name of an exception: escape codes follow it."""
_GROUP = re.compile(r"\((?:\?P<\w+>|\?:)?(?!\?)")


class NoLiteralError(ValueError):
    """The pattern can match without any text that could be looked for."""


def required_literals(pattern: str) -> tuple[str, ...]:
    """Texts in lower case of which every match of ``pattern`` contains at least one.

    Understands what rules are written with. Raises NoLiteralError when a match needs no text of
    ``SHORTEST`` characters, or only a word of ``COMMON``.
    """
    found = [text for one in alternatives(pattern) for text in _of_alternative(one)]
    return tuple(dict.fromkeys(found))


def alternatives(pattern: str) -> list[str]:
    """The pattern's alternatives at the top."""
    parts: list[str] = []
    part, at = "", 0
    while at < len(pattern):
        if pattern[at] == "|":
            parts, part, at = [*parts, part], "", at + 1
            continue
        end = _after(pattern, at) if pattern[at] in "\\[(" else at + 1
        part, at = part + pattern[at:end], end
    return [*parts, part]


def _of_alternative(pattern: str) -> tuple[str, ...]:
    """Of all that has to be there the rarest: whose shortest text is longest."""
    candidates = [texts for texts in _pieces(pattern) if texts and not _too_common(texts)]
    best = max(candidates, key=lambda texts: min(map(len, texts)), default=())
    if not best or min(len(text.strip()) for text in best) < SHORTEST:
        raise NoLiteralError(f"no rare text of {SHORTEST} characters in every match: {pattern}")
    return best


def _too_common(texts: tuple[str, ...]) -> bool:
    return any(text.strip(" _:.'") in COMMON for text in texts)


def _pieces(pattern: str) -> Iterator[tuple[str, ...]]:
    run, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and pattern[at + 1] not in _CLASSES:
            run, at = run + pattern[at + 1], at + 2
            continue
        if char not in "\\[(.^$?*{+":
            run, at = run + char, at + 1
            continue
        yield from _texts(run[:-1] if char in "?*{" else run)
        run, end = "", _after(pattern, at)
        if char == "(" and not pattern.startswith(("?", "*", "{"), end):
            yield _of_group(pattern[at:end])
        at = end
    yield from _texts(run)


def _texts(run: str) -> Iterator[tuple[str, ...]]:
    return ((text,) for text in _COLOURED.split(run.lower()) if text)


def _of_group(group: str) -> tuple[str, ...]:
    opening = _GROUP.match(group)
    if opening is None:
        return ()
    try:
        return required_literals(group[opening.end() : -1])
    except NoLiteralError:
        return ()


def _after(pattern: str, at: int) -> int:
    """The index behind the special construct that begins at ``at``."""
    char = pattern[at]
    if char == "\\":
        return at + 2
    if char == "[":
        return pattern.index("]", at + 2) + 1
    if char == "{":
        return pattern.index("}", at) + 1
    return _after_group(pattern, at) if char == "(" else at + 1


def _after_group(pattern: str, at: int) -> int:
    depth = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "[":
            at = pattern.index("]", at + 2)
        depth += (char == "(") - (char == ")")
        at += 1
        if depth == 0:
            return at
    raise NoLiteralError(f"a bracket is not closed: {pattern}")
