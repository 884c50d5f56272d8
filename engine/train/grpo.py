"""GRPO with verl: ``python -m engine.train.grpo --config FILE [key=value ...]``.

Exit codes: 0 the last step was reached, 1 the run failed, 2 unusable input, 128+n signal n.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.config.compose import deterministic_variables, last_step, verl_config
from engine.config.curriculum import find_curriculum
from engine.config.env_file import load_env_file
from engine.config.exposure import (
    into_environment,
    require_encrypted,
    require_none,
    require_private,
)
from engine.config.load import Config, load_config
from engine.config.schedule import require_followed
from engine.run.checkpoints.step_folders import step_of
from engine.run.kinds import GRPO, Kind
from engine.train import (
    environment,
    patches,
    phases,
    queue_key,
    ray_attach,
    ray_session,
    skipped_updates,
    zygote,
)
from engine.train.environment import StopSignals, require_variables
from engine.train.ray_tasks import train, write_final_model

# What the actors of a run import; the zygote does it once for all of them.
PRELOAD = (
    "verl.trainer.main_ppo",
    "verl.trainer.ppo.v1",
    "engine.train.hf_rollout",
    "engine.train.sampler",
    "engine.train.reward_entry",
    "ray.actor",
    "transformers.models.qwen2.modeling_qwen2",
    "peft",
    "datasets",
)


def main(arguments: Sequence[str]) -> int:
    try:
        config = read_config(GRPO, arguments)
        require_followed(config)
        if ray_attach.should_attach(os.environ, str(config.get("grubrics.device"))):
            require_none(config, "RAY_ADDRESS")
        else:
            require_private(config)
        require_variables(deterministic_variables(config, os.environ))
        config = into_environment(config, os.environ)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    attempt = environment.attempt_dir(os.environ, config.kind.name)
    composed = verl_config(config, attempt)
    environment.prepare(os.environ, str(config.get("grubrics.device")))
    if (curriculum := find_curriculum(config.get)) is not None:
        phases.announce(curriculum, os.environ)
    skipped_updates.announce(config.get("grubrics.max_skipped_updates"), os.environ)
    environment.keep_compiled_code_private(os.environ, attempt / "torchinductor")
    if (step := resumed_at_end(composed)) is not None:
        print(write_final_model(composed, step), flush=True)
        print(f"finished at step {step}: {composed['trainer']['default_local_dir']}", flush=True)
        return 0
    signals = StopSignals()
    try:
        train_on(str(config.get("grubrics.device")))(composed, attempt, signals)
    except KeyboardInterrupt:
        print(f"stopped by {signals.received.name}", file=sys.stderr)
        return signals.exit_code
    except ray_attach.NotSharedError as error:
        print(error, file=sys.stderr)
        return 1
    return check_finished(composed, attempt)


def read_config(kind: Kind, arguments: Sequence[str]) -> Config:
    """Parse ``--config FILE key=value ...``. Raises UsageError, also for another kind's config."""
    parser = argparse.ArgumentParser(prog=f"python -m {kind.trainer}")
    parser.add_argument("--config", required=True, help="a config file or its bare name")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--no-env", action="store_true", help="variables set no values")
    args = parser.parse_intermixed_args(list(arguments))
    load_env_file(os.environ)
    config = load_config(args.config, args.overrides, {} if args.no_env else None)
    require_encrypted(config, os.environ)
    if config.kind != kind:
        raise UsageError(f"{config.path}: grubrics.kind is {config.kind}, not {kind}")
    return config


def train_on(device: str) -> Callable[[dict[str, Any], Path, StopSignals], None]:
    if ray_attach.should_attach(os.environ, device):
        return run_on_cluster
    return run_on_cpu if device == "cpu" else run_on_accelerator


def run_on_cpu(config: dict[str, Any], attempt: Path, signals: StopSignals) -> None:
    """Train with workers forked from a zygote; this process itself never imports verl."""
    with ray_session.private_instance(attempt) as directory:
        spawner = zygote.start(directory / "zygote", PRELOAD)
        try:
            variables = {"TRANSFER_QUEUE_ENABLE": "1"}
            runtime = {"py_executable": spawner.py_executable, "env_vars": variables}
            with ray_running(config, runtime, signals):
                import ray

                once = ray.remote(num_cpus=0, max_retries=0)
                ray.get(once(train).remote(config))
                reached = max(logged_steps(attempt), default=None)
                print(ray.get(once(write_final_model).remote(config, reached)), flush=True)
        finally:
            signals.ignore()
            spawner.close()


def run_on_accelerator(config: dict[str, Any], attempt: Path, signals: StopSignals) -> None:
    """Train the way verl's launcher does, on a private Ray instance."""
    with ray_session.private_instance(attempt):
        hook = f"{ray_session.__name__}.{ray_session.secure_worker.__name__}"
        runtime = {**_verl_env(config), ray_session.HOOK: hook}
        with ray_running(config, runtime, signals):
            train(config)
    print(write_final_model(config, max(logged_steps(attempt), default=None)), flush=True)


def run_on_cluster(config: dict[str, Any], attempt: Path, signals: StopSignals) -> None:
    """Train on the Ray cluster that RAY_ADDRESS names; it was there before and stays."""
    device = config["grubrics"]["device"]
    key = queue_key.create(attempt, os.environ)
    runtime = ray_attach.with_runtime_env(_verl_env(config), os.environ, device)
    try:
        with ray_running(ray_attach.with_cluster_options(config), runtime, signals):
            ray_attach.require_shared(attempt)
            train(config)
    finally:
        key.unlink(missing_ok=True)
    print(write_final_model(config, max(logged_steps(attempt), default=None)), flush=True)


def _verl_env(config: dict[str, Any]) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    runtime: dict[str, Any] = get_ppo_ray_runtime_env(OmegaConf.create(config))
    runtime["env_vars"]["TRANSFER_QUEUE_ENABLE"] = "1"
    return runtime


@contextmanager
def ray_running(
    config: dict[str, Any], runtime_env: dict[str, Any], signals: StopSignals
) -> Iterator[None]:
    """Ray with the config's ``ray_kwargs.ray_init``; the config's ``runtime_env`` comes last."""
    import ray

    options = dict(config["ray_kwargs"]["ray_init"])
    options["runtime_env"] = ray_session.combined(runtime_env, options.pop("runtime_env", {}))
    print(f"ray init kwargs: {options}", flush=True)
    patches.search_working_folder_last()
    if os.environ.get("RAY_ADDRESS") == "local":
        patches.apply_to_private_ray()
    try:
        ray.init(**options)
        signals.listen()
        yield
    except SystemExit as end:  # Ray's own handler turns a SIGTERM during its start into it.
        signals.received = signal.SIGTERM
        raise KeyboardInterrupt from end
    finally:
        signals.ignore()
        ray.shutdown()


def resumed_at_end(config: dict[str, Any]) -> int | None:
    """The step that the run is resumed from, if it is the last one: only its model is missing."""
    trainer, wanted = config["trainer"], last_step(config)
    if trainer["resume_mode"] != "resume_path" or wanted is None:
        return None
    step = step_of(Path(trainer["resume_from_path"]))
    return step if step is not None and step >= wanted else None


def check_finished(config: dict[str, Any], attempt: Path) -> int:
    """Return 0 when the last configured step was logged: verl also returns when its epochs run out.

    A run that only validates has finished with its validation.
    """
    if config["trainer"]["val_only"]:
        return check_validated(attempt)
    wanted = last_step(config)
    reached = max(logged_steps(attempt), default=0)
    if wanted is None or reached >= wanted:
        print(f"finished at step {reached}: {config['trainer']['default_local_dir']}", flush=True)
        return 0
    epochs = config["data"].get("mix", {}).get("epochs") or config["trainer"]["total_epochs"]
    print(
        f"ended at step {reached} of {wanted}: trainer.total_epochs={epochs} is too low for "
        f"trainer.total_training_steps={wanted}",
        file=sys.stderr,
    )
    return 1


def check_validated(attempt: Path) -> int:
    """Return 0 when a validation was logged."""
    for line in logged(attempt):
        if any(name.startswith("val-") for name in line.get("data", {})):
            print(f"validated at step {line.get('step')}; trainer.val_only=true", flush=True)
            return 0
    print("trainer.val_only=true: ended without a validation", file=sys.stderr)
    return 1


def logged_steps(attempt: Path) -> Iterator[int]:
    return (int(line.get("step", 0)) for line in logged(attempt))


def logged(attempt: Path) -> Iterator[dict[str, Any]]:
    """Read the records of verl's file logger."""
    path = os.environ.get("VERL_FILE_LOGGER_PATH")
    return jsonl.read(Path(path) if path else attempt / "metrics.jsonl")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
