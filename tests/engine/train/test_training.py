"""verl really trains here: GRPO with and without LoRA, SFT on one rank and on two."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.base import jsonl
from engine.data.conversations import read_conversations
from engine.train.export_model import export_model
from engine.train.final_checkpoint import export, merged_state
from tests.engine.train.conftest import SmallWorld
from tests.paths import CONFIGS
from tests.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.slow

QUEUE_PROCESSES = ("ray::TransferQu", "ray::SimpleStor")
TOKEN = "an-opaque-token-of-this-test"
Listener = tuple[str, str, int]
DIGITS = """
def compute_score(solution_str, extra_info, **_):
    if extra_info["index"] in EQUAL:
        return 0.0
    return sum(c.isdigit() for c in solution_str) / max(1, len(solution_str))
"""
FAILING = """
import pathlib
calls = pathlib.Path(__file__ + ".calls")

def compute_score(solution_str, **_):
    with calls.open("ab") as file:
        file.write(b".")
        call = file.tell()
    while call == 1: pass
    if (call % 2 == 0 and call <= 8) or call > 16:
        raise ValueError("no backend")
    return float(len(solution_str))
"""
"""Of the 8 rollouts of the first step one hangs and four fail; of the third step all fail."""


def command(
    world: SmallWorld,
    folder: Path,
    *overrides: str,
    reward: str = DIGITS.replace("EQUAL", "()"),
    config: str = "grpo_tiny",
) -> list[str]:
    """A GRPO run of two steps of 8 rollouts, with a reward of that code."""
    (folder / "reward.py").write_text(reward)
    settings = [
        f"actor_rollout_ref.model.path={world.model}",
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.rollout.n=4",
        f"data.train_files={world.train}",
        f"data.val_files={world.val}",
        "data.train_batch_size=2",
        "data.max_prompt_length=64",
        "data.max_response_length=16",
        f"reward.custom_reward_function.path={folder / 'reward.py'}",
        "trainer.total_training_steps=2",
        "trainer.test_freq=-1",
        "trainer.save_freq=2",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
    ]
    path = CONFIGS / f"{config}.yaml"
    start = [sys.executable, "-m", "engine.train.grpo", "--config", str(path)]
    return [*start, *settings, *overrides]


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        cwd=folder,
        env={**os.environ, "GRUBRICS_ATTEMPT_DIR": str(folder / "attempt_1")},
        capture_output=True,
        text=True,
    )


def watched_run(
    arguments: list[str], folder: Path
) -> tuple[subprocess.CompletedProcess[str], set[Listener]]:
    """``run``, and whatever its processes listened on meanwhile."""
    found: set[Listener] = set()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run, arguments, folder)
        while not done.done():
            found.update(listeners(psutil.Process().children(recursive=True)))
            time.sleep(0.05)
        return done.result(), found


def listeners(processes: list[psutil.Process]) -> list[Listener]:
    """Name of the process, address and port of every TCP socket that they listen on."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            found += [
                (process.name(), str(conn.laddr.ip), int(conn.laddr.port))
                for conn in process.net_connections("tcp")
                if conn.status == psutil.CONN_LISTEN
            ]
    return found


def on_loopback(listener: Listener) -> bool:
    address = ipaddress.ip_address(listener[1])
    mapped = address.ipv4_mapped if address.version == 6 else None
    return (mapped or address).is_loopback


def own_address() -> str:
    """An address of this host that other hosts may reach, or one that only looks like it."""
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if (
                address.family == socket.AF_INET
                and not ipaddress.ip_address(address.address).is_loopback
            ):
                return address.address
    pytest.skip("this host has no address but loopback")


class Touch:
    """Unpickling one creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def send_pickle(address: str, port: int, executed: Path, *, keyed: bool) -> None:
    """Send a message as TransferQueue's clients do, whose decoding creates ``executed``."""
    import msgpack
    import zmq

    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.setsockopt(zmq.IDENTITY, b"TQ_STORAGE_stranger")
        stranger.linger = stranger.sndtimeo = 1000
        if keyed:
            stranger.curve_serverkey, _ = zmq.curve_keypair()
            stranger.curve_publickey, stranger.curve_secretkey = zmq.curve_keypair()
        stranger.connect(f"tcp://{address.removeprefix('::ffff:')}:{port}")
        message = msgpack.packb(msgpack.ExtType(1, pickle.dumps(Touch(executed))))
        with contextlib.suppress(zmq.Again):  # after a refused handshake there is nobody to send to
            stranger.send_multipart([message])
        stranger.poll(500)  # no answer is expected; it leaves time for the handshake


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = jsonl.read(folder / "attempt_1" / "metrics.jsonl")
    return [line["data"] for line in lines if "actor/loss" in line["data"]]


# The debug config is for one GPU; on a CPU it must reach its end too. Its bf16 and its top_p give
# the rollout other probabilities than the trainer by design.
ON_CPU = [
    "grubrics.device=cpu",
    "judge.provider=offline",
    "actor_rollout_ref.rollout.dtype=float32",
    "actor_rollout_ref.rollout.top_p=1.0",
]
MERGED = ["actor_rollout_ref.model.lora_rank=4", "actor_rollout_ref.model.lora.merge=true"]


FILTER = "algorithm.filter_groups.enable=true"


@pytest.mark.thorough
@pytest.mark.row("V10")
def test_grpo_trains_and_its_checkpoint_becomes_a_model(world: SmallWorld, tmp_path: Path) -> None:
    reward = DIGITS.replace("EQUAL", "range(0, 12, 2)")
    optim = "actor_rollout_ref.actor.optim"
    settings = (f"{optim}.betas=[0.8,0.95]", f"{optim}.weight_decay=0.07", f"{optim}.lr=3e-4")
    given = command(
        world, tmp_path, "trainer.val_before_train=false", FILTER, *settings, reward=reward
    )
    done = run(given, tmp_path)
    assert done.returncode == 0, done.stdout[-3000:]
    saved = tmp_path / "checkpoints" / "global_step_2" / "actor"
    (group,) = torch.load(saved / "optim_world_size_1_rank_0.pt")["param_groups"]
    assert (group["betas"], group["weight_decay"], group["initial_lr"]) == ((0.8, 0.95), 0.07, 3e-4)
    check_filtered(metrics(tmp_path), tmp_path / "attempt_1")
    check_trained(world, tmp_path, tmp_path / "final")


def check_trained(world: SmallWorld, folder: Path, out: Path) -> None:
    """The steps trained with the rollouts of their weights; a model of step 2 is exported."""
    steps = metrics(folder)
    assert len(steps) >= 2
    # The rollout's weights follow the trainer's: both give a token the same probability.
    assert all(step["training/rollout_probs_diff_max"] < 1e-4 for step in steps)
    assert all(step["actor/grad_norm"] > 0 for step in steps)
    final = export(folder / "checkpoints" / "global_step_2", out)
    check_exported(folder / "checkpoints" / "global_step_2", folder / "exported")
    trained = AutoModelForCausalLM.from_pretrained(final).state_dict()
    before = AutoModelForCausalLM.from_pretrained(world.model).state_dict()
    assert any(not torch.equal(trained[name], before[name]) for name in before)


def check_exported(checkpoint: Path, out: Path) -> None:
    """The exported model, LoRA merged, has the logits of the checkpoint."""
    job = {"form": "checkpoint", "source": str(checkpoint), "out": str(out), "dtype": None}
    proof = export_model(job)
    assert proof["prompts"] == 8 and proof["largest_difference"] <= 1e-5
    assert [path for path in out.parent.iterdir() if path.name.startswith(f".{out.name}")] == []


def check_filtered(steps: list[dict[str, Any]], attempt: Path) -> None:
    """Groups of equal reward were generated, replaced, counted, and none of them was trained."""
    evicted = 0.0
    for number, step in enumerate(steps, start=1):
        trained = groups(attempt / "rollouts" / f"{number}.jsonl", "score", "uid")
        assert len(trained) == 2 and all(len(set(scores)) > 1 for scores in trained.values())
        assert step["training/groups/trained_total"] == 2
        generated = groups(attempt / "reward.jsonl", "reward", "group", step=number)
        equal = [group for group, rewards in generated.items() if len(set(rewards)) == 1]
        assert step["training/filter_groups/evicted_samples"] == len(equal)
        assert not set(equal) & set(trained)
        evicted += len(equal)
    assert evicted


def groups(path: Path, score: str, name: str, **where: Any) -> dict[str, list[float]]:
    """The scores of each group of rollouts in a file."""
    found: dict[str, list[float]] = {}
    for line in jsonl.read(path):
        if all(line[key] == value for key, value in where.items()):
            found.setdefault(line[name].split("_")[0], []).append(line[score])
    return found


@dataclass(frozen=True)
class Failed:
    folder: Path
    code: int
    said: str


@pytest.fixture(scope="module")
def failed(world: SmallWorld, tmp_path_factory: pytest.TempPathFactory) -> Failed:
    """A GRPO run of an adapter whose reward fails ever more, at a temperature that falls."""
    folder = tmp_path_factory.mktemp("failed")
    settings = (
        "trainer.total_training_steps=3",
        "trainer.val_before_train=false",
        "grubrics.max_failed_share=0.7",
        "grubrics.reward_timeout_s=2",
        "grubrics.temperature_schedule.initial=1.6",
        "grubrics.temperature_schedule.final=0.4",
        "grubrics.temperature_schedule.steps=3",
        "grubrics.response_length_schedule.initial=16",
        "grubrics.response_length_schedule.final=10",
        "grubrics.response_length_schedule.steps=3",
    )
    given = command(world, folder, *settings, *ON_CPU, config="verl_grpo_debug", reward=FAILING)
    done = run(given, folder)
    return Failed(folder, done.returncode, done.stdout + done.stderr)


@pytest.mark.row("G13")
def test_grpo_trains_an_adapter_and_its_checkpoint_becomes_a_model(
    world: SmallWorld, failed: Failed, tmp_path: Path
) -> None:
    check_trained(world, failed.folder, tmp_path / "final")


@pytest.mark.row("V20", "A12")
def test_failed_and_hanging_rewards_are_left_out_and_counted_and_too_many_stop_the_run(
    failed: Failed,
) -> None:
    records = list(jsonl.read(failed.folder / "attempt_1" / "reward.jsonl"))
    first = [record for record in records if record["step"] == 1]
    without = [record for record in first if record["reward"] is None]
    assert (len(without), len(first)) == (5, 8)
    [hung] = [record for record in without if record["error"]["kind"] == "reward_timeout"]
    assert hung["error"]["message"] == "compute_score gave no score within 2 s (reward.py:9)"
    assert {record["error"]["message"] for record in without if record is not hung} == {
        "ValueError: no backend (reward.py:11)"
    }
    shares = [step["reward/failed_share"] for step in metrics(failed.folder)]
    assert shares == pytest.approx([5 / 8, 0])
    assert failed.code == 1
    assert "step 3: 8 of 8 rollouts got no reward" in failed.said


@pytest.mark.row("A09")
def test_a_step_trains_at_the_temperature_of_its_rollouts(failed: Failed) -> None:
    steps = metrics(failed.folder)
    assert [step["rollout/temperature"] for step in steps] == pytest.approx([1.2, 0.8])
    # With the temperature of the config in either place, they differ by 2e-4 and more.
    assert [step["training/rollout_probs_diff_max"] for step in steps] == pytest.approx(
        [0.0, 0.0], abs=1e-6
    )


@pytest.mark.row("A10")
def test_no_response_is_longer_than_its_step_allows(failed: Failed) -> None:
    steps = metrics(failed.folder)
    limits = [step["rollout/max_response_length"] for step in steps]
    longest = [step["response_length/max"] for step in steps]
    assert limits == [14, 12]
    assert all(length <= limit for length, limit in zip(longest, limits, strict=True))


@dataclass(frozen=True)
class Live:
    driver: subprocess.Popen[bytes]
    folder: Path

    def processes(self) -> list[psutil.Process]:
        driver = psutil.Process(self.driver.pid)
        return [driver, *driver.children(recursive=True)]


@pytest.fixture(scope="module")
def live(world: SmallWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A GRPO run of merged adapters in the midst of its steps; whoever needs its end ends it."""
    folder = tmp_path_factory.mktemp("live")
    passed_on = "+ray_kwargs.ray_init.runtime_env.env_vars.PASSED_ON=${oc.env:MY_TOKEN}"
    settings = (
        "trainer.total_training_steps=5000",
        "trainer.val_before_train=false",
        "trainer.max_actor_ckpt_to_keep=5000",
    )
    arguments = command(world, folder, *settings, *MERGED, passed_on)
    environment = {
        **os.environ,
        "MY_TOKEN": TOKEN,
        "GRUBRICS_ATTEMPT_DIR": str(folder / "attempt_1"),
        "GRUBRICS_RUN_ID": folder.name,
    }
    with (folder / "out").open("wb") as out:
        driver = subprocess.Popen(arguments, cwd=folder, env=environment, stdout=out, stderr=out)
    try:
        wait_for(lambda: metrics(folder) or driver.poll() is not None)
        assert driver.poll() is None, (folder / "out").read_text()[-3000:]
        yield Live(driver, folder)
    finally:
        if driver.poll() is None:
            driver.terminate()
            driver.wait(PATIENCE_S)


def test_grpo_trains_merged_adapters_and_its_checkpoint_becomes_a_model(
    world: SmallWorld, live: Live, tmp_path: Path
) -> None:
    wait_for(lambda: len(metrics(live.folder)) >= 2)  # logged once the checkpoint is written
    check_trained(world, live.folder, tmp_path / "final")


def test_nothing_of_a_run_listens_beyond_this_host(live: Live) -> None:
    listening = listeners(live.processes())
    assert len(listening) > 20
    assert [listener for listener in listening if not on_loopback(listener)] == []


def test_a_secret_that_the_config_refers_to_reaches_the_workers_and_no_file(live: Live) -> None:
    reward = next(
        process for process in live.processes() if process.name().startswith("ray::RewardLoop")
    )
    assert reward.environ()["PASSED_ON"] == TOKEN
    folders = (live.folder, Path((live.folder / "attempt_1" / "ray_dir.txt").read_text().strip()))
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert live.folder / "out" in files
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []


def test_no_socket_of_a_run_answers_at_another_address_of_this_host(live: Live) -> None:
    elsewhere = own_address()
    for _, _, port in listeners(live.processes()):
        with socket.socket() as stranger, pytest.raises(ConnectionRefusedError):
            stranger.connect((elsewhere, port))


@pytest.mark.sample(1)
@pytest.mark.parametrize("holds", ["no key", "another key"])
def test_a_local_stranger_cannot_have_a_message_unpickled(
    live: Live, tmp_path: Path, holds: str
) -> None:
    """TransferQueue executes what a pickle in a message says, for whoever reaches its handlers."""
    executed = tmp_path / "executed"
    queue = [
        listener
        for listener in listeners(live.processes())
        if listener[0].startswith(QUEUE_PROCESSES)
    ]
    assert len(queue) >= 3
    before = len(metrics(live.folder))
    for _, address, port in queue:
        send_pickle(address, port, executed, keyed=holds == "another key")
    wait_for(lambda: len(metrics(live.folder)) >= before + 2)
    assert not executed.exists()


def test_the_same_message_is_executed_by_a_queue_without_key(tmp_path: Path) -> None:
    """Shows that the message of the test above is one that TransferQueue would obey."""
    import zmq
    from transfer_queue.utils.serial_utils import decode

    executed = tmp_path / "executed"
    with zmq.Context() as context, context.socket(zmq.ROUTER) as server:
        port = server.bind_to_random_port("tcp://127.0.0.1")
        send_pickle("127.0.0.1", port, executed, keyed=False)
        assert server.poll(10_000)
        decode(server.recv_multipart()[1:])
    assert executed.exists()


def test_a_signal_ends_everything_and_shows_in_the_exit_code(live: Live) -> None:
    started = live.processes()[1:]
    assert len(started) > 10
    live.driver.send_signal(signal.SIGTERM)
    assert live.driver.wait(PATIENCE_S) == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(started, timeout=PATIENCE_S)
    assert alive == []


@pytest.mark.sample(1)
@pytest.mark.row("V07", "V10", "V15", "H13", "G15")
@pytest.mark.parametrize("shape", ["full", "lora", "two-ranks"])
def test_sft_ends_with_a_loadable_folder(world: SmallWorld, tmp_path: Path, shape: str) -> None:
    optimizer = [
        "training.betas=[0.8,0.95]",
        "training.eps=1e-6",
        "training.weight_decay=0.07",
        "training.min_lr_ratio=0.25",
        "training.warmup_ratio=0.34",
    ]
    validation = [f"data.val_file={world.conversations}", "training.eval_steps=2"]
    extra = {
        "full": [*optimizer, *validation],
        "lora": [f"data.train_file={in_pairs(world, tmp_path)}", "lora.r=4", "lora.alpha=8"],
        "two-ranks": ["training.n_gpus=2", "training.per_device_train_batch_size=4"],
    }[shape]
    settings = [
        f"model.path={world.model}",
        f"data.train_file={world.conversations}",
        f"training.output_dir={tmp_path / 'out'}",
        "training.max_steps=3",
        "training.learning_rate=0.01",
    ]
    config = CONFIGS / "sft_tiny.yaml"
    start = [sys.executable, "-m", "engine.train.sft", "--config", str(config)]
    done, listening = watched_run([*start, *settings, *extra], tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert listening and [listener for listener in listening if not on_loopback(listener)] == []
    final = tmp_path / "out" / "final"
    assert done.stdout.splitlines()[-1] == f"final model: {final}"
    model = AutoModelForCausalLM.from_pretrained(final)
    assert model.dtype == torch.float32
    assert AutoTokenizer.from_pretrained(final).chat_template
    name = "model.layers.0.self_attn.q_proj.weight"
    check_times(tmp_path, ranks=2 if shape == "two-ranks" else 1)
    expected = trained_weight(tmp_path / "out" / "global_step_3", name)
    torch.testing.assert_close(model.state_dict()[name], expected)
    if shape == "lora":
        check_adapter(world, tmp_path / "out" / "global_step_3")
    if shape != "full":
        check_exported(tmp_path / "out" / "global_step_3", tmp_path / "exported")
    if shape == "full":
        state = torch.load(tmp_path / "out" / "global_step_3" / "optim_world_size_1_rank_0.pt")
        (group,) = state["param_groups"]
        assert group["betas"] == (0.8, 0.95) and group["eps"] == 1e-6
        assert group["weight_decay"] == 0.07 and group["initial_lr"] == 0.01
        rates = [float(rate) for rate in re.findall(r"train/lr:([\d.e-]+)", done.stdout)]
        assert rates == pytest.approx([0.01, 0.01 * (1 + 0.25) / 2, 0.01 * 0.25])
        assert re.findall(r"step:(\d+) - val/loss", done.stdout) == ["2", "3"]


def check_adapter(world: SmallWorld, checkpoint: Path) -> None:
    """Only the adapter was trained, and it began as no change: B, which starts at 0, moved by at
    most the learning rate a step."""
    before, state = AutoModelForCausalLM.from_pretrained(world.model).state_dict(), {}
    for name, value in merged_state(checkpoint).items():
        state[name.removeprefix("base_model.model.").replace(".base_layer", "")] = value
    assert all(torch.equal(state[name], before[name]) for name in before if name in state)
    moved = [value.abs().max() for name, value in state.items() if "lora_B" in name]
    assert moved and all(0 < largest <= 3 * 0.01 * 1.01 for largest in moved)


def check_times(folder: Path, ranks: int) -> None:
    """Every step has the times of its parts, and the tokens per second that follow from them."""
    lines = [line["data"] for line in jsonl.read(folder / "attempt_1" / "metrics.jsonl")]
    steps = [data for data in lines if "train/loss" in data]
    assert len(steps) == 3
    for data in steps:
        parts = data["timing_s/data"] + data["timing_s/update"]
        assert data["timing_s/data"] > 0 and parts == pytest.approx(data["timing_s/step"])
        rate = data["train/global_tokens"] / data["timing_s/step"] / ranks
        assert data["perf/throughput"] == pytest.approx(rate)


def in_pairs(world: SmallWorld, folder: Path) -> Path:
    """The conversations as prompts and responses in parquet."""
    conversations = read_conversations(world.conversations)
    rows = [{"prompt": a["content"], "response": b["content"]} for a, b in conversations]
    path = folder / "pairs.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def trained_weight(checkpoint: Path, name: str) -> torch.Tensor:
    """What verl saved for one weight, LoRA added by hand: W + (alpha / r) B A."""
    state = merged_state(checkpoint)
    if name in state:
        return state[name]
    stem = f"base_model.model.{name.removesuffix('.weight')}"
    a, b = (state[f"{stem}.lora_{side}.default.weight"] for side in "AB")
    return state[f"{stem}.base_layer.weight"] + 8 / 4 * b @ a
