"""Where a run is put together before it appears: ``.launch-<pid>-*``, renamed when it is whole."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_NAME = re.compile(r"\.launch-(?:(\d+)-)?[a-z0-9_]+")
_OLD_S = 3600.0
"""A launch takes seconds; on another machine, where its process cannot be seen, it is over too."""


def new_staging(root: Path) -> Path:
    """An empty folder in ``root`` for the run that this process launches."""
    return Path(tempfile.mkdtemp(prefix=f".launch-{os.getpid()}-", dir=root))


def remove_abandoned(root: Path) -> None:
    """Remove what launches left behind that were killed. A symbolic link is not followed."""
    with suppress(OSError), os.scandir(root) as entries:
        for entry in list(entries):
            match = _NAME.fullmatch(entry.name)
            if match and entry.is_dir(follow_symlinks=False) and _is_abandoned(entry, match[1]):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_abandoned(entry: os.DirEntry[str], pid: str | None) -> bool:
    age = time.time() - entry.stat(follow_symlinks=False).st_mtime
    return age > _OLD_S and not (pid and Path("/proc", pid).exists())
