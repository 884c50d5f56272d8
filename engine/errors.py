"""Errors a person caused and can mend: one clear line, exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(Exception):
    """Unusable input. The message is one line that names the file, key and value at fault."""


def nearest(word: str, options: Iterable[str]) -> str | None:
    """The option spelled most like ``word``, or None when nothing is close."""
    close = difflib.get_close_matches(word, list(options), n=1, cutoff=0.6)
    return close[0] if close else None


def unknown_name(what: str, given: str, options: Iterable[str]) -> UsageError:
    """An error for a name that is not among ``options``, with the nearest right one."""
    known = list(options)
    close = nearest(given, known)
    if close is not None:
        return UsageError(f"{what} '{given}' does not exist; did you mean '{close}'?")
    shown = ", ".join(sorted(known)[:8]) or "none"
    return UsageError(f"{what} '{given}' does not exist; known: {shown}")
