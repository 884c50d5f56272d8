"""The loss of conversations, as verl's SFT trainer computes it: over the tokens it trains on.

verl's own data set joins the turns and masks everything but the responses, so a token counts here
exactly if it counts in training.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from engine.train import environment

BATCH_TOKENS = 4096
"""Padded tokens in a batch: each needs the logits of the whole vocabulary."""


@dataclass(frozen=True)
class Masked:
    """The tokens of a conversation, int64, and which of them are learned, both ``[length]``."""

    row: Mapping[str, Any]
    tokens: torch.Tensor
    learned: torch.Tensor


def conversation_losses(
    model: Any, tokenizer: Any, requests: Sequence[Mapping[str, Any]], job: Mapping[str, Any]
) -> Iterator[list[dict[str, Any]]]:
    """A line per conversation, in batches: the mean negative log-probability of its learned tokens,
    in nats, and their number; or the reason why it has no loss."""
    known, refused = [], []
    for request, masked in zip(requests, _mask(tokenizer, requests, job), strict=True):
        if isinstance(masked, str):
            refused.append(_line(request["row"], 0, None, masked))
        else:
            known.append(masked)
    yield refused
    for batch in _batches(known):
        losses = token_losses(model, batch)
        yield [
            _line(each.row, len(loss), float(loss.double().mean()), None)
            for each, loss in zip(batch, losses, strict=True)
        ]


@torch.inference_mode()
def token_losses(model: Any, batch: Sequence[Masked]) -> list[torch.Tensor]:
    """The negative log-probability of every learned token, in float32; one tensor per row."""
    device = next(model.parameters()).device
    rows = [each.tokens for each in batch]
    inputs = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    mask = torch.arange(inputs.shape[1], device=device) < lengths[:, None]
    logits = model(input_ids=inputs, attention_mask=mask.long(), use_cache=False).logits
    losses = []
    for each, scores in zip(batch, logits, strict=True):
        # The scores at a position predict the next token.
        at = each.learned[1:].nonzero()[:, 0].to(device)
        targets = each.tokens.to(device)[at + 1]
        losses.append(
            torch.nn.functional.cross_entropy(scores[at].float(), targets, reduction="none")
        )
    return losses


def _mask(
    tokenizer: Any, requests: Sequence[Mapping[str, Any]], job: Mapping[str, Any]
) -> Iterator[Masked | str]:
    """The tokens and mask of each conversation, or why it has none."""
    environment.prepare(os.environ, job["device"])  # verl reads its platform when imported.
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    settings = job["loss"]
    config = {
        "pad_mode": "no_padding",
        "truncation": "right",
        "max_length": settings["max_length"],
        "ignore_input_ids_mismatch": settings["ignore_input_ids_mismatch"],
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "conversations.parquet"
        pq.write_table(pa.table({"messages": [r["messages"] for r in requests]}), file)
        rows = MultiTurnSFTDataset(str(file), tokenizer, config)
        for number, request in enumerate(requests):
            try:
                encoded = rows[number]
            except AssertionError:
                yield "the template renders the turns differently (data.ignore_input_ids_mismatch)"
                continue
            learned = encoded["loss_mask"].bool()
            if not learned[1:].any():
                yield f"no response token in data.max_seq_length={settings['max_length']}"
                continue
            yield Masked(request["row"], encoded["input_ids"], learned)


def _batches(rows: Sequence[Masked]) -> Iterator[list[Masked]]:
    """Rows of similar length, at most ``BATCH_TOKENS`` with padding."""
    batch: list[Masked] = []
    for row in sorted(rows, key=lambda row: len(row.tokens)):
        if batch and len(row.tokens) * (len(batch) + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _line(
    row: Mapping[str, Any], tokens: int, loss: float | None, error: str | None
) -> dict[str, Any]:
    if loss is not None and loss - loss != 0:
        loss, error = None, "the loss is not finite"
    return {**row, "answer": None, "tokens": tokens, "stopped": False, "error": error, "loss": loss}
