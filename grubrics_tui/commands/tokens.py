"""``grubrics-tui tokens``: which tokens of a row are trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from engine.base.errors import UsageError
from engine.base.quantities import format_count
from engine.base.typed import to_json
from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, answer, flag, option, options
from grubrics_tui.commands.shared.trust import trusted_source
from grubrics_tui.text.turns import MARKS, marked_lines

if TYPE_CHECKING:
    from engine.checks.token_view import TokenView


_LONGEST_ID = 6


def tokens(
    source: options.SourceArgument,
    overrides: options.OverridesArgument = None,
    row: Annotated[int, option("N", "Row of the file, from 0")] = 0,
    validation: Annotated[bool, flag("Read the validation file", "--validation")] = False,
    each: Annotated[bool, flag("Print every token with its ID", "--each")] = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print a row as the trainer renders it.

    Lines with + are trained, all others are masked. In place of a response the row has the right
    answer, and with tools first a call of one of them. No model is loaded and no tool is called.
    """
    from engine.checks.token_view import read_token_view

    if row < 0:
        raise UsageError(f"--row {row}: must be at least 0")
    config, _ = trusted_source(source, overrides or [], runs_root(runs), trust)
    view = read_token_view(config, row, "val" if validation else "train")
    lines = list(_format_view(view, each=each))
    answer({"config": config.name, **to_json(view)}, "\n".join(lines), as_json)


def _format_view(view: TokenView, *, each: bool) -> Iterator[str]:
    trained, masked = view.count(trained=True), view.count(trained=False)
    tokens = f"{format_count(trained + masked, 'token')}, {trained} trained"
    yield f"row {view.row} of {view.file}: {tokens}"
    if view.tools is not None:
        yield f"tools: {', '.join(view.tools.names) or 'none'}"
    for part in view.parts:
        yield ""
        state = "trained" if part.trained else "masked"
        yield f"{part.role}, {format_count(len(part.tokens), 'token')}, {state}"
        if not each:
            yield from marked_lines(part.text.removesuffix("\n"), trained=part.trained)
            continue
        for token in part.tokens:
            yield f"{MARKS[part.trained]} {token.id:>{_LONGEST_ID}} {token.text!r}"


COMMAND = Command(tokens, Task.PREPARE)
