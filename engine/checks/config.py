"""Check for values that load and still fail, contradict each other or have no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from engine.base.errors import nearest
from engine.base.judge_providers import asks_server
from engine.base.quantities import format_count
from engine.checks.check import Check, Subject, fail, ok, summary, tables, warn
from engine.checks.demands import check_defaults
from engine.config.compose import OWN_LOOPS
from engine.config.exposure import exposure_complaint
from engine.config.keys import verl_choices
from engine.config.load import Config, mistyped_variables
from engine.config.places import is_hub_name, lora_rank
from engine.config.scoring import asks_judge
from engine.config.unread import has_critic, unread
from engine.run.kinds import GRPO

ID = "config"

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_MODEL = "actor_rollout_ref.model"
_ESTIMATOR = "algorithm.adv_estimator"
_RAY_INIT = "ray_kwargs.ray_init."
_INVALID_IN_WANDB = re.compile(r"[/\\#?%:]")
"""In the name of a project. The name of a run may be any text."""
_REASONING = re.compile(r"(gpt-5|o[134])(?!\d)")
_REASONING_TIMEOUT_S = 300
_REASONING_TOKENS = 16000


def check(subject: Subject) -> Check:
    """Check the values of a config whose keys and types are valid."""
    config = subject.config
    rank = lora_rank(config)
    notes = [format_count(len(config.changes), "override")]
    problems = [*_overrides(subject), *_paths(config), *check_defaults(config, ID)]
    if config.kind == GRPO:
        problems += [*_rollout(config), *_trainer(config), *_actor(config)]
        problems += [*_names(config), *_packages(config), *_files(config)]
        problems += _judge(config) if asks_judge(config) else ()
        terms = {"loss": f"{_ACTOR}.use_kl_loss", "reward": "algorithm.use_kl_in_reward"}
        used = [name for name, key in terms.items() if config.get(key)]
        notes.append(f"KL: {' and '.join(used) or 'off'}")
    elif config.get("lora.r") and config.get("lora.dropout"):
        problems.append(_wrong(config, "lora.dropout", "is not supported by verl's engine", "0"))
    notes.append(f"LoRA rank {rank}" if rank else "full fine-tuning (no LoRA)")
    key = config.kind.learning_rate_key
    if key is not None and not config.is_chosen(key):
        notes.append(f"{_setting(config, key)} is the default, not set in the config")
    return summary(ID, problems, f"{config.path}: {'; '.join(notes)}")


def _overrides(subject: Subject) -> Iterator[Check]:
    """Check for code and addresses of another author, and for keys that are overridden twice."""
    if (case := subject.objection) is not None:
        yield fail(ID, "; ".join(case.reasons), "--trust, once you have read them")
    values_by_key: dict[str, list[str]] = {}
    for key, _, value in (override.partition("=") for override in subject.config.overrides):
        values_by_key.setdefault(key.lstrip("+").strip(), []).append(value)
    for key, values in values_by_key.items():
        if len(set(values)) > 1:
            earlier = ", ".join(f"{key}={value}" for value in values[:-1])
            yield warn(ID, f"{earlier} has no effect: {key}={values[-1]} overrides it", "remove it")


def _paths(config: Config) -> Iterator[Check]:
    """Check the checkpoint folder and the project name, which only the workers would use."""
    key = config.kind.checkpoint_key
    folder = Path(str(config.get(key))).expanduser()
    file = next((path for path in (folder, *folder.parents) if path.is_file()), None)
    if file is not None:
        yield fail(ID, f"{config.path}: {_setting(config, key)}: {file} is a file, not a folder")
    project_key = config.kind.project_key
    if project_key is None:
        return
    project = str(config.get(project_key))
    if "wandb" in config.listed(config.kind.loggers_key) and _INVALID_IN_WANDB.search(project):
        right = _INVALID_IN_WANDB.sub("-", project)
        yield _wrong(config, project_key, "has one of /\\#?%:, which W&B refuses", right)


def _rollout(config: Config) -> Iterator[Check]:
    key, pipeline = f"{_ROLLOUT}.name", f"{_ROLLOUT}.pipeline_model_parallel_size"
    name = config.get(key)
    split_keys = [
        f"{_ROLLOUT}.{part}_parallel_size" for part in ("tensor_model", "pipeline_model", "data")
    ]
    split = next((split_key for split_key in split_keys if config.get(split_key) > 1), None)
    if name in (None, "???"):
        yield _wrong(config, key, "is not set", "vllm")
    elif config.get("grubrics.device") == "cpu" and name != "hf":
        yield _wrong(config, key, "does not run on grubrics.device=cpu", "hf")
    elif name == "hf" and split is not None:
        problem = "does not run with rollout.name=hf: it does not split a model"
        yield _wrong(config, split, problem, "1")
    elif config.get(pipeline) > 1:
        yield _wrong(config, pipeline, f"is not implemented in verl's {name} rollouts", "1")
    temperature = f"{_ROLLOUT}.temperature"
    if config.get(f"{_ROLLOUT}.val_kwargs.do_sample") and not config.get(temperature) > 0:
        yield _wrong(config, temperature, "must be above 0 when validation samples", "1.0")


def _trainer(config: Config) -> Iterator[Check]:
    """Check device, estimator, critic and checkpoints."""
    device, estimator = config.get("grubrics.device"), config.get(_ESTIMATOR)
    if config.get("trainer.device") != device:
        yield _wrong(config, "trainer.device", f"contradicts grubrics.device={device}", device)
    if (missing := tables()["missing_inputs"].get(estimator)) is not None:
        problem = f"needs {missing}, which verl's V1 trainer does not compute"
        yield _wrong(config, _ESTIMATOR, problem, "grpo")
    if estimator == "gae":
        yield _wrong(config, _ESTIMATOR, "trains with PPO and a critic", "grpo")
    elif config.get("critic.enable"):
        message = f"critic.enable=true trains a critic that {_ESTIMATOR}={estimator} never uses"
        yield warn(ID, message, "critic.enable=false")
    if (warmup := config.get("trainer.critic_warmup")) and not has_critic(config):
        problem = f"trains nothing in the first {warmup} steps, and there is no critic to warm up"
        yield _wrong(config, "trainer.critic_warmup", problem, "0")
    if (exposed := exposure_complaint(config)) is not None:
        yield fail(ID, exposed, "remove it")
    if not config.get("trainer.save_freq", -1) > 0 and not config.get("trainer.val_only"):
        message = f"{_setting(config, 'trainer.save_freq')} writes no checkpoint"
        yield warn(ID, message, "trainer.save_freq=50")


def _actor(config: Config) -> Iterator[Check]:
    """Check values that verl accepts, and that end or spoil the run after its workers start."""
    for key in (f"{_ACTOR}.strategy", "actor_rollout_ref.ref.strategy"):
        # FSDP1 broadcasts its parameters through a device, which a CPU run does not have.
        if config.get("grubrics.device") == "cpu" and config.get(key) == "fsdp":
            yield _wrong(config, key, "does not run on grubrics.device=cpu", "fsdp2")
    forward_only = f"{_ACTOR}.fsdp_config.forward_only"
    if config.get(forward_only):
        yield _wrong(config, forward_only, "disables training of the actor", "false")
    async_save = f"{_ACTOR}.checkpoint.async_save"
    if config.get(async_save):
        problem = "writes no latest_checkpointed_iteration.txt, so no run can resume"
        yield _wrong(config, async_save, problem, "false")
    contents = f"{_ACTOR}.checkpoint.save_contents"
    if missing := {"model", "optimizer", "extra"} - {*config.get(contents)}:
        problem = f"lacks {', '.join(sorted(missing))}: runs cannot resume from such a checkpoint"
        fix = f"{contents}=[model,optimizer,extra]"
        yield warn(ID, f"{config.path}: {contents} {problem}", fix)
    padding = f"{_MODEL}.use_remove_padding"
    sequence_parallel = config.get(f"{_ACTOR}.ulysses_sequence_parallel_size")
    if sequence_parallel > 1 and not config.get(padding):
        yield _wrong(config, padding, "is needed for sequence parallelism", "true")


def _names(config: Config) -> Iterator[Check]:
    """Check names that verl looks up, and that only the installed code knows."""
    known = tables()
    loop = f"{_ROLLOUT}.agent.default_agent_loop"
    own_loops = config.is_chosen(OWN_LOOPS) and config.get(OWN_LOOPS)
    if config.get(loop) not in known["agent_loops"] and not own_loops:
        yield _unknown(config, loop, known["agent_loops"])
    optimizer = f"{_ACTOR}.optim.optimizer"
    is_torch = config.get(f"{_ACTOR}.optim.optimizer_impl") == "torch.optim"
    if is_torch and config.get(optimizer) not in known["optimizers"]:
        yield _unknown(config, optimizer, known["optimizers"])
    backend = f"{_ROLLOUT}.checkpoint_engine.backend"
    own_backend = config.get(f"{_ROLLOUT}.checkpoint_engine.custom_backend_module")
    if config.get(backend) not in known["backends"] and not own_backend:
        yield _unknown(config, backend, known["backends"])
    if config.get("data.prompt_key") != "prompt":
        yield _wrong(config, "data.prompt_key", "is not a column of the prepared data", "prompt")
    attention = f"{_MODEL}.override_config.attn_implementation"
    name = config.get(attention)
    # A name with a slash is a kernel of the hub.
    if name is not None and name not in known["attention"] and "/" not in str(name):
        yield _unknown(config, attention, known["attention"])


def _packages(config: Config) -> Iterator[Check]:
    """Check arguments of ``ray.init`` and modules that verl imports by name."""
    arguments = verl_choices()["ray_init"]
    for key in config.values:
        name = key.removeprefix(_RAY_INIT).partition(".")[0]
        if key.startswith(_RAY_INIT) and name not in arguments:
            close = nearest(name, arguments)
            hint = f"; did you mean '{close}'?" if close else ""
            message = f"{config.path}: {key}: ray.init has no such argument{hint}"
            yield fail(ID, message, "remove it")
    usual_values = {
        f"{_ACTOR}.optim.optimizer_impl": "torch.optim",
        f"{_MODEL}.external_lib": "null",
        "trainer.checkpoint_callback_class": "null",
    }
    for key, usual in usual_values.items():
        package = str(config.get(key) or "").partition(".")[0]
        if package and (not package.isidentifier() or find_spec(package) is None):
            yield _wrong(config, key, f"needs the package {package!r}", usual)


def _unknown(config: Config, key: str, known: Sequence[str]) -> Check:
    close = nearest(str(config.get(key)), known) or known[0]
    return _wrong(config, key, f"is not one of {', '.join(known)}", close)


def _files(config: Config) -> Iterator[Check]:
    """Check files that somebody chose and that verl opens in its workers.

    Training data, model, reward function and checkpoints have checks of their own.
    """
    for key in ("trainer.rollout_data_dir", "trainer.validation_data_dir"):
        if config.is_chosen(key):
            where = "the run directory, where rollouts and the doctor look for them"
            yield warn(ID, f"{_setting(config, key)} writes outside of {where}", "remove it")
    for key, value in config.values.items():
        if not (config.is_chosen(key) and key in tables()["file_keys"] and isinstance(value, str)):
            continue
        if "://" not in value and not Path(value).expanduser().exists() and not is_hub_name(value):
            yield fail(ID, f"{config.path}: {_setting(config, key)} does not exist")


def _judge(config: Config) -> Iterator[Check]:
    """Reasoning models think for minutes and thousands of tokens before they answer."""
    model = str(config.get("judge.model"))
    if not asks_server(config.get("judge.provider")) or not _REASONING.match(model):
        return
    minima = {"judge.timeout_s": _REASONING_TIMEOUT_S, "judge.max_tokens": _REASONING_TOKENS}
    for key, minimum in minima.items():
        if config.get(key) < minimum:
            message = f"{_setting(config, key)} is low for the reasoning judge {model}"
            yield warn(ID, message, f"{key}={minimum}")
    if config.get("judge.temperature") != 1.0:
        problem = f"is refused by {model}: only 1 is allowed"
        yield _wrong(config, "judge.temperature", problem, "1.0")


def _wrong(config: Config, key: str, problem: str, right: str) -> Check:
    """A key whose value fails, and a right value for it."""
    return fail(ID, f"{config.path}: {_setting(config, key)} {problem}", f"{key}={right}")


def _setting(config: Config, key: str) -> str:
    return f"{key}={config.get(key)}"


_UNUSED = "unused"
_MAX_UNUSED = 4


def check_unused(subject: Subject) -> Check:
    """Warn of values without effect. They do not forbid a launch: the run uses the others."""
    unused = unread(subject.config)
    variables = mistyped_variables(subject.env) if subject.config.kind == GRPO else {}
    messages = [
        f"environment variable {name} is not read; did you mean {meant}?"
        for name, meant in variables.items()
    ]
    if not unused and not messages:
        return ok(_UNUSED, "every value in the config has an effect")
    shown = unused[:_MAX_UNUSED]
    messages += [f"{value.key}={value.value} has no effect: {value.reason}" for value in shown]
    if len(unused) > _MAX_UNUSED:
        messages.append(f"and {len(unused) - _MAX_UNUSED} more")
    fixes = dict.fromkeys(value.instead for value in shown if value.instead)
    return warn(_UNUSED, "; ".join(messages), "; ".join(fixes) or None)
