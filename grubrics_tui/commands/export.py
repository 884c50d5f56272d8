"""``grubrics-tui export``: a checkpoint as a model folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from engine.base.quantities import format_count, format_whole
from engine.base.typed import to_json
from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, answer, argument, option, options


def export(
    source: Annotated[
        str,
        argument(
            "RUN[:STEP]", "Run (its last checkpoint), RUN:STEP, or a checkpoint or model folder"
        ),
    ],
    folder: Annotated[Path, argument("FOLDER", "New folder of the model")],
    dtype: Annotated[
        str | None,
        option("TYPE", "float32, bfloat16 or float16 (default: that of the checkpoint's weights)"),
    ] = None,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Write a checkpoint as a Hugging Face model folder.

    Shards are joined and LoRA is merged. The folder is loaded again, and appears only if its logits
    on 8 prompts equal those of the checkpoint to 1e-5.
    """
    from engine.measure.export import export as export_target
    from engine.measure.targets import find_target

    target = find_target(source, runs_root(runs))
    made = export_target(target, folder, dtype, os.environ)
    said = (
        f"{made.folder}: {format_whole(made.parameters)} parameters in {made.dtype}; logits on "
        f"{format_count(made.prompts, 'prompt')} differ from those of {target.name} by at most "
        f"{made.largest_difference:.1g}"
    )
    answer({**to_json(made), "source": target.source}, said, as_json)


COMMAND = Command(export, Task.KEEP)
