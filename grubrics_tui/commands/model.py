"""``grubrics-tui model``: download a model of the hub."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from engine.base.errors import UsageError, unknown_name
from engine.base.quantities import format_count, format_hub_size
from grubrics_tui.commands.shared import Command, Task, answer, argument, option, options, say
from grubrics_tui.commands.shared.progress import ProgressLine

if TYPE_CHECKING:
    from engine.data.hub_model import HubModel

_INSTALL = "models of the hub need huggingface_hub: pip install 'grubrics-tui[hub]'"


def model(
    action: Annotated[str, argument("fetch", "The word fetch")],
    name: Annotated[str, argument("OWNER/NAME", "Model on the hub: Qwen/Qwen2.5-0.5B-Instruct")],
    to: Annotated[
        Path | None, option("FOLDER", "Folder of the model (default: the hub's cache)")
    ] = None,
    revision: Annotated[
        str | None, option("R", "Branch, tag or commit (default: the main branch)")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Download a model of the Hugging Face hub, with progress.

    Complete files are not downloaded again: after a download that broke off, run it once more.
    The token is that of HF_TOKEN, from the shell or .env, or of hf auth login.
    """
    if action != "fetch":
        raise unknown_name("action", action, ["fetch"])
    fetched = _fetch(name, to, revision, is_quiet=as_json)
    answer(fetched, _format(fetched), as_json)


def _fetch(name: str, to: Path | None, revision: str | None, *, is_quiet: bool) -> HubModel:
    try:
        from engine.data.hub_model import fetch_model  # Not every installation has it.
    except ImportError as error:
        raise UsageError(f"{_INSTALL} ({error})") from error
    bar, last = ProgressLine(sys.stderr), ""

    def report(done: int, total: int, file: str) -> None:
        nonlocal last
        last = f"{format_hub_size(done)} of {format_hub_size(total)}, {file}"
        bar.show(last)

    def tell(line: str) -> None:
        say(line, to=sys.stderr)

    try:
        return fetch_model(
            name,
            os.environ,
            folder=to.expanduser() if to else None,
            revision=revision,
            tell=(lambda line: None) if is_quiet else tell,
            report=(lambda done, total, file: None) if is_quiet else report,
        )
    finally:
        if last:
            bar.show(last, ended=True)


def _format(fetched: HubModel) -> str:
    files = f"{format_count(fetched.files, 'file')}, {format_hub_size(fetched.total_bytes)}"
    if fetched.commit is None:
        text = f"{fetched.name} is there: {fetched.folder}"
    elif fetched.downloaded:
        text = f"downloaded {fetched.name} at {fetched.commit[:12]} ({files}): {fetched.folder}"
    else:
        text = f"{fetched.name} at {fetched.commit[:12]} is there already ({files}): "
        text += str(fetched.folder)
    return f"{text}\nnote: {fetched.note}" if fetched.note else text


COMMAND = Command(model, Task.PREPARE)
