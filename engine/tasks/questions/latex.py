"""Whether two expressions in LaTeX are equal: by math-verify where it is installed.

Without it, spellings of the same text are equal, and numbers of the same value; ``x+1`` and ``1+x``
are not.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec

from engine.tasks.questions.values import LONGEST, are_close, parse_number

_SPACING = re.compile(r"\\[,;!: ]|\\quad|\\qquad|~|\s+|\\left|\\right|\\displaystyle|[$]|\\\(|\\\)")
_FRACTION = re.compile(r"\\[dt]frac")
_SHORT_FRACTION = re.compile(r"\\frac([0-9a-z])([0-9a-z])")
_TEXT = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf)\{([^{}]*)\}")
_DEGREES = re.compile(r"\^\{?\\circ\}?")
_COSTLY = re.compile(r"\^\s*\{?[^+=,]*(?:\^|[0-9]{4})|[0-9]{4}\s*!|!\s*!")
"""Towers of powers, large exponents and factorials: sympy computes their digits."""
_BRACES = re.compile(r"([\^_])\{([0-9A-Za-z])\}")


def are_equal(answer: str, truth: str, tolerance: float) -> bool:
    """Whether the expressions have one value or one spelling."""
    if normalize_latex(answer) == normalize_latex(truth) != "":
        return True
    value, wanted = parse_number(answer), parse_number(truth)
    if value is not None and wanted is not None:
        return are_close(value, wanted, tolerance)
    return has_math_verify() and _verify(answer, truth)


def normalize_latex(text: str) -> str:
    """The expression in one spelling: without spacing, ``\\dfrac`` as ``\\frac``, ``x^{2}`` as
    ``x^2``."""
    text = _SPACING.sub("", _TEXT.sub(r"\1", text))
    text = _SHORT_FRACTION.sub(r"\\frac{\1}{\2}", _FRACTION.sub(r"\\frac", text))
    return _BRACES.sub(r"\1\2", _DEGREES.sub("", text)).rstrip(".")


@cache
def has_math_verify() -> bool:
    """Whether ``pip install grubrics-tui[math]`` was."""
    return find_spec("math_verify") is not None


def _verify(answer: str, truth: str) -> bool:
    """Its own time limits use signals, which threads do not have: the caller's process has one."""
    from math_verify import parse, verify

    if len(answer) > LONGEST or (_COSTLY.search(answer) and not _COSTLY.search(truth)):
        return False
    gold = parse(f"${truth}$", parsing_timeout=None)
    parsed = parse(f"${answer}$", parsing_timeout=None)
    return bool(gold) and bool(verify(gold, parsed, timeout_seconds=None))
