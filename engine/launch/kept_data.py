"""Copies of the data that a run was launched with, for attempts after the files have changed.

The copy of ``train.parquet`` is ``data/SHA256-train.parquet`` in the run directory, with the first
16 digits of the hash.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from engine.base import files
from engine.base.files import content_hash
from engine.base.jsonl import number
from engine.config.places import DATA_KEYS, data_path
from engine.run.manifest import FileFacts, FullManifest
from engine.run.run import Run

LIMIT = "grubrics.keep_data_mb"


def keep_data(run: Run, manifest: FullManifest) -> None:
    """Keep the data files of the manifest, the smallest first, up to the limit of its config.

    A copy that another run of this user in the folder has is linked: nothing writes to copies. A
    file that cannot be copied is left out.
    """
    left = int(number(manifest.value(LIMIT)) or 0) << 20
    for path, facts in sorted(manifest.data.items(), key=lambda item: item[1].bytes or 0):
        left -= facts.bytes or 0
        if left < 0:
            return
        with suppress(OSError):
            files.make_folder(run.data)
            _keep(manifest.working_folder / path, _copy_of(run, path, facts), facts)


def find_copy(run: Run, path: str, facts: FileFacts) -> Path | None:
    """The copy of a data file of the manifest, if it has the content of the launch."""
    copy = _copy_of(run, path, facts)
    return copy if _has_content(copy, facts) else None


def kept_overrides(run: Run, manifest: FullManifest, changed: Collection[str]) -> Iterator[str]:
    """The overrides by which the trainer reads copies in place of the ``changed`` files."""
    data = manifest.data
    copies = {path: copy for path in changed if (copy := find_copy(run, path, data[path]))}
    for key in DATA_KEYS:
        value = manifest.value(key)
        names = value if isinstance(value, list) else [value]
        replaced = [str(copies.get(str(data_path(name)), name)) if name else name for name in names]
        if replaced != names:
            yield f"{key}={json.dumps(replaced if isinstance(value, list) else replaced[0])}"


def _copy_of(run: Run, path: str, facts: FileFacts) -> Path:
    return run.data.absolute() / f"{facts.digest[:16]}-{Path(path).name}"


def _keep(source: Path, copy: Path, facts: FileFacts) -> None:
    """Link or copy a file, unless it has changed since it was hashed. OSError."""
    for other in copy.parents[2].glob(f"*/{copy.parent.name}/{copy.name}"):
        if other.stat().st_uid == os.geteuid() and _has_content(other, facts):
            os.link(other, copy)
            return
    with files.open_regular(source) as read, os.fdopen(files.open_to_append(copy), "wb") as written:
        shutil.copyfileobj(read, written, 1 << 20)
    if not _has_content(copy, facts):
        copy.unlink()


def _has_content(path: Path, facts: FileFacts) -> bool:
    return path.is_file() and content_hash(path) == facts.digest
