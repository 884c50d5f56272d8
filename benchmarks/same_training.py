"""What a tiny SFT and a tiny GRPO learn: metrics, and a hash of every parameter, as JSON.

    python benchmarks/same_training.py [--out DIR] > before.json

Two commits train alike if they print the same on one machine. Another CPU rounds otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tiny_project import MODEL, TinyProject

SFT, GRPO = "sft", "grpo"
CHANGES = {
    SFT: ("training.max_steps=40",),
    GRPO: ("trainer.total_training_steps=4", "trainer.test_freq=4", "grubrics.deterministic=true"),
}
GRPO_MODEL = Path("checkpoints/grubrics-transfer/grpo-tiny/final")
MEASURED = re.compile(r"(^|/)(timing|time|perf|throughput|memory|mfu)|_s$|latency|tokens_per")
"""Metrics that a clock or the machine gives."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of the project; default: a temporary one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = TinyProject((asked.out or Path(folder)).resolve())
        project.path.mkdir(parents=True, exist_ok=True)
        project.python("-m", "engine.data.tiny_world")
        found = {}
        for run, config, model in ((SFT, "sft_tiny", MODEL), (GRPO, "grpo_tiny", GRPO_MODEL)):
            project.train(run, config, *CHANGES[run])
            weights = hashes(project.path / model / "model.safetensors")
            found[run] = {"steps": steps(project.path / "runs" / run), "parameters": weights}
        print(json.dumps(found, indent=1, sort_keys=True))


def steps(run: Path) -> list[dict[str, Any]]:
    """The metrics of each step, without what depends on the machine."""
    records = map(json.loads, (run / "train_log.jsonl").read_text().splitlines())
    return [
        {name: value for name, value in record["metrics"].items() if not MEASURED.search(name)}
        for record in records
    ]


def hashes(file: Path) -> dict[str, str]:
    """The SHA-256 of the bytes of each parameter."""
    return {
        name: hashlib.sha256(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
        for name, tensor in load_file(file).items()
    }


if __name__ == "__main__":
    main()
