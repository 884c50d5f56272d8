"""Tools in several turns: a model that calls a function is launched, shown and evaluated."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.typed import convert_record
from engine.run.conversation import Conversation
from tests.e2e.project import Project
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

PAGE = (ROOT / "docs/tools.md").read_text()
FILES = dict(re.findall(r"^`([\w.]+)`\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
INIT = ("--task", "questions", "--tools", "tools.py", "--model", "model")
SMALL = (
    "trainer.total_training_steps=2",
    "trainer.val_before_train=false",
    "data.train_batch_size=4",
    "data.max_response_length=80",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.rollout.n=4",
    "trainer.save_freq=2",
    "trainer.test_freq=-1",
)


def demonstration(system: str, prompt: str, item: str, answer: str) -> list[dict[str, str]]:
    """A conversation with a call of the page's tool."""
    call = json.dumps({"name": "price", "arguments": {"item": item}})
    coins = {"lamp": 30, "chair": 45, "clock": 25}[item]
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": f"<tool_call>{call}</tool_call>"},
        {"role": "tool", "content": f"{coins} coins"},
        {"role": "assistant", "content": f"\\boxed{{{answer}}}"},
    ]


def train_model(conversations: list[list[dict[str, str]]], folder: Path) -> None:
    """A model of 0.4 million weights that has learned the conversations."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from engine.train.tiny_model import build_model

    texts = [message["content"] for messages in conversations for message in messages]
    build_model(iter(["system\n user\n assistant\n tool\n", *texts]), folder, seed=0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    rendered = [tokenizer.apply_chat_template(each, tokenize=False) for each in conversations]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    tokenizer.pad_token = tokenizer.eos_token
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # On busy cores, two threads wait for each other.
    for _ in range(100):
        chosen = torch.randint(len(rendered), (4,), generator=generator).tolist()
        batch = tokenizer([rendered[i] for i in chosen], return_tensors="pt", padding=True)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.set_num_threads(threads)
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The page's files with two steps of GRPO, of a model that calls the tool."""
    from engine.base.parquet import pq

    made = Project(tmp_path_factory.mktemp("tools"))
    for name, text in FILES.items():
        (made.path / name).write_text(text)
    made.python("make_shop.py")
    made.json("prepare", "shop.jsonl")
    rows = pq.read_table(made.path / "data/shop/train.parquet").to_pylist()
    system = (
        'Tools:\n{"name": "price", "description": "Look up the price of an item.", "parameters": '
        '{"type": "object", "properties": {"item": {"type": "string", "description": "Name of the '
        'item."}}, "required": ["item"]}}\n'
        'Call one by <tool_call>{"name": NAME, "arguments": {...}}</tool_call>.'
    )
    conversations = []
    for row in rows:
        prompt, truth = row["prompt"][0]["content"], row["reward_model"]["ground_truth"]
        item = re.findall("lamp|chair|clock", prompt)[0]
        conversations.append(demonstration(system, prompt, item, truth))
    train_model(conversations, made.path / "model")
    made.json("init", "data/shop/train.parquet", *INIT)
    return made


@pytest.fixture(scope="module")
def run(project: Project) -> dict[str, Any]:
    answer: dict[str, Any] = project.json("launch", "shop", *SMALL, "--name", "shop", "--wait")
    return answer


@pytest.fixture(scope="module")
def conversations(project: Project, run: dict[str, Any]) -> list[Conversation]:
    """Those of both steps."""
    records = jsonl.read(project.path / "runs/shop/attempt_1/reward.jsonl")
    read = [convert_record(record["conversation"], Conversation) for record in records]
    return [conversation for conversation in read if conversation is not None]


def test_the_check_sees_the_tool_and_the_tokens_that_it_adds(project: Project) -> None:
    checks = {check["id"]: check for check in project.json("check", "shop")["checks"]}
    assert checks["tools"]["status"] == "ok", checks["tools"]
    assert "1 tool (price)" in checks["tools"]["message"]


def test_the_model_calls_the_tool_and_answers_in_a_second_turn(
    conversations: list[Conversation],
) -> None:
    assert len(conversations) == 32
    complete = [each for each in conversations if [call.outcome for call in each.calls] == ["ok"]]
    assert len(complete) >= 4
    assert all([turn.trained for turn in each.turns] == [True, False, True] for each in complete)


def test_no_token_of_a_reply_is_trained(conversations: list[Conversation]) -> None:
    for conversation in conversations:
        for turn in conversation.turns:
            assert ("<|im_start|>tool" in turn.text) is not turn.trained, turn


def test_turns_and_outcomes_are_metrics(project: Project, run: dict[str, Any]) -> None:
    series = project.json("metrics", "shop", "tools/turns", "tools/ok")["series"]
    assert [len(values) for values in series.values()] == [2, 2]
    assert all(1 < value <= 2 for _, value in series["tools/turns"])


def test_rollouts_print_what_is_trained(project: Project, run: dict[str, Any]) -> None:
    groups = (str(number) for number in range(1, 5))
    printed = "".join(project.run("rollouts", "shop", "--group", each).stdout for each in groups)
    assert re.search(r"turn 1, \d+ tokens: price ok", printed)
    assert re.search(r"^\+ <tool_call>", printed, re.MULTILINE)
    assert re.search(r"^  \d+ coins", printed, re.MULTILINE)


def test_an_evaluation_calls_the_tool_and_scores_the_last_turn(
    project: Project, run: dict[str, Any]
) -> None:
    evaluation = project.json("evaluate", "shop", "--limit", "4")
    [answers] = (project.path / evaluation["dir"]).glob("**/answers.jsonl")
    rows = list(jsonl.read(answers))
    assert len(rows) == 4
    assert all(row["answer"].startswith("\\boxed{") for row in rows if "boxed" in row["answer"])
    assert any(row["conversation"]["calls"] for row in rows)
