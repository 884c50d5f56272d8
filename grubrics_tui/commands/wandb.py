"""``grubrics-tui wandb``: list, upload and delete the files that W&B left on this disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError, unknown_name
from engine.base.quantities import format_size
from engine.base.tables import aligned_lines
from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, argument, flag, option, options
from grubrics_tui.commands.shared.output import answer, confirmed, on_terminal, print_json, say

if TYPE_CHECKING:
    from engine.logs.formats.wandb_folders import WandbFolder

_ACTIONS = ("ls", "sync", "clean")
_NONE = (
    "no offline runs in the folder of the runs, $WANDB_DIR and ./wandb. Upload others: sync FOLDER"
)


def wandb(
    action: Annotated[str, argument("ls|sync|clean", "What to do")],
    names: Annotated[
        list[str] | None,
        argument(
            "[RUN|DIR...]",
            "ls: folders to search; sync, clean: run IDs or folders of W&B "
            "(default: all runs, $WANDB_DIR and ./wandb)",
        ),
    ] = None,
    every: Annotated[
        bool, flag("sync: upload every offline run that is not uploaded", "--all")
    ] = False,
    timeout: Annotated[int, option("SECONDS", "sync: the longest upload of one run")] = 300,
    dry_run: Annotated[
        bool, flag("Print what sync or clean would do; change nothing", "--dry-run")
    ] = False,
    yes: Annotated[bool, flag("clean: skip the confirmation", "--yes")] = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List, upload or delete local files of Weights & Biases.

    ls lists the runs of W&B on this disk. sync uploads offline runs with `wandb sync`, each on its
    own, and exits with 1 if one fails. clean deletes offline runs that are uploaded.
    """
    if action not in _ACTIONS:
        raise unknown_name("action", action, _ACTIONS)
    if timeout < 1:
        raise UsageError(f"--timeout {timeout}: write a number of seconds, at least 1")
    root = runs_root(runs)
    if action == "ls":
        _list(root, names or (), as_json)
    elif action == "sync":
        _sync(_named(root, names or (), every), timeout, dry_run, as_json)
    else:
        _clean(_named(root, names or (), True), dry_run, yes, as_json)


def _find(root: Path, folders: Sequence[Path] = ()) -> list[WandbFolder]:
    from engine.logs.formats.wandb_folders import find_wandb_folders, wandb_roots

    return find_wandb_folders(folders or wandb_roots(root, os.environ, Path.cwd()))


def _named(root: Path, names: Sequence[str], every: bool) -> list[WandbFolder]:
    """The folders that are named, else all offline runs."""
    from engine.supervise.wandb_sync import choose

    if not names and not every:
        raise UsageError("name the runs to upload, or add --all. List them: grubrics-tui wandb ls")
    paths = [Path(name) for name in names if "/" in name and Path(name).is_dir()]
    found = _find(root)
    if names:
        found = [*found, *_find(root, paths)] if paths else found
        words = [str(path) for path in paths]
        inside = [each for each in found if any(_is_inside(each.path, path) for path in paths)]
        rest = choose(found, [name for name in names if str(Path(name)) not in words])
        found = list({each.path.resolve(): each for each in (*inside, *rest)}.values())
    return [each for each in found if each.is_offline]


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _list(root: Path, names: Sequence[str], as_json: bool) -> None:
    from engine.supervise.wandb_sync import run_around, run_url

    missing = next((name for name in names if not Path(name).is_dir()), None)
    if missing is not None:
        raise UsageError(f"{missing}: no such folder")
    rows = []
    for folder in _find(root, [Path(name) for name in names]):
        run = run_around(folder.path)
        url = run_url(run) if run is not None and not folder.is_offline else None
        rows.append({**folder.to_json(), "url": url})
    lines = aligned_lines(
        (row["name"] or row["id"], _state(row["offline"], row["synced"]), row["url"] or row["path"])
        for row in rows
    )
    answer({"wandb": rows}, "\n".join(lines) or "no runs of W&B found", as_json)


def _state(is_offline: bool, is_synced: bool | None) -> str:
    if not is_offline:
        return "online"
    return "offline, synced" if is_synced else "offline, not synced"


def _sync(folders: Sequence[WandbFolder], timeout: float, dry_run: bool, as_json: bool) -> None:
    from engine.supervise.wandb_sync import sync, sync_command

    left = [folder for folder in folders if not folder.is_synced]
    if dry_run or not left:
        text = "\n".join(f"would upload {folder.path}" for folder in left)
        done = f"{len(folders)} offline runs, all of them synced" if folders else _NONE
        answer({"would_sync": [each.to_json() for each in left]}, text or done, as_json)
        return
    results = []
    for result in sync(left, sync_command(), timeout):
        results.append(result)
        if not as_json:
            outcome = f"failed: {result.problem}" if result.problem else "synced"
            say(f"{result.folder.path}: {outcome}{f'  {result.url}' if result.url else ''}")
    failed = sum(result.problem is not None for result in results)
    if as_json:
        print_json({"sync": [result.to_json() for result in results], "failed": failed})
    else:
        say(f"{len(results) - failed} of {len(results)} uploaded")
    raise typer.Exit(1 if failed else 0)


def _clean(folders: Sequence[WandbFolder], dry_run: bool, yes: bool, as_json: bool) -> None:
    from engine.run.checkpoints.disposal import bytes_of
    from engine.supervise.wandb_sync import removable, remove

    chosen = removable(folders)
    sizes = {folder.path: bytes_of(folder.path) for folder in chosen}
    if not as_json:
        for path, size in sizes.items():
            say(f"{path}  {format_size(size)}")
    total = format_size(sum(sizes.values()))
    kept = len(folders) - len(chosen)
    is_asked = bool(chosen) and not dry_run
    can_ask = is_asked and not as_json and on_terminal()
    question = f"Permanently delete {len(chosen)} uploaded runs of W&B ({total})?"
    is_confirmed = is_asked and (yes or (can_ask and confirmed(question)))
    for folder in chosen if is_confirmed else ():
        remove(folder)
    value = {"runs": [str(path) for path in sizes], "bytes": sum(sizes.values()), "kept": kept}
    outcome = f"deleted, {total} freed" if is_confirmed else f"{total} in all; nothing was deleted"
    advice = "" if not is_asked or is_confirmed else ". To skip the confirmation, add --yes"
    text = f"{outcome}{advice}" if chosen else "nothing to delete"
    left = f"; {kept} offline runs are not uploaded and stay" if kept else ""
    answer({**value, "deleted": is_confirmed}, f"{text}{left}", as_json)
    raise typer.Exit(1 if is_asked and not is_confirmed else 0)


COMMAND = Command(wandb, Task.KEEP)
