"""SFT with verl: ``python -m engine.train.sft --config FILE [key=value ...]``.

One rank trains in this process, more go through torchrun. Ends with a HF folder in
``<training.output_dir>/final/``. Exit codes: 0 done, 1 the run failed, 2 unusable input, 128+n
signal n.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.config.compose import deterministic_variables
from engine.config.load import Config
from engine.config.sft_compose import TRAIN_PARQUET, VAL_PARQUET, SftPlan, plan, verl_config
from engine.data.conversations import read_conversations
from engine.run.history import metrics
from engine.run.kinds import SFT
from engine.train import environment, skipped_updates
from engine.train.environment import StopSignals, require_variables
from engine.train.grpo import logged, read_config
from engine.train.ray_session import LOOPBACK_INTERFACE
from engine.train.sft_inputs import saved_step, shuffled, starting_checkpoint, write_parquet


def main(arguments: Sequence[str]) -> int:
    try:
        config = read_config(SFT, arguments)
        require_variables(deterministic_variables(config, os.environ))
        attempt = environment.attempt_dir(os.environ, config.kind.name)
        steps, composed = prepare(config, attempt)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    environment.prepare(os.environ, str(config.get("grubrics.device")))
    environment.keep_compiled_code_private(os.environ, attempt / "torchinductor")
    skipped_updates.announce(config.get("grubrics.max_skipped_updates"), os.environ)
    os.environ.update(LOOPBACK_INTERFACE)
    signals = StopSignals()
    try:
        return run(config, composed, steps, attempt)
    except KeyboardInterrupt:
        print(f"stopped by {signals.received.name}", file=sys.stderr)
        return signals.exit_code


def prepare(config: Config, attempt: Path) -> tuple[SftPlan, dict[str, Any]]:
    """Read the data, write it as parquet into the attempt, compose verl's configuration."""
    conversations = read_conversations(Path(config.values["data.train_file"]))
    steps = plan(config, len(conversations))
    val_file = config.get("data.val_file")
    held_out = read_conversations(Path(val_file)) if val_file else None
    val = attempt / VAL_PARQUET if held_out else None
    start = starting_checkpoint(config, steps.steps_per_epoch, attempt / "start")
    composed = verl_config(config, steps, attempt / TRAIN_PARQUET, val, start)
    rows = shuffled(conversations, int(config.values["training.seed"]))
    write_parquet(rows, attempt / TRAIN_PARQUET)
    if held_out and val:
        write_parquet(held_out, val)
    return steps, composed


def run(config: Config, composed: dict[str, Any], steps: SftPlan, attempt: Path) -> int:
    ranks = int(config.values["training.n_gpus"])
    port = int(config.values["training.master_port"])
    resume_from = config.get("training.resume_from")
    reached = 0 if resume_from is None else saved_step(Path(resume_from))
    if resume_from is not None and reached >= steps.total_steps:  # only the final model is missing
        return write_final(config, Path(resume_from))
    code = (
        train_one_rank(composed, port)
        if ranks == 1
        else train_ranks(composed, ranks, port, attempt)
    )
    reached = max((int(line.get("step", 0)) for line in logged(attempt)), default=reached)
    if code != 0 or reached < steps.total_steps:
        print(f"ended at step {reached} of {steps.total_steps}", file=sys.stderr)
        return code or 1
    return write_final(config, Path(config.values["training.output_dir"], f"global_step_{reached}"))


def train_one_rank(config: dict[str, Any], port: int) -> int:
    """Train in this process; torch.distributed needs an address even for one rank. With port 0 its
    store listens on a free one."""
    os.environ.update(
        RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    train_rank(config)
    return 0


def train_ranks(config: dict[str, Any], ranks: int, port: int, attempt: Path) -> int:
    """Train with torchrun, which ends every rank when one fails. Returns its exit code. With port 0
    its store listens on a free one, and the ranks are told which: only the c10d rendezvous does so.
    """
    path = attempt / "sft_config.json"
    jsonl.write_json(path, config)
    command = [sys.executable, "-m", "engine.train.sft_rank", f"--nproc_per_node={ranks}"]
    command += ["--nnodes=1", "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}"]
    command += ["--rdzv_conf=is_host=1", "--local_addr=127.0.0.1"]
    command += ["-m", "engine.train.sft_rank", str(path)]
    process = subprocess.Popen(command)
    try:
        code = process.wait()
    finally:
        process.terminate()
        process.wait()
    # As a shell shows a signal; sys.exit would turn -9 into 247.
    return code if code >= 0 else 128 - code


def train_rank(config: dict[str, Any]) -> None:
    """verl's SFT trainer, in this process as one rank. LoRA's initial weights follow the seed."""
    import torch
    from omegaconf import OmegaConf
    from verl.trainer.sft_trainer import SFTTrainer
    from verl.utils.distributed import destroy_global_process_group, initialize_global_process_group

    torch.manual_seed(config["trainer"]["seed"])
    initialize_global_process_group()
    trainer = SFTTrainer(config=OmegaConf.create(json.loads(json.dumps(config))))
    time_steps(trainer)
    trainer.fit()
    destroy_global_process_group()


def write_final(config: Config, checkpoint: Path) -> int:
    from engine.train.final_checkpoint import export

    output = Path(config.values["training.output_dir"])
    dtype = "bfloat16" if config.values["training.bf16"] else "float32"
    final = export(checkpoint, output / "final", dtype)
    print(f"next: grubrics-tui launch CONFIG actor_rollout_ref.model.path={final}")
    print(f"final model: {final}", flush=True)
    return 0


class StepClock:
    """Measures the current step. It begins with the wait for its rows."""

    def __init__(self) -> None:
        self._start = self._got_rows = 0.0

    def rows(self, loader: Any) -> Iterator[Any]:
        """The batches of a loader; the wait for each is measured."""
        batches = iter(loader)
        while True:
            self._start = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                return
            self._got_rows = time.perf_counter()
            yield batch

    def read(self, tokens: int, ranks: int) -> dict[str, float]:
        """The metrics of the step whose update has ended. ``tokens`` are those of all ranks."""
        now = time.perf_counter()
        step = now - self._start
        return {
            metrics.DATA_TIME: self._got_rows - self._start,
            metrics.UPDATE_TIME: now - self._got_rows,
            metrics.STEP_TIME: step,
            metrics.THROUGHPUT: tokens / step / ranks,
        }


class TimedLoader:
    """A loader whose waits a clock measures."""

    def __init__(self, loader: Any, clock: StepClock) -> None:
        self._loader = loader
        self._clock = clock

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        return self._clock.rows(self._loader)


def time_steps(trainer: Any) -> None:
    """Have verl's ``SFTTrainer`` log the times of its steps.

    Its checkpoints keep the position of the loader itself. Validation and saving come after a step
    is logged, and belong to none.
    """
    from verl.utils import tensordict_utils

    clock, client = StepClock(), trainer.training_client
    train, ranks = client.train_batch, trainer.engine.get_data_parallel_size()

    @wraps(train)
    def train_batch(data: Any) -> Any:
        tokens = sum(tensordict_utils.get(data, "global_token_num"))
        output = train(data=data)
        if output is not None:
            tensordict_utils.get(output, "metrics").update(clock.read(tokens, ranks))
        return output

    client.train_batch = train_batch
    trainer.train_dataloader = TimedLoader(trainer.train_dataloader, clock)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
