"""Only who holds the run's key can speak to its TransferQueue."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
import zmq

from engine.train import queue_key
from tests.paths import ROOT

PROGRAM = """
from pathlib import Path
from engine.train import ray_session
with ray_session.private_instance(Path("attempt")):
    import ray
    ours = {ray_session.HOOK: "engine.train.ray_session.secure_worker"}
    runtime_env = ray_session.combined(ours, {ray_session.HOOK: "own_hook.mark"})
    ray.init(num_cpus=8, include_dashboard=False, runtime_env=runtime_env)

    @ray.remote(num_cpus=0)
    def exchange():
        import os, torch, transfer_queue
        assert os.environ["OWN_HOOK"] == "ran"
        transfer_queue.init()
        fields = {"x": torch.arange(4)}
        transfer_queue.kv_put(key="a", partition_id="p", fields=fields, tag={"s": "1"})
        return transfer_queue.kv_batch_get(keys=["a"], partition_id="p")["x"][0].tolist()

    print("got", ray.get(exchange.remote()))
    ray.shutdown()
"""

OWN_HOOK = """
import os

def mark():
    os.environ["OWN_HOOK"] = "ran"
"""


def received(tmp_path: Path, *, keyed: bool) -> bool:
    env: dict[str, str] = {}
    path = str(queue_key.create(tmp_path, env))
    assert env == {queue_key.FILE_VARIABLE: path}
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    with zmq.Context() as ctx, ctx.socket(zmq.ROUTER) as server, ctx.socket(zmq.DEALER) as client:
        client.linger = server.linger = 0
        queue_key.require(server, listens=True, key_file=path)
        port = server.bind_to_random_port("tcp://127.0.0.1")
        if keyed:
            queue_key.require(client, listens=False, key_file=path)
        client.connect(f"tcp://127.0.0.1:{port}")
        client.send(b"hello")
        return bool(server.poll(20_000 if keyed else 500))


def test_only_messages_from_holders_of_the_key_arrive(tmp_path: Path) -> None:
    assert received(tmp_path, keyed=True)
    assert not received(tmp_path, keyed=False)


@pytest.mark.thorough
@pytest.mark.slow
def test_workers_that_are_not_forked_have_the_key_and_run_the_configs_hook(tmp_path: Path) -> None:
    """On a GPU and on a cluster Ray starts TransferQueue's actors, which never import verl."""
    (tmp_path / "attempt").mkdir()
    (tmp_path / "own_hook.py").write_text(OWN_HOOK)
    root = ROOT
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import os; os.environ['PYTHONPATH'] = {f'{root}:{tmp_path}'!r}\n"
            f"import sys; sys.path.insert(0, {str(root)!r})\n{PROGRAM}",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "got [0, 1, 2, 3]" in done.stdout, done.stderr[-2000:]
