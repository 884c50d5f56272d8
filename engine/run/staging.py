"""Staging folders of launches: ``.launch-<pid>-*``, renamed when the run is complete."""

from __future__ import annotations

import grp
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from engine.base.errors import UsageError

GROUP_VARIABLE = "GRUBRICS_RUNS_GROUP"
_NAME = re.compile(r"\.launch-(?:(\d+)-)?[a-z0-9_]+")
_OLD_S = 3600.0
"""A launch takes seconds, so an older folder is abandoned, also if another machine made it."""


def new_staging(root: Path) -> Path:
    """An empty folder in ``root`` for the run that this process launches.

    Only this user may read it, or also the group that ``GRUBRICS_RUNS_GROUP`` names. UsageError for
    a group that this user is not in.
    """
    gid = _sharing_group()
    folder = Path(tempfile.mkdtemp(prefix=f".launch-{os.getpid()}-", dir=root))
    if gid is not None:
        os.chown(folder, -1, gid)
        folder.chmod(0o2750)
    return folder


def _sharing_group() -> int | None:
    name = os.environ.get(GROUP_VARIABLE)
    if not name:
        return None
    try:
        gid = grp.getgrnam(name).gr_gid
    except KeyError:
        raise UsageError(f"{GROUP_VARIABLE}={name}: there is no such group") from None
    if os.geteuid() and gid not in (os.getegid(), *os.getgroups()):
        raise UsageError(f"{GROUP_VARIABLE}={name}: you are not in that group")
    return gid


def remove_abandoned(root: Path) -> None:
    """Remove the folders of killed launches. A symbolic link is not followed."""
    with suppress(OSError), os.scandir(root) as entries:
        for entry in list(entries):
            match = _NAME.fullmatch(entry.name)
            is_own = entry.stat(follow_symlinks=False).st_uid == os.geteuid()
            is_folder = entry.is_dir(follow_symlinks=False)
            if match and is_own and is_folder and _is_abandoned(entry, match[1]):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_abandoned(entry: os.DirEntry[str], pid: str | None) -> bool:
    age = time.time() - entry.stat(follow_symlinks=False).st_mtime
    return age > _OLD_S and not (pid and Path("/proc", pid).exists())
