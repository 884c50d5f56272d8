"""Reads a run directory into the context that its rules get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.base import jsonl
from engine.run.checkpoints.find import list_checkpoints
from engine.run.history.columns import Columns
from engine.run.kinds import find_kind
from engine.run.manifest import Manifest
from engine.run.rule_context import RuleContext, Start
from engine.run.run import Run
from engine.run.state import RunState

_TRAINED = ("actor/lr", "train/lr", "actor/pg_loss", "train/loss")
"""Logged by every step that trains; the validation before step 1 logs none of them."""


def read_context(run: Run, state: RunState, columns: Columns) -> RuleContext:
    """Return the context of a run of this project; nearly empty without a manifest."""
    manifest = run.read_full_manifest()
    config = manifest.values
    requested = jsonl.integer(config.get("trainer.total_training_steps"))
    return RuleContext(
        config=config,
        in_file=manifest.values_in_file,
        kind=find_kind(manifest.kind),
        total_steps=state.total_steps or manifest.total_steps,
        asked_steps=requested if requested is not None and requested > 0 else None,
        has_ended=state.has_ended,
        starts=tuple(_starts(manifest, config, columns)),
        checkpoints=tuple(
            saved.step for saved in list_checkpoints(run) if saved.complete and saved.step
        ),
        path=str(run.train_log),
    )


def _starts(manifest: Manifest, config: Mapping[str, object], columns: Columns) -> Iterator[Start]:
    """Yield the start of each attempt: the first from its metrics, later ones from the manifest.

    None for a command: its first step may be the first one that it logs, and its program resumes by
    itself.
    """
    if manifest.is_command:
        return
    first = next((columns.get(name) for name in _TRAINED if len(columns.get(name))), None)
    for attempt in manifest.attempts:
        number, step = attempt.number, attempt.from_step
        if number > 1:
            yield Start(number, (step or 0) + 1, step, asked=True)
        elif first is not None:
            step = int(first.steps[0])
            is_path_set = config.get("trainer.resume_mode") == "resume_path"
            is_requested = attempt.from_ is not None or is_path_set
            yield Start(1, step, step - 1 if step > 1 else None, is_requested)
