"""Errors a person caused and can mend: one clear line, exit code 2."""

from __future__ import annotations

import difflib
import errno
import io
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from engine.base.masking import mask_text


class UsageError(Exception):
    """Unusable input. The message is one line that names the file, key and value at fault.

    Secrets in it are masked: what a person typed at the wrong place ends in the logs of a CI.
    """

    def __init__(self, message: str) -> None:
        super().__init__(mask_text(message))


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


def guarded(main: Callable[[], int]) -> int:
    """Run a command's ``main``; what its user or disk caused becomes one line and exit code 2.

    A reader of a pipe that has seen enough is no error. What the terminal's encoding lacks is
    replaced.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return main()
    except BrokenPipeError:
        # Python would complain about the pipe once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UsageError as error:
        return _refuse(str(error))
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("engine", "grubrics_tui"):
            raise
        return _refuse(f"an installed package cannot be imported: {error}")
    except RecursionError:
        return _refuse("the input is nested too deeply")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        # What is not followed on purpose, the system calls "too many levels".
        is_link = error.errno == errno.ELOOP and Path(error.filename or "").is_symlink()
        why = "is a symbolic link; name the file it leads to" if is_link else error.strerror
        return _refuse(f"{where}{why or error}")
    except UnicodeError as error:
        return _refuse(f"text that cannot be read or written here: {error}")


def _refuse(line: str) -> int:
    print(f"error: {_inert(' '.join(mask_text(line).split()))}", file=sys.stderr)
    return 2


def _inert(text: str) -> str:
    """What a person typed comes back in errors: escape sequences must not act on the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
