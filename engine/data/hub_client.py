"""Ask the hub for a data set, and download its files into the hub's cache: with huggingface_hub."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

from huggingface_hub import HfApi, get_cached_repo_tree, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    HFValidationError,
    LocalEntryNotFoundError,
)
from tqdm.auto import tqdm

from engine.base.errors import UsageError, shorten, with_advice
from engine.base.masking import mask_url
from engine.base.quantities import format_count, format_hub_size
from engine.config import hub
from engine.data.hub_source import (
    PREFIX,
    Found,
    HubData,
    HubError,
    HubFile,
    HubSource,
    UnknownDataError,
    find_file,
    find_split,
)

_CARD = "README.md"
_COMMIT = re.compile(r"[0-9a-f]{40}")

Tell = Callable[[str], None]


def fetch(source: HubSource, env: Mapping[str, str], tell: Tell) -> HubData:
    """See ``engine.data.hub_data.fetch``."""
    client = _Client(source, env)
    if (variable := hub.is_offline(env)) is not None:
        return client.read_cache(f"{variable} disables downloads")
    if _COMMIT.fullmatch(source.revision or ""):
        try:
            return client.find_cached()
        except _NotCachedError:
            pass
    if (problem := hub.check_endpoint(env)) is not None:
        raise client.error(problem)
    try:
        return client.download(tell)
    except AnswerError as error:
        answer = error.answer
    if answer.state not in ("unreachable", "busy"):
        raise client.error(answer)
    answers = "cannot be reached" if answer.state == "unreachable" else "does not serve it"
    reason = f"{mask_url(hub.endpoint(env))} {answers} ({answer.detail})"
    data = client.read_cache(reason)
    tell(f"note: {source.repo} is read from the cache, at {data.commit[:12]}: {reason}")
    return data


class _NotCachedError(Exception):
    """Something of the split is not in the cache; the message says what, or is empty."""


class _Place(TypedDict):
    repo_type: Literal["dataset"]
    cache_dir: Path


@dataclass(frozen=True)
class _Client:
    """A data set as huggingface_hub gives it with the endpoint, token and cache of ``env``.

    The variables are passed on: the library itself reads them only when it is imported.
    """

    source: HubSource
    env: Mapping[str, str]

    def read_cache(self, reason: str) -> HubData:
        """The files of the split in the cache.

        HubError with ``reason``, why the hub does not give them, if one is missing.
        """
        try:
            return self.find_cached()
        except _NotCachedError as error:
            part = f" ({error})" if str(error) else ""
            problem = f"{self._name} is not in the cache{part}, and {reason}"
            kind = HubError if part else UnknownDataError
            advice = "With a network, the same command downloads it"
            raise kind(with_advice(problem, advice)) from None

    def find_cached(self) -> HubData:
        """The files of the split in the cache. _NotCachedError if one is missing."""
        source = self.source
        try:
            snapshot = snapshot_download(
                source.repo,
                revision=source.revision,
                allow_patterns=[_CARD],
                local_files_only=True,
                **self._place,
            )
            folder = Path(snapshot)
            found = self._find(folder)
        except HFValidationError as error:
            raise self._misnamed(error) from error
        except (LocalEntryNotFoundError, CachedRepoTreeNotFoundError):
            raise _NotCachedError from None
        if missing := _missing(folder, found):
            count = format_count(len(found.files), "file")
            raise _NotCachedError(f"{len(missing)} of {count} missing")
        return self._data(folder, found)

    def download(self, tell: Tell) -> HubData:
        """The files of the split, of the newest commit of the revision.

        ``tell`` gets a line before a download. AnswerError if the hub does not give them.
        """
        folder = self._open()
        found = self._find(folder)
        if missing := _missing(folder, found):
            sizes = self._sizes(folder)
            size = format_hub_size(sum(sizes[name] for name in missing))
            files = format_count(len(missing), "file")
            tell(f"downloading {files} of {self.source.repo} ({size})")
        for name in missing:
            self._download_file(name, folder.name)
        return self._data(folder, found)

    def _open(self) -> Path:
        """The folder of the newest commit in the cache, with its card and list of files."""
        repo, revision, access = self.source.repo, self.source.revision, remote(self.env)
        try:
            # Alone, the second call would take a commit of the cache for an answer of the hub.
            HfApi(**access).dataset_info(repo, revision=revision, timeout=hub.PATIENCE_S)
            snapshot = snapshot_download(
                repo,
                revision=revision,
                allow_patterns=[_CARD],
                tqdm_class=NoBar,
                **self._place,
                **access,
            )
        except Exception as error:  # The library's transports have errors of their own.
            raise self._failure(error) from error
        return Path(snapshot)

    def _download_file(self, name: str, commit: str) -> None:
        try:
            hf_hub_download(
                self.source.repo, name, revision=commit, **self._place, **remote(self.env)
            )
        except Exception as error:  # As above.
            failure = self._failure(error)
            if isinstance(failure, AnswerError) and failure.answer.state == "unreachable":
                problem = f"the download of {name} of {self.source.repo} broke off ({failure})"
                advice = "Run the command again: complete files are kept"
                raise HubError(with_advice(problem, advice)) from error
            raise failure from error

    def _find(self, folder: Path) -> Found:
        card, paths, source = folder / _CARD, list(self._sizes(folder)), self.source
        text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
        try:
            if source.data_file is not None:
                return find_file(paths, source.data_file)
            return find_split(paths, text, source.config, source.split, source.revision or "")
        except UsageError as error:
            raise UsageError(f"{self._name} {error}") from None

    def _sizes(self, folder: Path) -> dict[str, int]:
        """The bytes of every file of the commit, by path."""
        tree = get_cached_repo_tree(self.source.repo, revision=folder.name, **self._place)
        return {file.path: file.size for file in tree}

    def _data(self, folder: Path, found: Found) -> HubData:
        repo, commit = self.source.repo, folder.name
        files = [HubFile(folder / name, f"{PREFIX}{repo}@{commit}/{name}") for name in found.files]
        return HubData(repo, commit, found, tuple(files))

    @property
    def _place(self) -> _Place:
        return {"repo_type": "dataset", "cache_dir": hub.hub_cache(self.env)}

    @property
    def _name(self) -> str:
        at = f" at {shorten(self.source.revision)}" if self.source.revision else ""
        return f"the data set {self.source.repo}{at}"

    def error(self, answer: hub.Answer) -> HubError:
        """The error for a data set that the hub does not give."""
        page = f"datasets/{self.source.repo}"
        problem, advice = hub.explain(answer, page, "data set", self.env)
        kind = UnknownDataError if answer.state == "missing" else HubError
        return kind(with_advice(f"{self._name} {problem}", advice[0].upper() + advice[1:]))

    def _failure(self, error: Exception) -> Exception:
        """What to raise for an error of the library. One of the disk stays what it is."""
        failure = read_failure(error, self.env, self._place["cache_dir"])
        return self._misnamed(failure) if isinstance(failure, HFValidationError) else failure

    def _misnamed(self, error: HFValidationError) -> UnknownDataError:
        name = shorten(self.source.repo)
        return UnknownDataError(f"'{name}' is no name of the hub: {line(error)}")


def _missing(folder: Path, found: Found) -> list[str]:
    return [name for name in found.files if not (folder / name).is_file()]


class Remote(TypedDict):
    """Endpoint and token. They are passed on: the library reads variables when it is imported."""

    endpoint: str
    token: str | Literal[False]


class AnswerError(Exception):
    """The hub does not give what was asked for."""

    def __init__(self, answer: hub.Answer) -> None:
        super().__init__(answer.detail)
        self.answer = answer


class NoBar(tqdm):
    """A bar that is never drawn."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "disable": True})


def remote(env: Mapping[str, str]) -> Remote:
    """Return the endpoint and the token of ``env``."""
    token = hub.find_token(env)
    return {"endpoint": hub.endpoint(env), "token": token[0] if token else False}


def read_failure(error: Exception, env: Mapping[str, str], folder: Path) -> Exception:
    """Return what to raise for an error of the library: mostly an AnswerError.

    An error of the disk stays what it is, with ``folder`` for a missing file name, and so does an
    error about an invalid name.
    """
    if isinstance(error, HFValidationError):
        return error
    cause = error.__cause__ if isinstance(error, LocalEntryNotFoundError) else error
    if (response := getattr(cause, "response", None)) is not None:
        return AnswerError(_read_refusal(response.status_code, response.headers, env))
    if isinstance(cause, OSError) and cause.errno is not None:
        return OSError(cause.errno, cause.strerror, str(cause.filename or folder))
    is_answer = isinstance(cause, ValueError | LookupError | TypeError | AssertionError)
    state: hub.State = "no_hub" if is_answer else "unreachable"
    return AnswerError(hub.Answer(state, line(cause or error)))


def _read_refusal(status: int, headers: hub.Headers, env: Mapping[str, str]) -> hub.Answer:
    is_own = hub.endpoint(env) != hub.DEFAULT_ENDPOINT
    if status == 404 and is_own and not headers.get("X-Error-Code"):
        return hub.Answer("no_hub", str(status))
    return hub.read_refusal(status, headers, hub.find_token(env) is not None)


def line(error: BaseException) -> str:
    """Return the message of an error in one line, without credentials in URLs."""
    return mask_url(shorten(" ".join(str(error).split()) or type(error).__name__, 160))
