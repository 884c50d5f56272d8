"""Export a model folder and prove it right: ``python -m engine.train.export_model PARENT < JOB``.

The folder is loaded again, and its logits are compared with those of the loaded checkpoint. It
appears at its place only if they are equal.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError, guarded
from engine.run.checkpoints.ownership import STAMP
from engine.train.backends import load_weights
from engine.train.final_checkpoint import whole_folder, write_model

TOLERANCE = 1e-5
PROMPTS = (
    "What is 12 + 30?",
    "A patient has had a fever and a headache for three days. What should be asked first?",
    "Write a rubric with four criteria for an answer about diabetes.",
    "def add(a, b):",
    "¿Cuál es la capital de Francia?",
    '{"role": "user", "content": "Name two causes."}',
    "Solve for x: $2x^2 - 8 = 0$.",
    "一加一等于多少？",
)
_LONGEST = 64
"""Tokens of a prompt; logits of a large vocabulary need much memory."""


_POLL_S = 0.2


def main() -> int:
    """Run the job of standard input for the process PARENT.

    The folder is not written if this process or PARENT is ended.
    """
    parent = int(sys.argv[1])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        print(json.dumps(export_model(json.load(sys.stdin))))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _end_with(parent: int) -> None:
    """Interrupt the main thread when the parent has ended: nobody waits for the folder."""
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    # Not SIGINT: a shell starts background commands with SIGINT ignored.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def export_model(job: Mapping[str, Any]) -> dict[str, Any]:
    """Write ``job["out"]`` in ``job["dtype"]``; null keeps the data type of the weights.

    UsageError if the folder exists, or if it does not give the logits of the checkpoint.
    """
    import torch

    out = Path(job["out"])
    dtype = "auto" if job["dtype"] is None else getattr(torch, job["dtype"])
    model, names = load_weights(job["form"], job["source"], dtype)
    model = model.eval()
    kind = str(model.dtype).removeprefix("torch.")
    parameters, expected = sum(p.numel() for p in model.parameters()), _logits(model, names)
    with whole_folder(out) as folder:
        write_model(model, names, folder, kind)
        del model
        difference = largest_difference(folder, expected)
        if not difference <= TOLERANCE:
            raise UsageError(
                f"{out} was not written: its logits differ from those of {job['source']} by "
                f"{difference:g}, more than {TOLERANCE:g}"
            )
        stamp = Path(job["source"]).parent / STAMP
        if stamp.is_file():
            shutil.copyfile(stamp, folder / STAMP)
        if out.exists():
            raise UsageError(f"{out} exists by now; nothing was written")
    return {
        "folder": str(out),
        "dtype": kind,
        "parameters": parameters,
        "prompts": len(PROMPTS),
        "largest_difference": difference,
    }


def largest_difference(folder: Path, expected: list[Any]) -> float:
    """The largest difference of a logit of the model in ``folder``; infinite for other tokens."""
    model, names = load_weights("model", str(folder), "auto")
    found = _logits(model.eval(), names)
    if [logits.shape for logits in found] != [logits.shape for logits in expected]:
        return float("inf")
    return max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))


def _logits(model: Any, names: Path | str) -> list[Any]:
    """The logits of all tokens of each prompt, in float32."""
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(names)
    tokens = (tokenizer.encode(prompt)[:_LONGEST] for prompt in PROMPTS)
    with torch.inference_mode():
        return [model(input_ids=torch.tensor([ids])).logits.float() for ids in tokens]


if __name__ == "__main__":
    sys.exit(guarded(main))
