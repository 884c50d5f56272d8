"""Small files as other trainers write them."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

DICTS = (
    "{'loss': '5.92', 'grad_norm': '3.824', 'learning_rate': '0.001', 'epoch': '0.5'}",
    "{'loss': 5.5, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': 1.0}",
    "{'eval_loss': '4.25', 'eval_runtime': '0.02', 'epoch': '1'}",
    "{'train_runtime': '0.65', 'train_loss': '5.71', 'epoch': '1'}",
)
TIMINGS = (
    "(RewardLoopWorker pid=7) WARNING STEP_TIMING step=2 gpu_phase=2.2s (rollout + gradient)",
    "(RewardLoopWorker pid=7) WARNING STEP_TIMING step=2 reward_phase: calls=6 wall=0.2s | "
    "per_reward=(avg=0.10s max=0.16s min=0.05s) | sem_wait=(avg=0.05s max=0.10s) | "
    "api=(avg=0.04s max=0.05s min=0.05s) | max_concurrent=2",
    "(RewardLoopWorker pid=8) WARNING STEP_TIMING step=2 reward_phase: calls=2 wall=0.5s | "
    "per_reward=(avg=0.10s max=0.16s min=0.05s) | sem_wait=(avg=0.25s max=0.30s) | "
    "api=(avg=0.08s max=0.05s min=0.05s) | max_concurrent=2",
)
FACTORY = {
    "current_steps": 10,
    "total_steps": 40,
    "loss": 1.25,
    "lr": 5e-05,
    "epoch": 0.25,
    "percentage": 25.0,
    "elapsed_time": "0:00:30",
    "remaining_time": "0:01:30",
}
SLO = {
    "step": 0,
    "prompt": "p",
    "reward": 1.5,
    "mean_reward": 1.25,
    "advantage": 0.5,
    "json_valid": 1,
    "latency_ms": 316.0,
    "tokens_out": 8,
    "loss": -3.5,
    "step_ms": 2500.0,
    "group_rewards": [1.0, 1.5],
    "schema_path": "s.json",
}


def verl_line(step: int, values: Mapping[str, object], lead: str = "") -> str:
    return lead + " - ".join([f"step:{step}", *(f"{name}:{text}" for name, text in values.items())])


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def trainer_state(path: Path, entries: Iterable[Mapping[str, object]], **top: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {"global_step": 2, "max_steps": 20, "log_history": list(entries), **top}
    path.write_text(json.dumps(state, indent=2))
    return path


def message(*fields: tuple[int, int | bytes | str]) -> bytes:
    """A protobuf message of integers and embedded messages or texts."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(_varint(number << 3) + _varint(value))
        else:
            raw = value.encode() if isinstance(value, str) else value
            parts.append(_varint(number << 3 | 2) + _varint(len(raw)) + raw)
    return b"".join(parts)


def history(**values: object) -> bytes:
    """A record of W&B's ``log``."""
    items = [
        message((1, message((2, name), (16, json.dumps(value))))) for name, value in values.items()
    ]
    return message((2, b"".join(items)))


def events(scalars: Iterable[tuple[int, Mapping[str, float]]]) -> bytes:
    """An event file of TensorBoard, as torch's SummaryWriter writes one: a tag per event."""
    records = [_double(1, 1e9) + message((3, "brain.Event:2"))]
    for step, values in scalars:
        for tag, value in values.items():
            scalar = message((1, tag)) + _float(2, value)
            summary = message((5, message((1, scalar))))
            records.append(_double(1, 1e9 + step) + message((2, step)) + summary)
    return b"".join(map(event_record, records))


def event_record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_crc(length) + data + _masked_crc(data)


def _masked_crc(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _float(number: int, value: float) -> bytes:
    return _varint(number << 3 | 5) + struct.pack("<f", value)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def openrlhf(step: int, values: Mapping[str, object]) -> str:
    inner = ", ".join(f"'{name}': {value}" for name, value in values.items())
    return f"(PPOTrainer pid=7) 2026-01-01 00:00:00 INFO ✨ Global step {step}: {{{inner}}}"


def openrlhf_bar(epoch: int, done: int, total: int, postfix: str) -> str:
    bar = f"Train step of epoch {epoch}:  10%|#   | {done}/{total}"
    return f"{bar} [00:05<00:45,  2.00it/s, {postfix}]"


def torchtune(step: int, loss: float) -> str:
    return f"1|{step}|Loss: {loss!r}:  10%|#   | {step}/250 [00:05<00:45,  2.00it/s]"


def prime_rl(step: int, fields: str) -> str:
    return f"12:00:01 \x1b[32mSUCCESS\x1b[0m Step {step} | Time: 12.30s | {fields}"


def nemo_rl(step: int, total: int, loss: float, reward: float) -> list[str]:
    return [
        f"{'=' * 25} Step {step}/{total} {'=' * 25}",
        "▶ Preparing batch...",
        "📊 Training Results:",
        f"  • Loss: {loss:.4f}",
        f"  • Avg Reward: {reward:.4f}",
        "  • Mean Generation Length: 120.5000",
        "⏱️  Timing:",
        "  • Total step time: 12.50s",
        "  • policy_training: 4.50s (36.0%)",
    ]


def open_instruct(step: int, loss: float) -> list[str]:
    """The metrics of one step, with a row that is too long for one line."""
    rows = [
        f"loss       policy_avg: {loss} | kl_avg: 0.01",
        f"other      episode: {step * 8} | training_step: {step} | lr: 1e-06 |",
        "           scores: 0.25",
        "val        sequence_lengths: 120.50 | stop_rate: 1.00",
    ]
    return [
        f"╭{'─' * 20} Metrics {'─' * 20}╮",
        *(f"│  {row:<60}│" for row in rows),
        f"╰{'─' * 60}╯",
    ]


def wandb_log(records: Iterable[bytes]) -> bytes:
    """A transaction log: records in the pieces that blocks of 32 KiB leave room for."""
    data = bytearray(b":W&B\xe1\xbe\x00")
    for record in records:
        rest, first = record, True
        while first or rest:
            room = 32768 - len(data) % 32768
            if room < 7:
                data += bytes(room)
                continue
            body, rest = rest[: room - 7], rest[room - 7 :]
            kind = (1 if not rest else 2) if first else (4 if not rest else 3)
            checksum = zlib.crc32(bytes([kind]) + body)
            data += struct.pack("<IHB", checksum, len(body), kind) + body
            first = False
    return bytes(data)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
