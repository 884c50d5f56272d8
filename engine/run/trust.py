"""Who could have written a run, or the code of a config, and so whether anything is done with it.

A run directory says whom to signal, what to execute and where to send credentials. Everybody may
look at it, but nothing is done with it while somebody else could have written it (``exposures``),
and nothing of it is executed or sent unless this user launched it (``is_launched_here``), or has
said so after having seen what it holds (``agree``). The files outside of a run that a launch
executes are judged in the same way (``files_objection``). docs/security.md has the whole model.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from engine.base import files, jsonl
from engine.base.errors import UsageError
from engine.base.writers import (
    complaint_of,
    other_writers,
    owner_names,
    path_complaint,
    trusted_users,
    user_name,
)
from engine.run.run import Run, archive_root
from engine.run.trust_facts import Fact, code_copies, code_files, facts

PROOF = "launch_proof.json"
_KEY = "launch.key"
_AGREED = "trusted.jsonl"
_DATA = frozenset({"rollouts", "validation"})
"""Folders of an attempt with a file per step: checking the folder itself is enough."""
_MOST_SHOWN = 3


@dataclass(frozen=True)
class Case:
    """The facts that the user has to confirm before anything is done with a run or a config.

    ``reasons`` say why a confirmation is needed. It is valid for exactly the content with this
    ``digest``.
    """

    subject: str
    """``run 'NAME'`` or ``config 'NAME'``."""
    path: Path
    reasons: tuple[str, ...]
    facts: tuple[Fact, ...]
    digest: str
    is_exposed: bool = True
    """Whether another user could write it; if not, a confirmation on a terminal is enough."""

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(f"{label:<10} {text}" for label, text in self.facts)


class UntrustedError(UsageError):
    """The action needs a confirmation first."""

    def __init__(self, case: Case) -> None:
        super().__init__(
            f"{case.subject}: {'; '.join(case.reasons)}; nothing was done. "
            "To continue, add --trust: it first shows what the "
            f"{case.subject.partition(' ')[0]} contains"
        )
        self.case = case


def require(run: Run, *, executes: bool = False) -> None:
    """Raise UntrustedError for a run that is not trusted.

    ``executes``: the action executes something of the run, or sends it with credentials.
    """
    if (case := objection(run, executes=executes)) is not None:
        raise UntrustedError(case)


def objection(run: Run, *, executes: bool = False) -> Case | None:
    """The case that the user has to confirm first; None if there is none."""
    exposed = exposures(run)
    launched_here = is_launched_here(run)
    exposed += [] if launched_here else islice(_hard_links(run.path), 1)
    origin = ["you did not launch it here"] if executes and not launched_here else []
    reasons = (*exposed, *origin)
    if not reasons:
        return None
    shown = tuple(facts(run, owner_names(run.path)))
    case = Case(f"run '{run.id}'", run.path, reasons, shown, _digest(run), bool(exposed))
    return None if _is_agreed(case.digest) else case


def files_objection(
    subject: str, source: Path, named: Iterable[Path], commands: Iterable[str] = ()
) -> Case | None:
    """The case for files outside of a run that are executed, or determine what is executed.

    ``subject`` and ``source`` name what refers to them, and ``commands`` what they would execute.
    Missing files are skipped.
    """
    complaints = {path: text for path in named if (text := _file_complaint(path)) is not None}
    if not complaints:
        return None
    reasons = tuple(f"{path} {text}" for path, text in islice(complaints.items(), _MOST_SHOWN))
    told = [("command", command) for command in commands]
    described = (
        f"{path}  owner {owner_names(path)}, mode {stat.S_IMODE(path.stat().st_mode):04o}"
        for path in complaints
    )
    shown = (*(("file", text) for text in described), *told)
    digest = hashlib.sha256(b"files\0")
    for path in sorted(complaints):
        owner = owner_names(path).encode()
        digest.update(os.fsencode(path.resolve()) + b"\0" + owner + b"\0" + _content(path))
    case = Case(subject, source, reasons, shown, digest.hexdigest())
    return None if _is_agreed(case.digest) else case


def agree(case: Case) -> None:
    """Store that the user has seen the case and trusts it. UsageError if it cannot be stored."""
    folder = _state_folder()
    record = {"v": 1, "t": time.time(), "run": str(case.path), "digest": case.digest}
    try:
        files.make_private(folder)
        jsonl.append(folder / _AGREED, record)
    except OSError as error:
        raise UsageError(
            f"{folder}: {error.strerror}; the answer must be stored there. "
            "Set XDG_STATE_HOME to use another folder"
        ) from error


def exposures(run: Run) -> list[str]:
    """The first reasons why another user could have written a run; empty if nobody could."""
    return list(islice(_exposures(run), _MOST_SHOWN))


def vouch(run: Run) -> None:
    """Sign the run's manifest and configs: this user wrote them and trusts them.

    Without a folder for the user's key nothing is signed, and the run has to be confirmed.
    """
    with suppress(OSError, UsageError):
        jsonl.write_json(run.path / PROOF, {"v": 1, **_proofs(_key(create=True), run)})
        if exposures(run):
            agree(Case(f"run '{run.id}'", run.path, (), (), _digest(run)))


def sign(text: str) -> str | None:
    """The user's signature of a text; None without a folder for their key."""
    try:
        return hmac.new(_key(create=True), text.encode(), hashlib.sha256).hexdigest()
    except OSError:
        return None


def is_signed(text: str, signature: object) -> bool:
    """Whether the signature of a text is this user's."""
    expected = sign(text)
    return expected is not None and hmac.compare_digest(str(signature).encode(), expected.encode())


def is_own_folder(folder: Path) -> bool:
    """Whether a folder and its content belong to this user, and nobody else may write there."""
    try:
        status = folder.stat()
    except OSError:
        return False
    if complaint_of(folder, status) is not None:
        return False
    return next(_inside(folder, reached=bool(status.st_mode & 0o011)), None) is None


def is_launched_here(run: Run) -> bool:
    """Whether this user signed the run, and manifest, code copies and configs are unchanged.

    A missing config is not checked.
    """
    recorded = jsonl.read_json(run.path / PROOF) or {}
    try:
        proofs = _proofs(_key(), run)
    except OSError:
        return False
    needed = ("manifest", "recipe") if os.path.lexists(run.config_file) else ("manifest",)
    return all(
        hmac.compare_digest(str(recorded.get(name)).encode(), proofs[name].encode())
        for name in needed
    )


def is_neighbor(directory: str) -> bool:
    """Whether the runs of this user may wait for a run: it is theirs, or a shared folder's group's.

    Anybody may add a run to a folder that everybody may write.
    """
    try:
        status, above = os.stat(directory), os.stat(os.path.dirname(directory) or ".")  # noqa: PTH116,PTH120
    except OSError:
        return False
    shared = above.st_mode & 0o022 == 0o020 and above.st_gid in (os.getegid(), *os.getgroups())
    return status.st_uid in trusted_users() or shared


def folder_complaint(folder: Path) -> str | None:
    """Why others could replace runs in a folder by their own; None if they cannot."""
    try:
        status = folder.stat()
    except OSError:
        return None
    writers = None if status.st_mode & stat.S_ISVTX else other_writers(folder, status)
    return writers and f"{folder} is writable by {writers} without the sticky bit (chmod +t)"


def _exposures(run: Run) -> Iterator[str]:
    yield from _of_folder_above(run)
    try:
        status = run.path.stat()
        # The owner of a link decides which run it names.
        owners = {run.path.lstat().st_uid, status.st_uid}
    except OSError:
        return
    if any(owner not in trusted_users() for owner in owners):
        yield f"{run.path} is owned by {owner_names(run.path)}"
        return
    if (writers := other_writers(run.path, status)) is not None:
        yield f"{run.path} is writable by {writers}"
    yield from _inside(run.path, reached=bool(status.st_mode & 0o011))


def _inside(folder: Path, *, reached: bool) -> Iterator[str]:
    """Exposed files and folders; ``reached``: whether others can reach the folder's files."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if status.st_uid not in trusted_users():
            yield f"{entry.path} is owned by {user_name(status.st_uid)}"
        elif reached and (writers := other_writers(Path(entry.path), status)) is not None:
            yield f"{entry.path} is writable by {writers}"
        elif stat.S_ISDIR(status.st_mode) and entry.name not in _DATA:
            yield from _inside(Path(entry.path), reached=reached and bool(status.st_mode & 0o011))


def _hard_links(folder: Path) -> Iterator[str]:
    """Hard-linked files of an external run. Unpacking a run may link its log to any file of the
    user, and stopping or tagging the run would write into that file."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            with suppress(OSError):
                if path.lstat().st_nlink > 1:
                    yield f"{path} is a hard link: it may also be a file outside of the run"


def _of_folder_above(run: Run) -> Iterator[str]:
    """Everybody who may rename a run may replace it. With the sticky bit, only the owners of the
    run and of the folder may, so a group can share a folder."""
    folder = run.path.absolute().parent
    above = [folder, folder.parent] if folder == archive_root(folder.parent) else [folder]
    yield from filter(None, map(folder_complaint, above))


def _digest(run: Run) -> str:
    """A digest of everything that is shown: manifest, configs, jobs, and the code they name."""
    location = os.fsencode(run.path.resolve()) + b"\0" + owner_names(run.path).encode()
    digest = hashlib.sha256(location)
    jobs = sorted(run.path.glob("attempt_*/ray_job.json"))
    for path in (run.manifest_file, *_settings(run), run.config_file, *jobs, *code_files(run)):
        digest.update(os.fsencode(path) + b"\0" + _content(path))
    return digest.hexdigest()


def _proofs(key: bytes, run: Run) -> dict[str, str]:
    """Signatures of manifest and configs; independent of the path, so that a run may be moved."""
    digest = hmac.new(key, _content(run.manifest_file), hashlib.sha256)
    for path in (*_settings(run), *code_copies(run)):
        digest.update(os.fsencode(path.relative_to(run.path)) + b"\0" + _content(path))
    manifest = digest.hexdigest()
    digest.update(_content(run.config_file))
    return {"manifest": manifest, "recipe": digest.hexdigest()}


def _settings(run: Run) -> list[Path]:
    """The config with its origins, if it is a file of its own."""
    return [run.settings_file] if os.path.lexists(run.settings_file) else []


def _content(path: Path) -> bytes:
    """A hash of a file's content, or of its status if it is too large to read."""
    try:
        return hashlib.sha256(files.read_regular(path, jsonl.LARGEST_FILE)).digest()
    except OSError as error:
        if error.errno != errno.EFBIG:
            return str(error.errno).encode()
    status = path.stat()
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}".encode()


def _file_complaint(path: Path) -> str | None:
    """The problem of a file, its mode, and the command that helps."""
    try:
        complaint, status = path_complaint(path), path.stat()
    except OSError:
        return None
    if complaint is None:
        return None
    is_trusted = status.st_uid in trusted_users()
    is_loose = is_trusted and other_writers(path, status) is not None
    fix = f"chmod go-w {path}" if is_loose else "launch your own copy"
    return f"{complaint} (mode {stat.S_IMODE(status.st_mode):04o}; {fix})"


def _is_agreed(digest: str) -> bool:
    try:
        folder = _state_folder()
        if not _is_private(folder):
            return False
        return any(record.get("digest") == digest for record in jsonl.read(folder / _AGREED))
    except OSError:
        return False


def _key(*, create: bool = False) -> bytes:
    """The user's own key. OSError without a key or a folder for one."""
    folder = _state_folder()
    if create:
        files.make_private(folder)
    if not _is_private(folder):
        raise PermissionError
    path = folder / _KEY
    if create and not path.exists():
        fresh = folder / f".{_KEY}.{secrets.token_hex(4)}"
        files.write_atomic(fresh, secrets.token_hex(32))
        with suppress(FileExistsError):
            path.hardlink_to(fresh)  # Of two simultaneous launches, one creates it.
        fresh.unlink()
    return files.read_regular(path, 1000)


def _is_private(folder: Path) -> bool:
    status = folder.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _state_folder() -> Path:
    """``grubrics-tui`` in the user's state directory."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() fails without one
    folder = os.environ.get("XDG_STATE_HOME") or f"{home}/.local/state"
    # A user without a home has no state, and no folder named "~" is created.
    return Path("/dev/null" if folder.startswith("~") else folder) / "grubrics-tui"
