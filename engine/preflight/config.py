"""Check for values that load and still fail, contradict each other or have no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from engine.base.errors import nearest
from engine.judge.providers import asks_server
from engine.preflight.check import Check, Subject, fail, ok, summary, warn
from engine.recipe.executed import code_objection
from engine.recipe.exposure import exposure_complaint
from engine.recipe.keys import verl_choices
from engine.recipe.places import is_hub_name, lora_rank
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge
from engine.recipe.steps import count_of
from engine.recipe.unread import unread
from engine.recipe.unread_rules import has_critic
from engine.runs.kinds import GRPO

ID = "config"

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_MODEL = "actor_rollout_ref.model"
_ESTIMATOR = "algorithm.adv_estimator"
_NOT_COMPUTED = {
    "remax": "a greedy answer to every prompt as its baseline",
    "optimal_token_baseline": "the sum of squared probabilities of every token",
    "tir_optimal_token_baseline": "the sum of squared probabilities of every token",
    "gdpo": "each part of the reward by its name",
}
"""What verl's V1 trainer does not give to an estimator (``_compute_advantage``)."""
_AGENT_LOOPS = ("single_turn_agent", "tool_agent")
_OPTIMIZERS = (
    *("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "Muon", "NAdam"),
    *("RAdam", "RMSprop", "Rprop", "SGD"),
)
"""Those of ``torch.optim`` that verl can make with a rate and a weight decay."""
_BACKENDS = ("naive", "nccl", "hccl", "nixl", "kimi_ckpt_engine", "mooncake", "delta_sharded")
_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
_OPENED = re.compile(
    r"actor_rollout_ref\.model\.(?:tokenizer|hf_config|lora_adapter)_path"
    r"|actor_rollout_ref\.rollout\.(?:multi_turn\.(?:tool_config|function_tool)_path"
    r"|agent\.agent_loop_config_path|router_config_path|quantization_config_file)"
    r"|data\.custom_cls\.path"
)
_RAY = "ray_kwargs.ray_init."
_WANDB_REFUSES = re.compile(r"[/\\#?%:]")
"""In the name of a project; names of runs may be any text."""
_REASONING = re.compile(r"(gpt-5|o[134])(?!\d)")
_REASONING_TIMEOUT_S = 300
_REASONING_TOKENS = 16000


def check(subject: Subject) -> Check:
    """The recipe loaded, so its keys and types are right; this is about what they say."""
    recipe = subject.recipe
    grpo = recipe.kind == GRPO
    judge = _judge(recipe) if grpo and asks_judge(recipe) else ()
    found = [
        *_stranger(recipe),
        *_twice(recipe),
        *_folder(recipe),
        *_wandb(recipe),
        *(_grpo(recipe) if grpo else _sft(recipe)),
        *judge,
    ]
    notes = [*([_kl(recipe)] if grpo else []), _lora(recipe), *_rate(recipe)]
    changed = count_of(len(recipe.changes), "override")
    return summary(ID, found, f"{recipe.path}: {'; '.join([changed, *notes])}")


def _stranger(recipe: Recipe) -> Iterator[Check]:
    """A recipe names code to execute and addresses that are sent keys."""
    if (case := code_objection(recipe)) is not None:
        yield fail(ID, "; ".join(case.reasons), "--trust, once you have read them")


def _twice(recipe: Recipe) -> Iterator[Check]:
    """Keys that the command line sets to several values; the last one counts."""
    given: dict[str, list[str]] = {}
    for key, _, value in (override.partition("=") for override in recipe.overrides):
        given.setdefault(key.lstrip("+").strip(), []).append(value)
    for key, values in given.items():
        if len(set(values)) > 1:
            listed = ", ".join(f"{key}={value}" for value in values[:-1])
            yield warn(ID, f"{listed} has no effect: {key}={values[-1]} follows it", "remove it")


def _folder(recipe: Recipe) -> Iterator[Check]:
    key = recipe.kind.checkpoint_key
    folder = Path(str(recipe.get(key))).expanduser()
    blocking = next((path for path in (folder, *folder.parents) if path.is_file()), None)
    if blocking is not None:
        yield fail(ID, f"{recipe.path}: {_shown(recipe, key)}: {blocking} is a file, not a folder")


def _wandb(recipe: Recipe) -> Iterator[Check]:
    """W&B refuses such a name when the run starts, after its workers are up."""
    key = recipe.kind.project_key
    if key is None:
        return
    chosen = recipe.get(recipe.kind.loggers_key)
    name = str(recipe.get(key))
    if "wandb" in (chosen if isinstance(chosen, list) else [chosen]) and _WANDB_REFUSES.search(
        name
    ):
        better = _WANDB_REFUSES.sub("-", name)
        yield _wrong(recipe, key, "has one of /\\#?%:, which W&B refuses", f"{key}={better}")


def _grpo(recipe: Recipe) -> Iterator[Check]:
    yield from _rollout(recipe)
    yield from _strategy(recipe)
    yield from _estimator(recipe)
    yield from _engine(recipe)
    yield from _names(recipe)
    yield from _files(recipe)
    if (exposed := exposure_complaint(recipe)) is not None:
        yield fail(ID, exposed, "remove it")
    if recipe.get(_ESTIMATOR) == "gae":
        yield _wrong(
            recipe,
            _ESTIMATOR,
            "trains with PPO and a critic",
            f"{_ESTIMATOR}=grpo",
        )
    if not recipe.get("trainer.save_freq", -1) > 0 and not recipe.get("trainer.val_only"):
        yield warn(
            ID,
            f"{_shown(recipe, 'trainer.save_freq')} writes no checkpoint",
            "trainer.save_freq=50",
        )
    sequence_parallel = recipe.get(f"{_ACTOR}.ulysses_sequence_parallel_size")
    if sequence_parallel > 1 and not recipe.get(f"{_MODEL}.use_remove_padding"):
        key = f"{_MODEL}.use_remove_padding"
        yield _wrong(recipe, key, "is needed for sequence parallelism", f"{key}=true")


def _rollout(recipe: Recipe) -> Iterator[Check]:
    key = f"{_ROLLOUT}.name"
    name = recipe.get(key)
    if name in (None, "???"):
        yield _wrong(recipe, key, "is not set", f"{key}=vllm")
    elif recipe.get("grubrics.device") == "cpu" and name != "hf":
        yield _wrong(recipe, key, "does not run on grubrics.device=cpu", f"{key}=hf")
    elif name == "hf" and (split := _split_model(recipe)) is not None:
        yield _wrong(
            recipe, split, "does not run with rollout.name=hf: it splits none", f"{split}=1"
        )
    elif recipe.get(key := f"{_ROLLOUT}.pipeline_model_parallel_size") > 1:
        yield _wrong(recipe, key, f"is not implemented in verl's {name} rollouts", f"{key}=1")
    sampled = recipe.get(f"{_ROLLOUT}.val_kwargs.do_sample")
    if sampled and not recipe.get(f"{_ROLLOUT}.temperature") > 0:
        key = f"{_ROLLOUT}.temperature"
        yield _wrong(recipe, key, "must be above 0 when validation samples", f"{key}=1.0")


def _split_model(recipe: Recipe) -> str | None:
    """The key that spreads one rollout model over several processes."""
    names = ("tensor_model", "pipeline_model", "data")
    keys = [f"{_ROLLOUT}.{name}_parallel_size" for name in names]
    return next((key for key in keys if recipe.get(key) > 1), None)


def _strategy(recipe: Recipe) -> Iterator[Check]:
    """FSDP1 broadcasts its weights through a device, which a CPU run does not have."""
    device = recipe.get("grubrics.device")
    if recipe.get("trainer.device") != device:
        problem = f"contradicts grubrics.device={device}"
        yield _wrong(recipe, "trainer.device", problem, f"trainer.device={device}")
    for key in (f"{_ACTOR}.strategy", "actor_rollout_ref.ref.strategy"):
        if device == "cpu" and recipe.get(key) == "fsdp":
            yield _wrong(recipe, key, "does not run on grubrics.device=cpu", f"{key}=fsdp2")


def _estimator(recipe: Recipe) -> Iterator[Check]:
    estimator = recipe.get(_ESTIMATOR)
    if (lacking := _NOT_COMPUTED.get(estimator)) is not None:
        problem = f"needs {lacking}, which verl's V1 trainer does not compute"
        yield _wrong(recipe, _ESTIMATOR, problem, f"{_ESTIMATOR}=grpo")


def _engine(recipe: Recipe) -> Iterator[Check]:
    """Values that verl takes, and that end or spoil the run after its workers are up."""
    if recipe.get("critic.enable") and recipe.get(_ESTIMATOR) != "gae":
        message = f"critic.enable=true trains a critic that {_ESTIMATOR}={recipe.get(_ESTIMATOR)}"
        yield warn(ID, f"{message} never asks", "critic.enable=false")
    if (warmup := recipe.get("trainer.critic_warmup")) and not has_critic(recipe):
        message = f"trains nothing in the first {warmup} steps, and there is no critic to warm up"
        yield _wrong(recipe, "trainer.critic_warmup", message, "trainer.critic_warmup=0")
    only = f"{_ACTOR}.fsdp_config.forward_only"
    if recipe.get(only):
        yield _wrong(recipe, only, "disables training of the actor", f"{only}=false")
    apart = f"{_ACTOR}.checkpoint.async_save"
    if recipe.get(apart):
        problem = "writes no latest_checkpointed_iteration.txt, so no run can resume"
        yield _wrong(recipe, apart, problem, f"{apart}=false")
    saved = f"{_ACTOR}.checkpoint.save_contents"
    if lost := {"model", "optimizer", "extra"} - {*recipe.get(saved)}:
        problem = f"lacks {', '.join(sorted(lost))}: runs cannot resume from such a checkpoint"
        yield warn(ID, f"{recipe.path}: {saved} {problem}", f"{saved}=[model,optimizer,extra]")


def _names(recipe: Recipe) -> Iterator[Check]:
    """Names that verl looks up, and that nothing but the installed code knows."""
    loop, own = f"{_ROLLOUT}.agent.default_agent_loop", f"{_ROLLOUT}.agent.agent_loop_config_path"
    if recipe.get(loop) not in _AGENT_LOOPS and not recipe.get(own):
        yield _unknown(recipe, loop, _AGENT_LOOPS)
    optimizer, kind = f"{_ACTOR}.optim.optimizer", f"{_ACTOR}.optim.optimizer_impl"
    if recipe.get(kind) == "torch.optim" and recipe.get(optimizer) not in _OPTIMIZERS:
        yield _unknown(recipe, optimizer, _OPTIMIZERS)
    engine = f"{_ROLLOUT}.checkpoint_engine"
    if recipe.get(f"{engine}.backend") not in _BACKENDS and not recipe.get(
        f"{engine}.custom_backend_module"
    ):
        yield _unknown(recipe, f"{engine}.backend", _BACKENDS)
    if recipe.get("data.prompt_key") != "prompt":
        problem = "names another column than the prepared data has"
        yield _wrong(recipe, "data.prompt_key", problem, "data.prompt_key=prompt")
    attention = f"{_MODEL}.override_config.attn_implementation"
    name = recipe.get(attention)
    if name is not None and name not in _ATTENTION and "/" not in str(name):  # a kernel of the hub
        yield _unknown(recipe, attention, _ATTENTION)
    for key in recipe.values:
        name = key.removeprefix(_RAY).partition(".")[0]
        if key.startswith(_RAY) and name not in verl_choices()["ray_init"]:
            close = nearest(name, verl_choices()["ray_init"])
            hint = f"; did you mean '{close}'?" if close else ""
            yield fail(
                ID, f"{recipe.path}: {key}: ray.init has no such argument{hint}", "remove it"
            )
    for key in (kind, f"{_MODEL}.external_lib", "trainer.checkpoint_callback_class"):
        package = str(recipe.get(key) or "").partition(".")[0]
        if package and (not package.isidentifier() or find_spec(package) is None):
            usual = "torch.optim" if key.endswith("optimizer_impl") else "null"
            yield _wrong(recipe, key, f"needs the package {package!r}", f"{key}={usual}")


def _unknown(recipe: Recipe, key: str, known: tuple[str, ...]) -> Check:
    close = nearest(str(recipe.get(key)), known) or known[0]
    return _wrong(recipe, key, f"is not one of {', '.join(known)}", f"{key}={close}")


def _files(recipe: Recipe) -> Iterator[Check]:
    """Files that a person named and that verl opens in its workers. Those of the training data,
    the model, the reward and the checkpoints have questions of their own."""
    for key in ("trainer.rollout_data_dir", "trainer.validation_data_dir"):
        if recipe.is_chosen(key):
            where = "the run directory, where rollouts and the doctor look for them"
            yield warn(ID, f"{_shown(recipe, key)} writes outside of {where}", "remove it")
    for key, value in recipe.values.items():
        if not (recipe.is_chosen(key) and _OPENED.fullmatch(key) and isinstance(value, str)):
            continue
        if "://" not in value and not Path(value).expanduser().exists() and not is_hub_name(value):
            yield fail(ID, f"{recipe.path}: {_shown(recipe, key)} does not exist")


def _sft(recipe: Recipe) -> Iterator[Check]:
    if recipe.get("lora.r") and recipe.get("lora.dropout"):
        yield _wrong(recipe, "lora.dropout", "is not supported by verl's engine", "lora.dropout=0")


def _judge(recipe: Recipe) -> Iterator[Check]:
    """Reasoning models think for minutes and in thousands of tokens before they answer."""
    model = str(recipe.get("judge.model"))
    if not asks_server(recipe.get("judge.provider")) or not _REASONING.match(model):
        return
    floors = {"judge.timeout_s": _REASONING_TIMEOUT_S, "judge.max_tokens": _REASONING_TOKENS}
    for key, floor in floors.items():
        if recipe.get(key) < floor:
            yield warn(
                ID,
                f"{_shown(recipe, key)} is low for the reasoning judge {model}",
                f"{key}={floor}",
            )
    if recipe.get("judge.temperature") != 1.0:
        yield _wrong(
            recipe,
            "judge.temperature",
            f"is refused by {model}: only 1 is allowed",
            "judge.temperature=1.0",
        )


def _wrong(recipe: Recipe, key: str, problem: str, fix: str) -> Check:
    return fail(ID, f"{recipe.path}: {_shown(recipe, key)} {problem}", fix)


def _shown(recipe: Recipe, key: str) -> str:
    return f"{key}={recipe.get(key)}"


def _kl(recipe: Recipe) -> str:
    """Where the policy is held near the reference; ``kl_coef`` alone holds it nowhere."""
    in_loss = recipe.get(f"{_ACTOR}.use_kl_loss")
    in_reward = recipe.get("algorithm.use_kl_in_reward")
    places = [name for name, on in (("loss", in_loss), ("reward", in_reward)) if on]
    return f"KL: {' and '.join(places) or 'off'}"


def _rate(recipe: Recipe) -> Iterator[str]:
    """The learning rate, where nobody chose one."""
    key = recipe.kind.learning_rate_key
    if key is not None and not recipe.is_chosen(key):
        yield f"{key}={recipe.get(key)} is the default, not set in the config"


def _lora(recipe: Recipe) -> str:
    rank = lora_rank(recipe)
    return f"LoRA rank {rank}" if rank else "full fine-tuning (no LoRA)"


_UNUSED = "unused"
_SHOWN = 4


def check_unused(subject: Subject) -> Check:
    """A launch is not refused: the run does what its other values say."""
    found = unread(subject.recipe)
    if not found:
        return ok(_UNUSED, "every value in the config has an effect")
    shown = [f"{one.key}={one.value} has no effect: {one.reason}" for one in found[:_SHOWN]]
    rest = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    ways = dict.fromkeys(one.instead for one in found[:_SHOWN] if one.instead)
    return warn(_UNUSED, "; ".join([*shown, *rest]), "; ".join(ways) or None)
