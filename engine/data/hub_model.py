"""Download a model of the Hugging Face hub, with huggingface_hub: into its cache or into a folder.

Only what loading the model reads is downloaded: the files at the top of the repository, with one
format of the weights. Complete files stay. Of a file whose download broke off, the library keeps
nothing; it takes up a lost connection by itself where it ended.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from msgspec import Struct

from engine.base.errors import UsageError, shorten, with_advice
from engine.base.masking import mask_url
from engine.base.quantities import format_count, format_hub_size
from engine.config import hub
from engine.config.places import MAKE_TINY_WORLD, TINY_WORLD, local_folder
from engine.data.hub_client import AnswerError, NoBar, line, read_failure, remote
from engine.run.checkpoints.model_folder import missing_parts

_FORMATS = (".safetensors", ".bin")
"""The formats of weights that transformers loads, the preferred one first."""
_OTHER_FORMATS = (".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".ot", ".pickle")
# The same weights in the layout of Mistral's own programs.
_SECOND_COPY = "consolidated"
_SUBFOLDERS = ("additional_chat_templates",)
_WITHOUT_HUB = f"Without the hub, {MAKE_TINY_WORLD} makes a tiny model: {TINY_WORLD}/model"

Report = Callable[[int, int, str], None]
"""Takes the bytes that are there, all bytes, and the file that is downloaded."""


_NAMES = {"name": "model", "total_bytes": "bytes", "downloaded": "downloaded_files"}


class HubModel(Struct, frozen=True, rename=_NAMES):
    """A model on this disk. Without a ``commit``, the hub was not asked about it."""

    name: str
    folder: Path
    commit: str | None = None
    files: int = 0
    total_bytes: int = 0
    downloaded: int = 0
    """Files that were not complete before."""
    note: str | None = None


def fetch_model(
    name: str,
    env: Mapping[str, str],
    *,
    folder: Path | None = None,
    revision: str | None = None,
    tell: Callable[[str], None],
    report: Report,
) -> HubModel:
    """Download what is missing of the model ``name``, and return where it is.

    ``folder`` becomes the model's folder (default: the hub's cache). ``tell`` gets a line before
    the download, ``report`` the progress. UsageError, with what to do, for a model that the hub
    does not give and that is not on this disk.
    """
    if re.fullmatch(r"[\w.-]+", name):
        raise UsageError(
            f"'{shorten(name)}' has no owner: give OWNER/NAME, such as Qwen/Qwen2.5-0.5B-Instruct. "
            f"{_WITHOUT_HUB}"
        )
    download = _Download(name, env, folder, revision)
    if (variable := hub.is_offline(env)) is not None:
        return download.find_local(f"{variable} disables downloads")
    if (problem := hub.check_endpoint(env)) is not None:
        raise download.error(problem)
    try:
        wanted = download.plan()
    except AnswerError as error:
        if error.answer.state not in ("unreachable", "busy"):
            raise download.error(error.answer) from error
        verb = "cannot be reached" if error.answer.state == "unreachable" else "does not serve it"
        host = mask_url(hub.endpoint(env))
        return download.find_local(f"{host} {verb} ({error.answer.detail})")
    return download.run(wanted, tell, report)


@dataclass(frozen=True)
class _File:
    name: str
    size: int
    path: Path | None
    """Where it is on this disk, if it is there."""


@dataclass(frozen=True)
class _Wanted:
    """The files of a commit, the smallest first."""

    commit: str
    files: tuple[_File, ...]


@dataclass(frozen=True)
class _Download:
    name: str
    env: Mapping[str, str]
    folder: Path | None
    revision: str | None

    def find_local(self, reason: str) -> HubModel:
        """The model on this disk. UsageError with ``reason`` if it is not complete."""
        folder = self.folder or local_folder(self.name, self.env)
        missing = missing_parts(folder) if folder is not None and folder.is_dir() else ["files"]
        if folder is None or missing or self.revision is not None:
            place = f"in {self.folder}" if self.folder else "in the hub's cache"
            what = f" at {shorten(self.revision)}" if self.revision else ""
            problem = f"{self.name}{what} is not known to be complete {place}, and {reason}"
            advice = "With a network, the same command downloads it"
            raise UsageError(with_advice(problem, f"{advice}. {_WITHOUT_HUB}"))
        return HubModel(self.name, folder, note=f"not compared with the hub: {reason}")

    def plan(self) -> _Wanted:
        """The files of the newest commit, and which of them are there. AnswerError."""
        try:
            info = HfApi(**remote(self.env)).model_info(
                self.name, revision=self.revision, files_metadata=True, timeout=hub.PATIENCE_S
            )
        except Exception as error:  # The library's transports have errors of their own.
            raise self._failure(error) from error
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        if not (names := choose_files([*sizes])):
            raise self.error(hub.Answer("empty"))
        commit = str(info.sha)
        files = (_File(name, sizes[name], self._find(name, commit)) for name in names)
        return _Wanted(commit, tuple(sorted(files, key=lambda file: file.size)))

    def _find(self, name: str, commit: str) -> Path | None:
        if self.folder is not None:
            path = self.folder / name
            return path if path.is_file() else None
        cache = hub.hub_cache(self.env)
        found = try_to_load_from_cache(self.name, name, cache_dir=cache, revision=commit)
        return Path(found) if isinstance(found, str) else None

    def run(self, wanted: _Wanted, tell: Callable[[str], None], report: Report) -> HubModel:
        """Download what is missing. UsageError before anything is written if it cannot be."""
        files, commit = wanted.files, wanted.commit
        missing = [file for file in files if file.path is None]
        total, needed = _bytes(files), _bytes(missing)
        self._require_same_files(files)
        if missing:
            self._require_access()
            self._require_space(needed)
            there = f"{len(files) - len(missing)} of {format_count(len(files), 'file')} there; "
            tell(
                f"downloading {format_count(len(missing), 'file')} of {self.name} at {commit[:12]} "
                f"({there}{format_hub_size(needed)} of {format_hub_size(total)})"
            )
        done = total - needed
        for file in missing:
            self._download(file, commit, partial(_report_more, report, done, total))
            done += file.size
        folder = self.folder or hub.snapshots(self.name, self.env) / commit
        parts = missing_parts(folder)
        lacks = f"it has no {' and no '.join(parts)}: it cannot be trained" if parts else None
        return HubModel(self.name, folder, commit, len(files), total, len(missing), lacks)

    def _download(self, file: _File, commit: str, report: Callable[[int, str], None]) -> None:
        most = 0

        class Bar(NoBar):
            """One of the bars that the library makes for a file: for bytes received, or written."""

            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                self.bytes = 0
                self.update(options.get("initial"))

            def update(self, n: float | None = 1) -> None:
                nonlocal most
                self.bytes += int(n or 0)
                most = min(file.size, max(most, self.bytes))
                report(most, file.name)

        try:
            hf_hub_download(
                self.name,
                file.name,
                revision=commit,
                tqdm_class=Bar,
                cache_dir=hub.hub_cache(self.env),
                local_dir=self.folder,
                **remote(self.env),
            )
        except Exception as error:  # As above.
            failure = self._failure(error)
            if not isinstance(failure, AnswerError):
                raise failure from error
            if failure.answer.state != "unreachable":
                raise self.error(failure.answer) from error
            problem = f"the download of {file.name} of {self.name} broke off ({failure})"
            advice = "Run the command again: complete files are kept"
            raise UsageError(with_advice(problem, advice)) from error

    def _require_same_files(self, files: Sequence[_File]) -> None:
        """UsageError for a folder with another model, or with files that somebody changed."""
        for file in files:
            if self.folder is not None and file.path and file.path.stat().st_size != file.size:
                raise UsageError(
                    f"{self.folder} has a {file.name} that differs from that of {self.name}. "
                    "Choose another folder, or delete this one"
                )

    def _require_access(self) -> None:
        """UsageError for a model whose list of files is public, but not the files."""
        answer = hub.ask(self.name, self.env)
        if answer.state in ("gated", "denied", "refused"):
            raise self.error(answer)

    def _require_space(self, needed: int) -> None:
        place = (self.folder or hub.hub_cache(self.env)).absolute()
        disk = next(path for path in (place, *place.parents) if path.exists())
        free = shutil.disk_usage(disk).free
        if free < needed:
            need, left = format_hub_size(needed), format_hub_size(free)
            problem = f"{self.name} needs {need}, and {disk} has {left}"
            advice = "Free space, or choose another disk with --to or HF_HOME"
            raise UsageError(with_advice(problem, advice))

    def error(self, answer: hub.Answer) -> UsageError:
        """The error for a model that the hub does not give."""
        host = mask_url(hub.endpoint(self.env))
        if answer.state == "empty":
            problem = f"has no config.json on {host}"
            advice = "choose a model in the transformers format"
        else:
            problem, advice = hub.explain(answer, self.name, "model", self.env)
        return UsageError(with_advice(f"{self.name} {problem}", advice[0].upper() + advice[1:]))

    def _failure(self, error: Exception) -> Exception:
        failure = read_failure(error, self.env, self.folder or hub.hub_cache(self.env))
        if isinstance(failure, HFValidationError):
            return UsageError(f"'{shorten(self.name)}' is no name of the hub: {line(failure)}")
        return failure


def choose_files(names: Sequence[str]) -> list[str]:
    """Return the files that loading a model reads; none without a ``config.json``."""
    if "config.json" not in names:
        return []
    tops = [name for name in names if _is_read(PurePosixPath(name))]
    formats = [end for end in _FORMATS if any(name.endswith(end) for name in tops)]
    unread = tuple(end for end in (*_FORMATS, *_OTHER_FORMATS) if end not in formats[:1])
    unread += tuple(f"{end}.index.json" for end in formats[1:])
    return [name for name in tops if not name.endswith(unread)]


def _is_read(path: PurePosixPath) -> bool:
    if len(path.parts) > 1:
        return path.parts[0] in _SUBFOLDERS
    is_copy = path.name.startswith(_SECOND_COPY) and path.suffix in _FORMATS
    return not path.name.startswith(".") and not is_copy


def _report_more(report: Report, before: int, total: int, more: int, file: str) -> None:
    report(before + more, total, file)


def _bytes(files: Sequence[_File]) -> int:
    return sum(file.size for file in files)
