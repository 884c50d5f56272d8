"""A log format of another package: a defect of it is one line that names the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.base.errors import UsageError
from engine.logs.formats.format import About, Format, News, Reader, Sample
from engine.run.history.train_log import Step


class PluginFormat(Format):
    """Passes on to ``log_format`` of ``source``, a package and its version.

    A format that fails while it recognizes a file does not match it: the file may be of another
    format. One that fails while it reads raises UsageError.
    """

    def __init__(self, log_format: Format, source: str) -> None:
        self._format, self._source = log_format, source
        self.key, self.name = log_format.key, log_format.name
        self.is_console, self.covers = log_format.is_console, log_format.covers
        self.is_general = log_format.is_general
        self.file_names, self.folder_names = log_format.file_names, log_format.folder_names
        self.step_pattern = log_format.step_pattern

    def matches(self, sample: Sample) -> bool:
        with self._no_match():
            return bool(self._format.matches(sample))
        return False

    def may_become(self, sample: Sample) -> bool:
        with self._no_match():
            return bool(self._format.may_become(sample))
        return False

    def matches_folder(self, folder: Path) -> bool:
        with self._no_match():
            return bool(self._format.matches_folder(folder))
        return False

    def open(self, path: Path) -> Reader:
        with self.named_failure(path):
            return PluginReader(self._format.open(path), self, path)

    def run_name(self, given: Path, path: Path) -> str:
        with self.named_failure(path):
            return self._format.run_name(given, path)

    def console_of(self, path: Path) -> Path | None:
        with self.named_failure(path):
            return self._format.console_of(path)

    @contextmanager
    def named_failure(self, path: Path) -> Iterator[None]:
        """Turn an exception of the package into a UsageError that names it."""
        try:
            yield
        except (UsageError, OSError):
            raise
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise UsageError(
                f"{path}: log format '{self.key}' of {self._source} failed: {text}"
            ) from error

    @contextmanager
    def _no_match(self) -> Iterator[None]:
        try:
            yield
        except UsageError:
            raise
        except Exception:
            return


class PluginReader(Reader):
    """A reader of such a format."""

    def __init__(self, reader: Reader, log_format: PluginFormat, path: Path) -> None:
        self._reader, self._format, self._path = reader, log_format, path

    def poll(self, at_most: int) -> News:
        with self._format.named_failure(self._path):
            return self._reader.poll(at_most)

    def about(self) -> About:
        with self._format.named_failure(self._path):
            return self._reader.about()

    def last_step(self) -> Step | None:
        with self._format.named_failure(self._path):
            return self._reader.last_step()

    def rest(self) -> list[Step]:
        try:
            return self._reader.rest()
        except Exception:
            return []  # What is torn need not be parsed.
