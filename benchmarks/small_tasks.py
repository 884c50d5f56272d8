"""Tasks that a model of 0.4 million weights learns: their records, and conversations for SFT.

Demonstrations leave something to learn: SFT ends early, or some of them are wrong on purpose.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.tasks.registry import find_task

Record = dict[str, Any]
Messages = list[dict[str, str]]
Demonstrate = Callable[[Messages, str, Mapping[str, Any]], Messages]


@dataclass(frozen=True)
class SmallTask:
    """``source`` is what ``prepare`` reads: a set of puzzles, or a file of ``records``.

    ``demonstrate`` writes a conversation for SFT from a prepared prompt, its ground truth and the
    extra values of its row. ``rate`` is GRPO's learning rate. ``held_out`` is the share of
    prompts for the evaluation. ``files`` are written beside the configs, and ``rollout`` is added
    to ``actor_rollout_ref.rollout``.
    """

    task: str
    demonstrate: Demonstrate
    sft_steps: int
    grpo_steps: int
    response: int
    records: Callable[[random.Random], Iterator[Record]] | None = None
    source: str = "records.jsonl"
    rate: float = 1e-3
    held_out: float = 0.3
    files: Mapping[str, str] = field(default_factory=dict)
    rollout: Mapping[str, Any] = field(default_factory=dict)


def answer_of(task: str) -> Demonstrate:
    """A demonstration of one turn: the right answer of the task."""

    def demonstrate(prompt: Messages, truth: str, extra: Mapping[str, Any]) -> Messages:
        return [*prompt, assistant(find_task(task).right_answer(truth, extra))]

    return demonstrate


def assistant(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


def largest_records(numbers: random.Random) -> Iterator[Record]:
    digits = [*itertools.permutations(range(10), 4)]
    for a, b, c, d in numbers.sample(digits, 450):
        yield {
            "question": f"Which is the largest of {a}, {b}, {c}, {d}?",
            "answer": max(a, b, c, d),
        }


NAMES = ("Ann", "Ben", "Cem", "Dora", "Eva", "Finn")
ITEMS = ("coins", "pens", "nuts", "keys", "cards")


def story_records(numbers: random.Random) -> Iterator[Record]:
    """Sums and differences of digits, in words: the problem itself is no arithmetic."""
    pairs = [(a, b) for a in range(2, 10) for b in range(2, 10) if a != b]
    stories = [*itertools.product(NAMES, ITEMS, pairs)]
    for name, item, (a, b) in numbers.sample(stories, 400):
        gains = a < b
        change = f"gets {b} more" if gains else f"loses {b}"
        question = f"{name} has {a} {item} and {change}. How many {item} has {name} now?"
        yield {"question": question, "answer": a + b if gains else a - b}


def story_workflow(prompt: Messages, truth: str, extra: Mapping[str, Any]) -> Messages:
    """One workflow in three is right. The others do not use their result, have an operator for
    programs, or calculate on the text of the problem."""
    words = extra["problem"].split()
    a, b = (word.rstrip(".") for word in words if word.rstrip(".").isdigit())
    task = f'"{a} {"+" if "gets" in words else "-"} {b}"'
    body = random.Random(extra["problem"]).choice(
        (
            f"return await answer_generate(input={task})",
            f"return await answer_generate(input={task})",
            "return await answer_generate(input=problem)",
            f"await answer_generate(input={task})",
            f'return await programmer(problem={task}, instruction="Solve it.")',
        )
    )
    return [*prompt, assistant(f"```python\nasync def workflow(problem):\n    {body}\n```")]


COLORS = ("red", "blue", "green", "black", "white", "yellow", "brown", "grey", "pink", "gold")
THINGS = (
    *("lamp", "chair", "table", "shelf", "mirror", "carpet"),
    *("pillow", "basket", "candle", "clock", "vase", "bench"),
)
TOOLS = '''\
from verl.tools.function_tool import function_tool


@function_tool
def price(item: str) -> str:
    """Look up a price.

    Args:
        item: Name of the item.
    """
    color, thing = item.split()
    return f"{len(color) * 7 + sum(map(ord, thing)) % 60 + 11} coins"
'''
DECLARED = {
    "name": "price",
    "description": "Look up a price.",
    "parameters": {
        "type": "object",
        "properties": {"item": {"type": "string", "description": "Name of the item."}},
        "required": ["item"],
    },
}


def shop_records(numbers: random.Random) -> Iterator[Record]:
    items = [*itertools.product(COLORS, THINGS)]
    numbers.shuffle(items)
    for color, thing in items:
        price = len(color) * 7 + sum(map(ord, thing)) % 60 + 11
        yield {"question": f"What does a {color} {thing} cost?", "answer": price}


def shop_turns(prompt: Messages, truth: str, extra: Mapping[str, Any]) -> Messages:
    """A call of the tool, its reply, and the answer, after the system message that lists the
    tool."""
    item = prompt[-1]["content"].removeprefix("What does a ").partition(" cost")[0]
    call = json.dumps({"name": "price", "arguments": {"item": item}})
    listed = (
        f"Tools:\n{json.dumps(DECLARED)}\n"
        'Call one by <tool_call>{"name": NAME, "arguments": {...}}</tool_call>.'
    )
    return [
        {"role": "system", "content": listed},
        *prompt,
        assistant(f"<tool_call>{call}</tool_call>"),
        {"role": "tool", "content": f"{truth} coins"},
        assistant(f"\\boxed{{{truth}}}"),
    ]


SMALL_TASKS = {
    "maths": SmallTask(
        "questions",
        answer_of("questions"),
        sft_steps=60,
        grpo_steps=40,
        response=12,
        records=largest_records,
    ),
    "puzzles": SmallTask(
        "puzzles",
        answer_of("puzzles"),
        sft_steps=60,
        grpo_steps=120,
        response=16,
        source="gcd:500,min_numbers=2,max_numbers=2,max_value=40",
    ),
    "tools": SmallTask(
        "questions",
        shop_turns,
        sft_steps=400,
        grpo_steps=80,
        response=64,
        records=shop_records,
        rate=3e-4,
        files={"tools.py": TOOLS},
        rollout={
            "agent": {"default_agent_loop": "tool_agent"},
            "multi_turn": {"function_tool_path": "tools.py", "max_assistant_turns": 3},
        },
    ),
    "workflow": SmallTask(
        "workflows",
        story_workflow,
        sft_steps=150,
        grpo_steps=30,
        response=32,
        records=story_records,
        rate=3e-4,
    ),
}
