"""Find who could have written a file: its owner, and others by its mode, group and access list."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from functools import cache
from pathlib import Path

_PROGRAM = Path(__file__).resolve().parents[1]


def untrusted_writer(path: Path) -> str | None:
    """Return who besides this user and root could have written a file or folder, or None.

    The text is "is owned by 'eve'" or "is writable by everybody". Of a link, both its owner and
    its target count. OSError if the path does not exist.
    """
    for status in (path.lstat(), path.stat()):
        if (complaint := complaint_of(path, status)) is not None:
            return complaint
    return None


def path_complaint(path: Path) -> str | None:
    """Return ``untrusted_writer`` for a file that is opened by its path later.

    It includes those who could replace the file, because a folder above it lets everybody rename
    its content. Folders above this program do not count: whoever can replace its code needs no
    config.
    """
    if (complaint := untrusted_writer(path)) is not None:
        return complaint
    for folder in path.absolute().parents:
        if folder in _PROGRAM.parents:
            break
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"is in {folder}, which is writable by everybody"
    return None


def complaint_of(path: Path, status: os.stat_result) -> str | None:
    """Return ``untrusted_writer`` for a status that was read already."""
    if status.st_uid not in trusted_users():
        return f"is owned by {user_name(status.st_uid)}"
    writers = other_writers(path, status)
    return None if writers is None else f"is writable by {writers}"


def other_writers(path: Path, status: os.stat_result) -> str | None:
    """Return who besides the owner may write, or None. Of a link only the target counts."""
    if stat.S_ISLNK(status.st_mode):
        return None
    if status.st_mode & stat.S_IWOTH:
        return "everybody"
    if not status.st_mode & stat.S_IWGRP:
        return None
    # With an access list, the group bits apply to everybody on the list.
    if _has_access_list(path):
        return "users on its access list"
    return None if _is_private_group(status) else f"the group {_group_name(status.st_gid)}"


def trusted_users() -> tuple[int, ...]:
    """Return this user, root, and the owner of this program's code, which is executed already.

    That owner may be the user of a checkout that is mounted into a container that runs as root.
    """
    return os.geteuid(), 0, _program_owner()


@cache
def _program_owner() -> int:
    return _PROGRAM.stat().st_uid


def owner_names(path: Path) -> str:
    """Return the owner of a path; of a link also that of its target."""
    try:
        uids = dict.fromkeys((path.lstat().st_uid, path.stat().st_uid))
    except OSError:
        return "?"
    return " and ".join(user_name(uid) for uid in uids)


def user_name(uid: int) -> str:
    try:
        return f"'{pwd.getpwuid(uid).pw_name}'"
    except KeyError:
        return f"uid {uid}"


def _group_name(gid: int) -> str:
    try:
        return f"'{grp.getgrgid(gid).gr_name}'"
    except KeyError:
        return str(gid)


def _is_private_group(status: os.stat_result) -> bool:
    """Whether the owner is alone in the group, as most systems set users up."""
    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return group.gr_name == owner.pw_name and not {*group.gr_mem} - {owner.pw_name}


def _has_access_list(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False
