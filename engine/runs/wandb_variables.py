"""What a run hands to W&B by environment variables: its ID, name, group, tags and folder."""

from __future__ import annotations

from collections.abc import Mapping

from engine.runs.notes import read_notes
from engine.runs.rundir import RunDir

FINISH_S = 300
"""How long a trainer that has ended waits for the upload. W&B itself waits without a limit; what
was not uploaded stays on disk and can be synced."""


def wandb_variables(run: RunDir, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the next attempt of ``run``; those set in ``env`` stay.

    W&B writes into the folder ``wandb`` of the run, so that two runs never share one, and all
    attempts continue one run of W&B.
    """
    given = run.read_manifest("wandb").get("wandb") or {}
    chosen = {
        "WANDB_DIR": str(run.path.resolve()),
        "WANDB_NAME": given.get("name"),
        "WANDB_RUN_GROUP": given.get("group"),
        "WANDB_TAGS": ",".join(read_notes(run).tags),
        "WANDB_FINISH_TIMEOUT": str(FINISH_S),
    }
    added = {name: text for name, text in chosen.items() if text and not env.get(name)}
    return {"WANDB_RUN_ID": run.id, "WANDB_RESUME": "allow", **added}
