"""Errors that the user can correct: one line, exit code 2."""

from __future__ import annotations

import difflib
import errno
import io
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from engine.base.masking import mask_text

_LONGEST_NAME = 200
"""Characters of an unknown name in an error."""
_MOST_NAMED = 8
_LONGEST_WORD = 500
_LONGEST_LINE = 4000


class UsageError(Exception):
    """Unusable input. The message is one line that names the file, key and value at fault.

    Secrets in it are masked: a secret typed in the wrong place would end in the logs of a CI.
    """

    def __init__(self, message: str) -> None:
        super().__init__(mask_text(message))


class PackageError(ImportError):
    """A package cannot be imported. ``fix`` is the command that installs a working one."""

    def __init__(self, package: str, error: Exception) -> None:
        text = mask_text(" ".join(str(error).split()))[:300]
        reason = text if isinstance(error, ImportError) else f"{type(error).__name__}: {text}"
        super().__init__(f"{package} cannot be imported: {reason}", name=package)
        self.fix = f"pip install --upgrade --force-reinstall {package}"


def nearest(word: str, options: Iterable[str]) -> str | None:
    """The option spelled most like ``word``, or None when nothing is close."""
    close = difflib.get_close_matches(word, list(options), n=1, cutoff=0.6)
    return close[0] if close else None


def shorten(text: str, limit: int = 80) -> str:
    """Cut the middle out of a text longer than ``limit`` characters; secrets in it are masked.

    Half of a secret would no longer be recognized as one.
    """
    text = mask_text(text)
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail - 1]}…{text[-tail:]}"


def unknown_name(
    kind: str, name: str, options: Iterable[str], *, first: Iterable[str] = (), all_by: str = ""
) -> UsageError:
    """An error for a name that is not among ``options``, with the nearest one that is.

    If none is near, it lists those that contain the name, those of ``first``, and others, up to
    eight. ``all_by`` is the command that lists all.
    """
    names = list(options)
    problem = f"{kind} '{shorten(name, _LONGEST_NAME)}' does not exist"
    listing = f". All: {all_by}" if all_by else ""
    if (close := nearest(name, names)) is not None:
        question = f"{problem}; did you mean '{close}'?"
        return UsageError(with_advice(question, listing.removeprefix(". ")))
    known, part = set(names), name.lower()
    alike = sorted(option for option in known if part and part in option.lower())
    usual = [option for option in first if option in known]
    ordered = [*dict.fromkeys([*alike, *usual, *sorted(known)])]
    shown = ", ".join(ordered[:_MOST_NAMED]) or "none"
    if (hidden := len(ordered) - _MOST_NAMED) > 0:
        shown += f" and {hidden} more{listing}"
    return UsageError(f"{problem}; known: {shown}")


def with_advice(problem: object, advice: str) -> str:
    """Two sentences; ``problem`` may be a question or have its full stop."""
    text = str(problem)
    if not advice:
        return text
    return f"{text} {advice}" if text.endswith((".", "?", "!")) else f"{text}. {advice}"


def guarded(main: Callable[[], int]) -> int:
    """Run a command's ``main``; an error of its user or disk becomes one line and exit code 2.

    A reader that closes the pipe early is no error: exit code 0, or that of ``main`` if it ended.
    If the terminal is gone, the exit code is 129, as if the hangup had ended the program.
    Characters that the terminal's encoding lacks are replaced.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return _refusing(main)
    finally:
        _discard_unread()


def _refusing(main: Callable[[], int]) -> int:
    try:
        return main()
    except BrokenPipeError as error:
        return 0 if _discard_unread() else _refuse(error.strerror or "broken pipe")
    except UsageError as error:
        return _refuse(str(error))
    except PackageError as error:
        return _refuse(f"{error} [fix: {error.fix}]")
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("engine", "grubrics_tui"):
            raise
        package = error.name or _failing_package(error) or "an installed package"
        return _refuse(f"{package} cannot be imported: {error}")
    except RecursionError:
        return _refuse("the input is nested too deeply")
    except OSError as error:
        if _discard_unread() == signal.SIGHUP:
            return 128 + signal.SIGHUP
        file = f"{error.filename}: " if error.filename else ""
        # The system's text for a link that is not followed on purpose is "too many levels".
        is_link = error.errno == errno.ELOOP and Path(error.filename or "").is_symlink()
        reason = "is a symbolic link; name its target" if is_link else error.strerror
        return _refuse(f"{file}{reason or error}")
    except UnicodeError as error:
        return _refuse(f"text that cannot be read or written here: {error}")


def find_lost_reader(stream: TextIO | None) -> signal.Signals | None:
    """The signal for an output that nobody can read any more: SIGPIPE, or SIGHUP for a terminal.

    The system sends neither to a program whose parent ignores it, as with ``nohup``.
    """
    with suppress(OSError, ValueError, AttributeError):
        poll = select.poll()
        poll.register(stream.fileno(), select.POLLOUT)  # type: ignore[union-attr]
        for _, events in poll.poll(0):
            if events & select.POLLERR:
                return signal.SIGHUP if events & select.POLLHUP else signal.SIGPIPE
    return None


def _discard_unread() -> signal.Signals | None:
    """Drop output that nobody can read any more, and return why, if there is such output.

    Otherwise Python would flush it at exit, print a traceback, and exit with 120.
    """
    reasons = []
    for stream in (sys.stdout, sys.stderr):
        # A full disk is reported by Python at exit; a closed stream has nothing to drop.
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
        if (reason := find_lost_reader(stream)) is not None:
            reasons.append(reason)
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return reasons[0] if reasons else None


def _failing_package(error: ImportError) -> str | None:
    """Return the package whose code raised the error; None for this project's code."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    return None if package in ("engine", "grubrics_tui", "importlib") else package


def tell(line: str) -> None:
    """Print a line beside the result on stderr, such as ``note: ...``; secrets in it are masked."""
    print(mask_text(line), file=sys.stderr)


def _refuse(line: str) -> int:
    text = " ".join(shorten(word, _LONGEST_WORD) for word in mask_text(line).split())
    # Errors quote what the user typed: escape sequences in it must not act on the terminal.
    inert = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    print(f"error: {shorten(inert, _LONGEST_LINE)}", file=sys.stderr)
    return 2
