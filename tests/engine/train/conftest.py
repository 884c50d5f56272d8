"""A model of a few thousand weights and its data, made once; verl told to use the CPU."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from engine.train import environment

collect_ignore_glob = [] if find_spec("verl") else ["test_*.py"]  # needs grubrics-tui[train]

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@contextmanager
def cpu_variables() -> Iterator[None]:
    """verl reads its platform from the environment when it is imported. The tests of other folders,
    which may come after these in the same process, have their own environment again."""
    before = dict(os.environ)
    environment.prepare(os.environ, "cpu")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """The modules of this folder are imported, and verl with them, when they are collected."""
    with cpu_variables():
        return (yield)


@pytest.fixture(scope="module", autouse=True)
def cpu_environment() -> Iterator[None]:
    with cpu_variables():
        yield


@dataclass(frozen=True)
class SmallWorld:
    """Folders and files of a world in which one addition is one row."""

    model: Path
    train: Path
    val: Path
    conversations: Path


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> SmallWorld:
    folder = tmp_path_factory.mktemp("world")
    rows = [(f"What is {x} + {y}?", str(x + y)) for x in range(4) for y in range(4)]
    return SmallWorld(
        model=make_model(folder / "model", [text for row in rows for text in row]),
        train=write_rows(folder / "train.parquet", rows[:12], "train"),
        val=write_rows(folder / "val.parquet", rows[12:], "val"),
        conversations=write_conversations(folder / "sft.jsonl", rows),
    )


def make_model(folder: Path, texts: list[str]) -> Path:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = make_tokenizer(texts)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tokenizer(texts: list[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def write_rows(path: Path, rows: list[tuple[str, str]], split: str) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    records = [
        {
            "data_source": "sums",
            "prompt": [{"role": "user", "content": question}],
            "reward_model": {"ground_truth": answer, "style": "rule"},
            "extra_info": {"index": index, "split": split, "question_id": f"{split}-{index}"},
        }
        for index, (question, answer) in enumerate(rows)
    ]
    pq.write_table(pa.Table.from_pylist(records), path)
    return path


def write_conversations(path: Path, rows: list[tuple[str, str]]) -> Path:
    import json

    lines = [
        json.dumps(
            {
                "messages": [
                    {"role": "user", "content": question},
                    {"role": "assistant", "content": answer},
                ]
            }
        )
        for question, answer in rows
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
