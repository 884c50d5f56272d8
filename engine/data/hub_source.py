"""Names of data sets on the Hugging Face hub, and the files that were read of one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath
from typing import Any, Self
from urllib.parse import unquote

import yaml

from engine.base.errors import UsageError, shorten
from engine.base.files import content_hash
from engine.base.quantities import format_count
from engine.base.records import SUFFIXES
from engine.config.places import is_hub_name

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
        files = format_count(len(self.files), "file")
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


CONVERTED = "refs/convert/parquet"
"""The revision with the hub's own parquet copy, in folders CONFIG/SPLIT."""
DEFAULT = "default"
_FORMATS = ((".parquet",), (".jsonl", ".json"), (".csv", ".tsv"))
_NO_DATA = (
    "config.json",
    "dataset_dict.json",
    "dataset_info.json",
    "dataset_infos.json",
)
_WORDS = {
    "train": "train|training",
    "validation": "validation|valid|dev|val",
    "test": "test|testing|eval|evaluation",
}
_BREAK = r"[-._ 0-9]"
_SHARD = re.compile(r"data/([^/]+?)-\d{5}-of-\d{5}[^/]*\.[^/]*")
_MOST_NAMED = 12

Splits = Mapping[str, tuple[str, ...]]
"""File names by split."""


@dataclass(frozen=True)
class Found:
    """A split with its files, in the order of their names, as paths in the data set."""

    config: str
    split: str
    files: tuple[str, ...]


def find_split(
    paths: Sequence[str], card: str, config: str | None, split: str | None, revision: str = ""
) -> Found:
    """Return the files of a split; ``paths`` are those of the data set, ``card`` its README.md.

    Without ``config``, it is the default or only one; without ``split``, ``train`` or the only one.
    UsageError, to follow the name of the data set, for an unknown or missing choice, with those
    that exist, and for files that are not read.
    """
    usable = sorted(path for path in paths if _may_be_data(path))
    listed = _listed_configs(card)
    if revision == CONVERTED:
        configs, default = _converted_configs(usable), None
    elif listed:
        configs = {name: _listed_splits(entry, usable) for name, entry in listed.items()}
        marked = [name for name, entry in listed.items() if entry.get("default") is True]
        default = next(iter(marked), DEFAULT if DEFAULT in configs else None)
    else:
        folders = _folders(usable)
        configs = {DEFAULT: _named_splits(usable), **folders}
        # The hub would mix the rows of all folders, which may be those of different data.
        default = DEFAULT if len(folders) < 2 else None
    _require_data(paths, configs)
    chosen = _choose("config", "--config-name", config, list(configs), default)
    splits = configs[chosen]
    name = _choose("split", "--split", split, list(splits), "train", f" in config {chosen}")
    return Found(chosen, name, _of_one_format(splits[name], splits))


def find_file(paths: Sequence[str], name: str) -> Found:
    """Return one file of the data set. UsageError for one that it lacks, or that is not read."""
    if name not in paths:
        names = _nearest_first(name, [path for path in paths if _may_be_data(path)])
        raise UsageError(f"has no file '{shorten(name)}'; it has {_format_names(names)}")
    return Found("", "", _of_one_format((name,), {}))


def _may_be_data(path: str) -> bool:
    """Whether the hub takes a file for data: no card, setting, hidden file or script."""
    parts = PurePosixPath(path).parts
    hidden = any(part.startswith((".", "__")) for part in parts)
    return not hidden and parts[-1] not in _NO_DATA and not path.endswith((".md", ".py"))


def _suffix(path: str) -> str:
    """The ending that says how a file is read: ``.jsonl``, but ``.jsonl.gz`` if it is packed."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(path).suffixes[-2:]]
    is_packed = len(suffixes) == 2 and suffixes[0] in SUFFIXES
    return "".join(suffixes if is_packed and suffixes[1] not in SUFFIXES else suffixes[-1:])


def _require_data(paths: Sequence[str], configs: Mapping[str, Splits]) -> None:
    """UsageError for a data set whose configs have no files: the hub once ran its script."""
    if any(files for splits in configs.values() for files in splits.values()):
        return
    scripts = [path for path in paths if path.endswith(".py") and "/" not in path]
    if scripts:
        raise UsageError(
            f"has no data files but a script ({_format_names(scripts)}), which is not executed. "
            f"Read the hub's parquet copy, if it has one: --revision {CONVERTED}; or run the "
            "script yourself and give the files that it writes"
        )
    raise UsageError(f"has no data files; it has {_format_names(paths)}")


def _of_one_format(files: Sequence[str], splits: Splits) -> tuple[str, ...]:
    """The files of the format that most files of the config have, as the hub reads them.

    The same rows may be there in several formats.
    """
    everything = [path for group in splits.values() for path in group] or files
    count = Counter(_suffix(path) for path in everything)
    by_files = sorted(_FORMATS, key=lambda suffixes: -sum(count[suffix] for suffix in suffixes))
    for suffixes in by_files:
        if chosen := tuple(path for path in files if _suffix(path) in suffixes):
            return chosen
    endings = _format_names(sorted({_suffix(path) or path for path in files}))
    raise UsageError(
        f"has data in files that are not read ({endings}), only {', '.join(SUFFIXES)}. "
        f"Read the hub's parquet copy, if it has one: --revision {CONVERTED}"
    )


def _choose(
    kind: str,
    option: str,
    name: str | None,
    known: Sequence[str],
    default: str | None,
    where: str = "",
) -> str:
    if name is not None and name in known:
        return name
    if name is None and default is not None and default in known:
        return default
    if name is None and len(known) == 1:
        return known[0]
    if name is None:
        raise UsageError(f"has several {kind}s{where}. Choose one: {option} {' or '.join(known)}")
    names = _format_names(_nearest_first(name, known))
    raise UsageError(f"has no {kind} '{shorten(name)}'{where}; it has {names}")


def _nearest_first(word: str, names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: -SequenceMatcher(None, word, name).ratio())


def _format_names(names: Sequence[str]) -> str:
    shown = ", ".join(map(shorten, names[:_MOST_NAMED])) or "none"
    more = len(names) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _listed_configs(card: str) -> dict[str, dict[str, Any]]:
    """The entries of ``configs`` in the card by name. UsageError for a card that is not YAML."""
    parts = re.split(r"^---[ \t]*\r?$", card, maxsplit=2, flags=re.MULTILINE)
    if len(parts) < 3 or parts[0].strip("\ufeff \r\n"):
        return {}
    try:
        value = yaml.load(parts[1], getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"has a README.md whose head is not YAML: {shorten(reason, 160)}"
        ) from None
    entries = value.get("configs") if isinstance(value, dict) else None
    named = [entry for entry in entries or () if isinstance(entry, dict)]
    return {str(entry.get("config_name", DEFAULT)): entry for entry in named}


def _listed_splits(entry: Mapping[str, Any], paths: Sequence[str]) -> Splits:
    folder = str(entry.get("data_dir") or "").removeprefix("./").strip("/")
    inside = [path for path in paths if not folder or path.startswith(f"{folder}/")]
    if "data_files" not in entry:
        return _named_splits(inside, folder)
    patterns = _patterns(entry["data_files"])
    prefix = f"{folder}/" if folder else ""
    splits = {}
    for name, globs in patterns.items():
        matches = [_glob_pattern(prefix + glob.removeprefix("./")) for glob in globs]
        files = [path for path in paths if any(match.fullmatch(path) for match in matches)]
        splits[name] = tuple(files)
    return splits


def _patterns(value: Any) -> dict[str, list[str]]:
    """Patterns by split of ``data_files``: a pattern, a list, or ``{split, path}`` in a list."""
    if isinstance(value, Mapping):
        return {str(split): _texts(paths) for split, paths in value.items()}
    patterns: dict[str, list[str]] = {}
    for item in value if isinstance(value, list) else [value]:
        split, paths = "train", item
        if isinstance(item, Mapping):
            split, paths = str(item.get("split", "train")), item.get("path")
        patterns.setdefault(split, []).extend(_texts(paths))
    return patterns


def _texts(value: Any) -> list[str]:
    return [str(item) for item in (value if isinstance(value, list) else [value])]


def _glob_pattern(glob: str) -> re.Pattern[str]:
    """``*`` and ``?`` stay in a folder, ``**`` does not, and ``**/`` is also no folder at all."""
    forms = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}

    def translate(match: re.Match[str]) -> str:
        token = match[0]
        if len(token) > 1 and token[0] == "[":
            inside = token[1:-1].replace("\\", r"\\").replace("[", r"\[")
            return f"[^{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]"
        return forms.get(token) or re.escape(token)

    text = re.sub(r"\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]]+\]|.", translate, glob, flags=re.DOTALL)
    try:
        return re.compile(text)
    except re.error:
        return re.compile(re.escape(glob))


def _converted_configs(paths: Sequence[str]) -> dict[str, Splits]:
    configs: dict[str, dict[str, tuple[str, ...]]] = {}
    for path in paths:
        parts = path.split("/")
        if len(parts) == 3:
            splits = configs.setdefault(parts[0], {})
            splits[parts[1]] = (*splits.get(parts[1], ()), path)
    return dict(configs)


def _folders(paths: Sequence[str]) -> dict[str, Splits]:
    """What each folder would be as a config of its own, except those that are named as splits."""
    folders = sorted({path.split("/")[0] for path in paths if "/" in path} - {"data"})
    return {
        folder: _named_splits([path for path in paths if path.startswith(f"{folder}/")], folder)
        for folder in folders
        if not any(_has_word(folder, words) for words in _WORDS.values())
    }


def _named_splits(paths: Sequence[str], folder: str = "") -> Splits:
    """Splits by the names of files below ``folder``; the first rule that finds one decides."""
    inner = {path: path[len(folder) + 1 :] if folder else path for path in paths}
    shards: dict[str, tuple[str, ...]] = {}
    for path, name in inner.items():
        if match := _SHARD.fullmatch(name):
            shards[match[1]] = (*shards.get(match[1], ()), path)
    if shards:
        return shards
    for in_folder in (True, False):
        splits = {
            split: tuple(
                path for path, name in inner.items() if _names_split(name, words, in_folder)
            )
            for split, words in _WORDS.items()
        }
        if found := {split: files for split, files in splits.items() if files}:
            return found
    return {"train": tuple(paths)} if paths else {}


def _names_split(path: str, words: str, in_folder: bool) -> bool:
    """Whether a folder on the path, or the name of the file, is one of the words."""
    *folders, name = path.split("/")
    if in_folder:
        return any(_has_word(folder, words) for folder in folders)
    return re.fullmatch(rf"(?:^|.*{_BREAK})(?:{words}){_BREAK}.*", name) is not None


def _has_word(part: str, words: str) -> bool:
    return re.fullmatch(rf"(?:.*{_BREAK})?(?:{words})(?:{_BREAK}.*)?", part) is not None
