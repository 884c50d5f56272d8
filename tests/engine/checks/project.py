"""A small project on disk in which every check passes, for tests to break in one place."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

from engine.checks.check import Check
from engine.checks.preflight import run_checks
from engine.config.load import Config, load_config
from engine.data.contract import FileFacts, Row, write_rows

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% generation %}{{ message.content }}{% endgeneration %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

GRPO = """
grubrics: {kind: grpo, device: cpu}
algorithm: {adv_estimator: grpo}
data:
  train_files: data/train.parquet
  val_files: data/val.parquet
  train_batch_size: 4
  max_prompt_length: 256
actor_rollout_ref:
  model: {path: models/base}
  actor: {ppo_mini_batch_size: 4, ppo_micro_batch_size_per_gpu: 4}
  rollout: {n: 4, log_prob_micro_batch_size_per_gpu: 4}
trainer:
  total_training_steps: 6
  total_epochs: 2
  save_freq: 3
  test_freq: 3
  logger: [console]
  default_local_dir: checkpoints/grpo
"""

SFT = """
grubrics: {kind: sft, device: cpu}
model: {path: models/base}
data: {train_file: data/sft/train.jsonl, max_seq_length: 256}
training:
  output_dir: checkpoints/sft
  per_device_train_batch_size: 4
  num_train_epochs: 2
"""

NO_HUB = "http://127.0.0.1:9"

QWEN2 = {
    "model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16,
    "num_attention_heads": 2, "vocab_size": 100, "max_position_embeddings": 1024,
}  # fmt: skip
"""The configuration of a model whose size can be told."""


@dataclass(frozen=True)
class Project:
    """The working directory of a test."""

    root: Path

    def config(self, name: str = "grpo", *overrides: str) -> Config:
        return load_config(name, overrides, env={})

    def checks(
        self, name: str = "grpo", *overrides: str, env: dict[str, str] | None = None
    ) -> dict[str, Check]:
        """The whole preflight by id. No hub is asked but one that ``env`` names."""
        environment = {"HF_ENDPOINT": NO_HUB, **(env or {})}
        result = run_checks(self.config(name, *overrides), env=environment, runs=self.root / "runs")
        return {check.id: check for check in result}

    def write(self, path: str, rows: Sequence[Row], **facts: Any) -> Path:
        """A parquet file that follows the contract, but for what the rows themselves break."""
        defaults = {
            "preset": "open_only",
            "split": "train",
            "use_contrastive": True,
            "holdout": None,
            "seed": 1,
        }
        write_rows(self.root / path, rows, FileFacts(**{**defaults, **facts}))
        return self.root / path


def row(number: int) -> Row:
    """A usable row of the parquet contract."""
    question = f"How should a nurse respond when patient {number} reports a new severe headache?"
    return {
        "data_source": "healthbench",
        "prompt": [
            {"role": "system", "content": "You are a rubric writer. Write one item per line."},
            {"role": "user", "content": f"QUESTION:\n{question}\n\nYOUR RUBRIC:"},
        ],
        "reward_model": {"ground_truth": "", "style": "rubric_for_open"},
        "extra_info": {
            "split": "train",
            "domain_type": "open_rubric",
            "question_id": f"q{number}",
            "question": question,
            "golden_rubric": "Points: 10, Item: asks about onset",
            "answers": ["Ask when it began.", "Give water."],
            "gold_scores": [0.9, 0.2],
        },
    }


def example(number: int) -> dict[str, Any]:
    """A line of an SFT file."""
    reply = {"role": "assistant", "content": "Points: 10, Item: asks when the headache began"}
    return {"prompt_id": f"s{number}", "messages": [*row(number)["prompt"], reply]}


def write_model(folder: Path, shape: Sequence[int] = (8, 8)) -> Path:
    """A model folder with a tokenizer of single characters; the weights are a header alone."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "qwen2"}')
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    header = json.dumps(
        {"weight": {"dtype": "F32", "shape": list(shape), "data_offsets": [0, 0]}}
    ).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return folder


def make_project(root: Path) -> Project:
    """Everything a config needs, below ``root``."""
    result = Project(root)
    (root / "configs").mkdir()
    (root / "configs/grpo.yaml").write_text(GRPO)
    (root / "configs/sft.yaml").write_text(SFT)
    write_model(root / "models/base")
    result.write("data/train.parquet", [row(number) for number in range(12)])
    result.write("data/val.parquet", [row(number) for number in range(100, 103)], split="val")
    (root / "data/sft").mkdir()
    lines = [json.dumps(example(number)) for number in range(8)]
    (root / "data/sft/train.jsonl").write_text("\n".join(lines) + "\n")
    return result
