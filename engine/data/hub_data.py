"""Data of the Hugging Face hub in the place of files; missing files are downloaded to its cache."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.base.errors import UsageError, tell, with_advice
from engine.base.records import SUFFIXES
from engine.data.hub_source import PREFIX, HubData, HubSource, UnknownDataError

_OWNER_AND_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_INSTALL = "data sets of the hub need huggingface_hub: pip install 'grubrics-tui[hub]'"


def fetch(source: HubSource, env: Mapping[str, str], tell: Callable[[str], None] = tell) -> HubData:
    """Return the files of ``source``, all of one commit; what the cache lacks is downloaded.

    A commit whose files are in the cache needs no network. If the hub cannot be reached, what the
    cache has of the revision is used, and ``tell`` gets a line; it also gets one before a download.
    HubError for a data set that cannot be had; UsageError for a config, split or file that it
    lacks.
    """
    try:
        from engine.data import hub_client  # 0.3 s, and not every installation has the library.
    except ImportError as error:
        raise UsageError(f"{_INSTALL} ({error})") from error
    return hub_client.fetch(source, env, tell)


@dataclass(frozen=True)
class HubChoice:
    """What the options of a command choose in the data sets that it names."""

    split: str | None = None
    config: str | None = None
    revision: str | None = None

    def choose(self, source: HubSource) -> HubSource:
        """The choice in ``source``. UsageError for a choice within one file."""
        if source.data_file is not None and (self.split or self.config):
            option = "--split" if self.split else "--config-name"
            raise UsageError(f"{source.repo}/{source.data_file} is one file; leave out {option}")
        return replace(
            source,
            split=self.split or source.split,
            config=self.config or source.config,
            revision=self.revision or source.revision,
        )

    @property
    def options(self) -> tuple[str, ...]:
        """The options that were given."""
        values = {
            "--split": self.split,
            "--config-name": self.config,
            "--revision": self.revision,
        }
        return tuple(option for option, value in values.items() if value)


@dataclass(frozen=True)
class Inputs:
    """The files to read; ``names`` are those of files in the hub's cache."""

    paths: tuple[Path, ...] = ()
    names: Mapping[Path, str] = field(default_factory=dict)
    data: tuple[HubData, ...] = ()

    def __add__(self, other: Inputs) -> Inputs:
        paths, data = self.paths + other.paths, self.data + other.data
        return Inputs(paths, {**self.names, **other.names}, data)


def find_inputs(
    given: Sequence[Path | HubSource],
    choice: HubChoice,
    env: Mapping[str, str],
    *,
    usual: HubSource | None = None,
) -> Inputs:
    """Fetch the data sets of the hub among ``given``; files stay as they are.

    What ``choice`` leaves open is as in ``usual``: the split, and of the same data set the config.
    Errors are those of ``fetch``; for a name that could be that of a file, the error says that
    there is none. UsageError for a choice without a data set of the hub.
    """
    inputs = Inputs()
    for each in given:
        source = each if isinstance(each, HubSource) else HubSource.parse(str(each))
        if source is not None:
            wanted = choice.choose(_as_usual(source, usual))
            data = _fetch_named(each, wanted, env)
            names = {file.path: file.address for file in data.files}
            inputs += Inputs(tuple(names), names, (data,))
        elif isinstance(each, Path):
            _require_either(each)
            inputs += Inputs((each,))
    if choice.options and not inputs.data:
        option = choice.options[0]
        raise UsageError(f"{option} is for data sets of the hub, such as {PREFIX}OWNER/NAME")
    return inputs


def find_task_inputs(
    data: Sequence[Path],
    val: Sequence[Path],
    choice: HubChoice,
    val_split: str | None,
    env: Mapping[str, str],
) -> tuple[Inputs, Inputs]:
    """The inputs for training and for validation.

    ``val_split`` is the split of the data sets in ``val``, or of those in ``data`` if there are
    none. Config and revision are those of ``choice`` for both.
    """
    train = find_inputs(data, choice, env)
    if val_split is None and not val:
        return train, Inputs()
    on_hub = any(HubSource.parse(str(each)) for each in val or data)
    if val_split is not None and not on_hub:
        raise UsageError("--val-split is for data sets of the hub; name the records with --val")
    held_out = replace(choice, split=val_split) if on_hub else HubChoice()
    return train, find_inputs(val or data, held_out, env)


def _require_either(path: Path) -> None:
    """UsageError for a missing file whose path could be the name of a data set."""
    may_be_name = path.suffix != ".py" and _OWNER_AND_NAME.fullmatch(str(path))
    if may_be_name and not path.exists():
        problem = f"{path} does not exist; give a file ({', '.join(SUFFIXES)})"
        raise UsageError(with_advice(problem, f"A data set of the hub: {PREFIX}{path}"))


def _as_usual(source: HubSource, usual: HubSource | None) -> HubSource:
    if usual is None or source.data_file is not None:
        return source
    config = usual.config if source.repo == usual.repo else None
    return replace(source, split=usual.split, config=config)


def _fetch_named(given: Path | HubSource, source: HubSource, env: Mapping[str, str]) -> HubData:
    try:
        return fetch(source, env)
    except UnknownDataError as error:
        if isinstance(given, Path) and not str(given).startswith("hf:"):
            raise UnknownDataError(f"'{given}' is no file, and {error}") from None
        raise
