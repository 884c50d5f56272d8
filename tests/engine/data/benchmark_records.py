"""Invented records with all columns of the data sets that the benchmarks read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RECORDS: Mapping[str, list[dict[str, Any]]] = {
    "gsm8k": [
        {
            "question": "A shelf has 3 boards with 350 nails each. 15 are bent. How many are not?",
            "answer": "There are 3 * 350 = <<3*350=1050>>1050 nails.\n1050 - 15 = 1035\n#### 1,035",
        },
    ],
    "math": [
        {
            "problem": "Write $1 + x + \\frac{1}{2}$ as a single term.",
            "level": "Level 1",
            "type": "Algebra",
            "solution": "First $\\boxed{0}$ is wrong. We get $\\fbox{$x+\\frac{3}{2}$}$.",
        },
    ],
    "squad_v2": [
        {
            "id": "5a01",
            "title": "Lindow",
            "context": "Lindow lies on the river Marn. The old bridge was built in 1612.",
            "question": "What was built in 1612?",
            "answers": {
                "text": ["The old bridge", "bridge", "bridge"],
                "answer_start": [31, 39, 39],
            },
        },
        {
            "id": "5a02",
            "title": "Lindow",
            "context": "Lindow lies on the river Marn. The old bridge was built in 1612.",
            "question": "Who built the church?",
            "answers": {"text": [], "answer_start": []},
        },
    ],
    "hotpotqa": [
        {
            "id": "5b01",
            "question": "Which river flows past the town of the painter Orla Venn?",
            "answer": "the Marn",
            "type": "bridge",
            "level": "medium",
            "supporting_facts": {"title": ["Orla Venn", "Lindow"], "sent_id": [0, 0]},
            "context": {
                "title": ["Orla Venn", "Lindow"],
                "sentences": [
                    ["Orla Venn was a painter from Lindow.", " She died in 1903."],
                    ["Lindow lies on the river Marn."],
                ],
            },
        },
    ],
    "humaneval": [
        {
            "task_id": "HumanEval/900",
            "prompt": 'def thrice(x: int) -> int:\n    """Return three times x."""\n',
            "canonical_solution": "    return 3 * x\n",
            "test": "METADATA = {}\n\n\ndef check(candidate):\n    assert candidate(2) == 6\n"
            "    assert candidate(-1) == -3\n",
            "entry_point": "thrice",
        },
    ],
    "mbpp": [
        {
            "task_id": 9001,
            "text": "Write a function to find the second power of a number.",
            "code": "def power_two(n):\r\n  return n * n",
            "test_list": ["assert power_two(3) == NINE", "assert power_two(-1) == 1"],
            "test_setup_code": "NINE = 9",
            "challenge_test_list": [],
        },
    ],
}


def write_records(folder: Path, name: str) -> Path:
    """A JSONL file of a benchmark's records."""
    path = folder / f"{name}.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in RECORDS[name]))
    return path
