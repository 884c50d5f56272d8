"""Manifests of runs for tests: as records, and changed on the disk."""

from __future__ import annotations

from typing import Any

from engine.base.typed import convert_record, to_json
from engine.run.manifest import FullManifest
from engine.run.run import Run


def make_manifest(**fields: Any) -> FullManifest:
    """The manifest that has these fields as JSON."""
    manifest = convert_record(fields, FullManifest)
    assert manifest is not None
    return manifest


def change_manifest(run: Run, **fields: Any) -> None:
    """Write the manifest of a run with other values of these fields, which are JSON."""
    run.write_manifest(make_manifest(**{**to_json(run.read_full_manifest()), **fields}))


def change_config(run: Run, **settings: Any) -> None:
    """Write the config of a run with other settings, which are JSON, by dotted key."""
    change_manifest(run, config={**to_json(run.read_config()), **settings})
