"""Names of data sets on the Hugging Face hub, and the files that were read of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from engine.base.errors import UsageError, shorten
from engine.base.files import content_hash
from engine.base.records import SUFFIXES
from engine.base.text import count_of
from engine.data.hub_splits import Found
from engine.recipe.places import is_hub_name

PREFIX = "hf://datasets/"
# A path writes one slash where an address has two.
_ADDRESS = re.compile(
    r"hf:/{1,2}datasets/(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/]+))?(?:/(?P<file>.+))?"
)


class HubError(UsageError):
    """The hub does not give a data set, and the cache does not have it."""


class UnknownDataError(HubError):
    """Neither the hub nor the cache shows that there is such a data set."""


@dataclass(frozen=True)
class HubSource:
    """A split of a data set on the hub, or one ``data_file`` of it.

    Without ``config``, it is the default or only one; without ``split``, ``train`` or the only one.
    ``revision``: a branch, tag or commit (default: the main branch).
    """

    repo: str
    split: str | None = None
    config: str | None = None
    data_file: str | None = None
    revision: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The data set of ``hf://datasets/OWNER/NAME[@REVISION][/FILE]``, or of ``OWNER/NAME``.

        None for another text, and for ``OWNER/NAME`` where it may be a file: its ending is that of
        one, or there is a folder OWNER. UsageError for another ``hf:`` address.
        """
        if not text.startswith("hf:/"):
            is_file = text.lower().endswith((*SUFFIXES, ".py"))
            return None if is_file or not is_hub_name(text) else cls(text)
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise UsageError(f"{shorten(text)}: write {PREFIX}OWNER/NAME, or OWNER/NAME")
        revision = unquote(match["revision"]) if match["revision"] else None
        return cls(match["repo"], data_file=match["file"], revision=revision)


@dataclass(frozen=True)
class HubFile:
    """A file in the hub's cache; ``address`` names its data set, commit and path."""

    path: Path
    address: str


@dataclass(frozen=True)
class HubData:
    """The files of a split, all of one ``commit``."""

    repo: str
    commit: str
    found: Found
    files: tuple[HubFile, ...]

    def __str__(self) -> str:
        parts = {"config": self.found.config, "split": self.found.split}
        chosen = "".join(f", {kind} {name}" for kind, name in parts.items() if name)
        files = count_of(len(self.files), "file")
        return f"{self.repo} at {self.commit[:12]}{chosen} ({files})"

    def fingerprints(self) -> dict[str, str]:
        """Content hashes by address."""
        return {file.address: content_hash(file.path) for file in self.files}

    def to_json(self) -> dict[str, Any]:
        return {
            "repo": self.repo,
            "commit": self.commit,
            "config": self.found.config or None,
            "split": self.found.split or None,
            "files": list(self.found.files),
        }
