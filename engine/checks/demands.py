"""What a config demands of itself: values that were chosen, and data with known hashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from engine.base.files import content_hash
from engine.base.text import format_config_value
from engine.checks.check import Check, fail, tables
from engine.config.load import Config
from engine.config.places import data_files

_HELP = "restore the file, or change the value once you know why the data differ"

NO_SILENT_DEFAULTS = "grubrics.no_silent_defaults"
EXPECT_DATA = "grubrics.expect_data"

_SEED, _DATA_SEED = "grubrics.seed", "data.seed"


def silent_defaults(config: Config) -> dict[str, Any]:
    """The keys that decide what is learned and that nobody has set, with the values to set."""
    rows: Sequence[Sequence[str]] = tables()["learning"][config.kind.name]
    values = {key: config.get(key) for keys in rows for key in keys if config.is_chosen(key)}
    silent = [keys[0] for keys in rows if all(values.get(key) is None for key in keys)]
    values = {key: config.get(key) for key in silent}
    if values.get(_DATA_SEED, 0) is None:
        values[_DATA_SEED] = config.get(_SEED)
    return values


def check_defaults(config: Config, check_id: str) -> Iterator[Check]:
    """Fail for defaults that nobody has set, if the config forbids them."""
    silent = silent_defaults(config) if config.get(NO_SILENT_DEFAULTS) else {}
    if silent:
        values = [f"{key}={format_config_value(value)}" for key, value in silent.items()]
        message = f"{config.path}: {NO_SILENT_DEFAULTS}: {', '.join(silent)} not set"
        yield fail(check_id, f"{message}; the fix has values for them", " ".join(values))


def check_hashes(config: Config, check_id: str) -> Iterator[Check]:
    """Fail for a data file whose SHA-256 is not expected, and for a hash without a file."""
    expected: Sequence[str] | None = config.get(EXPECT_DATA)
    if expected is None:
        return
    paths = dict.fromkeys(data_files(config))
    hashes = {path: content_hash(path) for path in paths if path.is_file()}
    for path, actual in hashes.items():
        if not _matches(actual, expected):
            yield fail(check_id, f"{path}: its SHA-256 {actual} is not in {EXPECT_DATA}", _HELP)
    for prefix in expected:
        if not any(_matches(actual, [prefix]) for actual in hashes.values()):
            yield fail(check_id, f"{EXPECT_DATA}: no data file has the SHA-256 {prefix}", _HELP)


def _matches(actual: str, expected: Sequence[str]) -> bool:
    return any(actual.startswith(prefix.lower()) for prefix in expected)
