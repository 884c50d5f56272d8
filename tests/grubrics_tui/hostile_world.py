"""The world of ``world.py`` with hostile text wherever a run, a config or a log holds text."""

from __future__ import annotations

import functools
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.base import jsonl
from engine.checks.check import Check
from engine.run.run import Run
from engine.run.trust import vouch
from tests.engine.run.history.rollout_files import record, row, write_dump, write_records
from tests.grubrics_tui.world import NOW, World, make_world
from tests.hostile_text import (
    ALL,
    HOSTILE,
    LINE,
    LINES,
    LONE_SURROGATE,
    LONG,
    LONG_RESPONSE,
    MARKUP,
)

FOLDER = f"[red]{MARKUP}\x1b[2J\x1b]0;owned\x07\u202e\u200b\udcff".replace("/", "_")
"""As hostile as the name of a folder can be: everything but a slash and NUL."""


def make_hostile_world() -> World:
    """The runs keep ids that the list accepts; they are also reached by way of ``FOLDER``."""
    world = make_world()
    _spoil(world.night)
    _spoil(world.day, LONG.encode())
    _spoil(world.warmup)
    _spoil_rollouts(world.day)
    _spoil_configs()
    _write_records()
    _write_scripts()
    return replace(
        world,
        night=_elsewhere(world.night, "night"),
        day=_elsewhere(world.day, "day"),
        warmup=_elsewhere(world.warmup, "warmup"),
        overrides=(*world.overrides, f"grubrics.description={json.dumps(ALL)}"),
        checks=tuple(Check(check.id, check.status, ALL, ALL) for check in world.checks),
        text=ALL,
    )


def _elsewhere(run: Run, place: str) -> Run:
    path = Path(place) / FOLDER
    path.parent.mkdir()
    path.symlink_to(run.path.resolve())
    return Run(path)


def _spoil(run: Run, *long: bytes) -> None:
    state = json.loads(run.state_file.read_text())
    told = {"reason": ALL, "signal": ALL} if state["ended"] else {"waiting_for": ALL}
    jsonl.write_json(run.state_file, {**state, **told, "host": ALL})
    _spoil_manifest(run)
    for n, name in enumerate((*HOSTILE.values(), ALL, LONE_SURROGATE)):
        _log(run, 1 + n % 5, {name: 0.5, f"val-core/{name}/reward/mean@1": 0.25})
    _log(run, 12, {MARKUP: 0.75, "reward/max": float("inf")})
    text = run.attempt(1).console.read_bytes()
    spoilt = text.replace(b"out of memory", b"out of memory. " + MARKUP.encode() + LINE.encode())
    run.attempt(1).console.write_bytes(spoilt)
    with run.attempt(1).console.open("ab") as console:
        console.writelines(line + b"\n" for line in (*LINES, *long))
    for event in ("warning", "checkpoint", "stall", "finding", "stop"):
        jsonl.append(run.events, {"v": 1, "t": NOW, "event": event, "step": 5, "message": ALL})
    gpu = {"index": 0, "name": ALL, "util": 50, "mem_used": 1, "mem_total": 2}
    jsonl.append(run.attempt(1).system, {"v": 1, "t": NOW, "gpus": [gpu]})
    jsonl.write_json(run.notes_file, {"v": 1, "tags": ["ok", ALL], "text": f"{MARKUP}\n{ALL}"})
    vouch(run)


def _log(run: Run, step: int, metrics: dict[str, float]) -> None:
    line = {"v": 1, "step": step, "attempt": 1, "t": NOW, "metrics": metrics}
    with run.train_log.open("a") as log:
        log.write(json.dumps(line) + "\n")


def _spoil_manifest(run: Run) -> None:
    manifest: dict[str, Any] = json.loads(run.manifest_file.read_text())
    entry = {"value": f"{run.id} {ALL}", "origin": ALL}
    config = {**manifest["config"], "trainer.experiment_name": entry, f"algorithm.{ALL}": entry}
    texts = dict.fromkeys(
        ("recipe", "name", "description", "config_path", "fingerprint", "git", "python"), ALL
    )
    change = {"key": ALL, "before": ALL, "after": ALL, "origin": ALL}
    environment = {"variables": {ALL: f"{run.id}{ALL}"}, "packages": {ALL: f"{run.id}{ALL}"}}
    jsonl.write_json(
        run.manifest_file,
        {
            **manifest,
            **texts,
            "config": config,
            "changes": [change],
            "environment": environment,
            "argv": ["python", ALL],
            "data": {ALL: {"sha256": f"{run.id}{ALL}"}},
        },
    )


def _spoil_rollouts(run: Run) -> None:
    attempt = run.attempt(1).path
    group = f"0 {LINE}"
    error = {"kind": ALL, "message": ALL}
    texts = {"question_id": ALL, "rubric": ALL}
    write_records(attempt, [record(group, n, 0.1 * n, 10, **texts) for n in (1, 2)])
    write_records(attempt, [record(group, 3, None, 10, **{**texts, "error": error})])
    write_dump(attempt, 10, [row(group, 1, 0.1) | {"input": ALL, "output": ALL}])
    with (attempt / "rollouts" / "10.jsonl").open("ab") as dump:
        dump.write(_long_row(group))


@functools.cache
def _long_row(group: str) -> bytes:
    """Encoded once for all worlds of a session: it takes longer than the rest of a world."""
    long = {"step": 10, **row(group, 2, 0.2), "input": ALL, "output": LONG_RESPONSE}
    return (json.dumps(long, ensure_ascii=False) + "\n").encode()


def _spoil_configs() -> None:
    """A config of hostile values and name, and one that cannot be read."""
    text = Path("configs/small.yaml").read_text().replace("a small warm-up", json.dumps(ALL))
    Path("configs/small.yaml").write_text(text)
    name = FOLDER[:60].encode(errors="surrogateescape").decode(errors="ignore")
    Path(f"configs/{name}.yaml").write_text(text)
    Path("configs/broken.yaml").write_bytes(b"grubrics: {kind: sft, " + ALL.encode())


def _write_scripts() -> None:
    """A script of verl and a config of AFlow, for ``import``."""
    start = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo"
    values = shlex.quote(f"trainer.project_name={ALL}")
    keys = shlex.quote(f"+trainer.{ALL}=1")
    text = f"export A={shlex.quote(ALL)}\n{start} {values} {keys} x.$({ALL}) $1\n{values}\n"
    Path("hostile.sh").write_text(text)
    values = json.dumps({"base_model": ALL, "train_dataset": ALL, ALL: ALL})
    Path("hostile-aflow.yaml").write_text(values)
    hostile = [{"run": ["sh", "-c", ALL.replace("\0", "")], "name": "x"}, {"grpo": ["small", ALL]}]
    Path("hostile-pipeline.yaml").write_text(json.dumps({"name": "p", "stages": hostile}))
    last = {"run": ["echo", MARKUP, "$x.run"], "name": "y"}
    Path("pipeline.yaml").write_text(json.dumps({"name": "p", "stages": [hostile[0], last]}))


def _write_records() -> None:
    """Questions of hostile texts and columns, some of which are no questions."""
    texts = [*HOSTILE.values(), ALL, LONE_SURROGATE, *LINES]
    records = [
        {"question": f"{n} {text}", "answer": text} for n, text in enumerate(map(str, texts))
    ]
    records.append({"question": ALL, "answer": "5", "kind": ALL})
    _write_rewarded(str(MARKUP), ALL)
    records += [{ALL: "x", "question": "y", "answer": "z"}, {"question": "", "answer": ALL}]
    Path("records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def _write_rewarded(*truths: str) -> None:
    """A config whose ground truths are hostile, and whose reward function raises hostile texts."""
    rows = [
        {
            "data_source": ALL,
            "prompt": [{"role": "user", "content": ALL}],
            "reward_model": {"ground_truth": truth.replace("\0", ""), "style": "rule"},
            "extra_info": {"index": number},
        }
        for number, truth in enumerate(truths)
    ]
    pq.write_table(pa.Table.from_pylist(rows), "hostile.parquet")
    Path("hostile.py").write_text(
        "def compute_score(solution_str, ground_truth, **_):\n"
        "    if not solution_str:\n        raise ValueError(ground_truth)\n"
        "    return float(solution_str == ground_truth)\n"
    )
    Path("configs/hostile-reward.yaml").write_text(
        "grubrics: {kind: grpo, device: cpu}\n"
        "reward: {custom_reward_function: {path: hostile.py}}\n"
        "data: {train_files: hostile.parquet, val_files: hostile.parquet}\n"
    )


def external_logs() -> dict[str, Path]:
    """What other trainers write, with hostile names of metrics and of files."""
    folder = Path("external")
    folder.mkdir()
    words = [name.replace(" ", "_") for name in (*HOSTILE.values(), ALL)]
    values = [f"{name}:0.5" for name in words if "\n" not in name]
    lines = [f"step:{n} - actor/pg_loss:0.5 - {' - '.join(values)}\n{ALL}\n" for n in (1, 2, 3)]
    console = folder / f"{FOLDER}.log"
    console.write_text("".join(lines), errors="surrogateescape")
    records = [{"step": n, "data": {ALL: 0.5, MARKUP: 0.5, "actor/loss": 1.0}} for n in (1, 2, 3)]
    metrics = folder / f"{FOLDER}.jsonl"
    metrics.write_text("".join(json.dumps(one) + "\n" for one in records))
    hf = folder / "trainer_state.json"
    entries = [{"step": n, "loss": 0.5, ALL: 0.5} for n in (1, 2)]
    model = {"_name_or_path": ALL}
    hf.write_text(json.dumps({"global_step": 2, "max_steps": 9, "log_history": entries, **model}))
    return {"verl": console, "verl-jsonl": metrics, "hf-state": hf}
