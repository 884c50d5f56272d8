"""The tiny demo's model: a small Qwen2 with random weights and a tokenizer made for its text.

``--texts FILE`` makes such a model for other conversations.

The tokenizer splits text as Qwen2's does and is trained on the world alone, so the words of a
rubric line ("Points", " Item") are one token each and a four-item rubric takes about 50.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.data.contract import read_rows
from engine.data.conversations import read_conversations

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

VOCABULARY = 1024
MAX_POSITIONS = 1024
END = "<|im_end|>"
CHAT_TEMPLATE = (
    "{% if tools %}<|im_start|>system\nTools:\n"
    "{% for tool in tools %}{{ tool['function'] | tojson }}\n{% endfor %}"
    'Call one by <tool_call>{"name": NAME, "arguments": {...}}</tool_call>.<|im_end|>\n'
    "{% endif %}"
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "{% for call in message['tool_calls'] or [] %}"
    "<tool_call>{{ call['function'] | tojson }}</tool_call>"
    "{% endfor %}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def world_texts(world: Path) -> Iterator[str]:
    """Every message of the world's SFT and GRPO files, with the role names of the template."""
    yield "system\n user\n assistant\n"
    for record in jsonl.read(world / "sft" / "train.jsonl"):
        yield from (message["content"] for message in record["messages"])
    for row in read_rows(world / "processed" / "train.parquet"):
        yield from (message["content"] for message in row["prompt"])
        yield row["extra_info"]["golden_rubric"]


def file_texts(file: Path) -> Iterator[str]:
    """Every message of a file of conversations, with the role names of the template."""
    yield "system\n user\n assistant\n tool\n"
    for conversation in read_conversations(file):
        yield from (message["content"] for message in conversation)


def train_tokenizer(texts: Iterator[str]) -> PreTrainedTokenizerBase:
    """A chat tokenizer trained on ``texts``; a turn ends with ``<|im_end|>``."""
    from transformers import Qwen2Tokenizer

    tokenizer = Qwen2Tokenizer().train_new_from_iterator(
        texts, VOCABULARY, new_special_tokens=["<|im_start|>", END], show_progress=False
    )
    tokenizer.eos_token = END
    tokenizer.model_max_length = MAX_POSITIONS
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def build_model(texts: Iterator[str], out: Path, seed: int) -> int:
    """Write a Hugging Face folder with a model, and a tokenizer for ``texts``; returns the number
    of weights."""
    import torch
    from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

    tokenizer = train_tokenizer(texts)
    torch.manual_seed(seed)
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        **ends,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(**ends)
    tokenizer.save_pretrained(out)
    model.save_pretrained(out)
    return int(model.num_parameters())


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when the model is there, 2 when the world's data is missing."""
    parser = argparse.ArgumentParser(prog="engine.train.tiny_model", description=__doc__)
    parser.add_argument("--world", type=Path, default=Path("data/tiny"))
    parser.add_argument(
        "--texts",
        type=Path,
        metavar="FILE",
        help="conversations to make the tokenizer for (JSONL), in place of the demo's",
    )
    parser.add_argument("--out", type=Path, default=Path("data/tiny/model"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    try:
        texts = world_texts(args.world) if args.texts is None else file_texts(args.texts)
        weights = build_model(texts, args.out, args.seed)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"[tiny] Wrote a model of {weights:,} weights -> {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
