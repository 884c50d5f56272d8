"""The facts of a failure: whose code raised, which process spoke, what the program was doing.

Rules decide by these facts, and by words only between failures of equal facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from engine.base.errors import unknown_name
from engine.doctor.text.line import Line
from engine.doctor.text.tracebacks import TASK, Raised

T = TypeVar("T")
_Table: TypeAlias = tuple[tuple[T, re.Pattern[str]], ...]


class Part(StrEnum):
    """The part of a run to which a frame, a process or an address belongs."""

    REWARD = "reward"
    """Code that scores responses: the user's, or a scorer that a trainer brings along."""
    ENVIRONMENT = "environment"
    """The user's tools and environments."""
    DATA = "data"
    """Code that reads and prepares rows: the user's, a trainer's or a library's."""
    SCRIPT = "script"
    """Other code of the user, above all the launch script."""
    TRAINER = "trainer"
    ENGINE = "engine"
    """The engine that samples responses, or its server."""
    ROLLOUT = "rollout"
    """The trainer's code that talks to the engine."""
    JUDGE = "judge"
    HUB = "hub"
    TRACKER = "tracker"
    RAY = "ray"
    RANKS = "ranks"
    """Communication between ranks."""
    TOKENIZER = "tokenizer"
    ADAPTER = "adapter"
    SCHEDULER = "scheduler"


class Phase(StrEnum):
    """What the program was doing, by the functions that were running."""

    ARGUMENTS = "arguments"
    ENGINE_START = "engine start"
    WEIGHT_SYNC = "weight sync"
    REWARD = "reward"
    VALUES = "values"
    """The critic's forward pass."""
    CRITIC = "critic"
    REFERENCE = "reference"
    LOG_PROBS = "log probs"
    ACTOR = "actor"
    ROLLOUT = "rollout"
    SAVE = "save"
    LOAD = "load"
    VALIDATION = "validation"


@dataclass(frozen=True, slots=True)
class Facts:
    """``part`` is whose code raised, or else which process or server the line is about.

    ``phase`` is that of the innermost frame whose function names one, ``speaker`` the process that
    wrote the line.
    """

    part: Part | None = None
    phase: Phase | None = None
    speaker: Part | None = None

    def fits(self, conditions: Mapping[str, frozenset[str]]) -> bool:
        """Whether each condition, such as ``not_parts``, holds. An unknown fact is ``unknown``."""
        values = {
            "parts": self.part or _UNKNOWN,
            "phases": self.phase or _UNKNOWN,
            "speakers": self.speaker or _UNKNOWN,
        }
        return all(
            (values[name.removeprefix("not_")] in allowed) is not name.startswith("not_")
            for name, allowed in conditions.items()
        )


CONDITIONS = ("parts", "not_parts", "phases", "not_phases", "speakers")
_UNKNOWN = "unknown"


def conditions_in(entry: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Return the conditions of a rule. ValueError for an unknown part or phase."""
    conditions = {key: frozenset(entry[key]) for key in CONDITIONS if key in entry}
    for key, values in conditions.items():
        known = [_UNKNOWN, *(Phase if key.endswith("phases") else Part)]
        for value in values:
            if value not in known:
                raise ValueError(str(unknown_name(key, value, known)))
    return conditions


_PACKAGES = {
    Part.ENGINE: "vllm vllm_ascend sglang sgl_kernel sglang_router lmdeploy tensorrt_llm "
    "text_generation_server",
    Part.TRAINER: "verl trl swift llamafactory llmtuner openrlhf slime axolotl nemo_rl nemo "
    "prime_rl areal torchtune unsloth unsloth_zoo megatron transformers accelerate deepspeed "
    "lightning pytorch_lightning composer xtuner",
    Part.JUDGE: "openai anthropic litellm groq cohere together mistralai genai generativeai ragas",
    Part.HUB: "huggingface_hub modelscope",
    Part.TRACKER: "wandb swanlab mlflow comet_ml neptune clearml trackio tensorboard",
    Part.DATA: "datasets pyarrow pandas polars webdataset fsspec PIL librosa soundfile decord av",
    Part.RAY: "ray",
    Part.TOKENIZER: "tokenizers sentencepiece jinja2 tiktoken",
    Part.ADAPTER: "peft",
    Part.REWARD: "math_verify mathruler latex2sympy2 latex2sympy2_extended reward_score",
}
_PART_OF_PACKAGE = {name: part for part, names in _PACKAGES.items() for name in names.split()}
_OWN_PARTS = (Part.TRAINER, None)
"""Parts within which names of files and functions tell more: a trainer, and the user's code."""
_FOR_USERS = ("examples", "example", "recipe", "recipes", "scripts", "tests", "my")
"""Folders of a trainer's source tree in which people put their own code."""
_INSTALLED = ("site-packages", "dist-packages")
_STANDARD = re.compile(r"/lib(?:64)?/python\d|<frozen |^<string>$|/torchinductor_")
_NAMED: _Table[Part] = (
    (Part.HUB, re.compile(r"transformers/(?:utils/hub|file_utils)\.py")),
    (Part.RANKS, re.compile(r"distributed_c10d\.py|torch/distributed/rendezvous\.py")),
    (Part.JUDGE, re.compile(r"huggingface_hub/inference/")),
)
_OF_TRAINERS: _Table[Part] = (
    (Part.REWARD, re.compile(r"/reward_score/|/rm_hub/|swift/(?:\w+/)*orm\.py|/trl/rewards/")),
    (
        Part.TOKENIZER,
        re.compile(
            r"/(?:chat_)?templates?(?:/\w+)*\.py:|/tokenization_\w+\.py:|/chat_template_utils\.py:"
        ),
    ),
    (
        Part.DATA,
        re.compile(
            r"/\w*(?:dataset|dataloader|data_utils|data_loader|collat|preprocess)\w*(?:/\w+)*\.py:"
            r"|/(?:data|rl_data|prompt_strategies)/\w+\.py:|:_?(?:tokenize_row|maybe_apply_chat_template)\b"
        ),
    ),
    (
        Part.ROLLOUT,
        re.compile(
            r"(?i)/\w*(?:vllm|sglang)\w*(?:/\w+)*\.py:|/inference/\w+\.py:|/http_utils\.py:"
        ),
    ),
)
_LAUNCHERS = r"main|train\w*|run\w*|launch|finetune\w*|start|serve|sft|[gpd]po"
_OF_USERS: _Table[Part] = (
    (Part.JUDGE, re.compile(r"(?i)[/:]\w*(?:judge|rubric)\w*(?:\.py:|$)")),
    (
        Part.REWARD,
        re.compile(
            r"(?i):\w*(?:rewards?(?!_model\b)(?:_\w+)?|compute_scores?|score_\w+|\w+_score)$"
            rf"|/(?!(?:{_LAUNCHERS})_)(?:\w+_)?rewards?(?:_(?!model|train|data|bench)\w+)?\.py:"
            rf"|/rewards?/(?!(?:{_LAUNCHERS})\.py)\w+\.py:|/(?:graders?|verifiers?|scorers?)\.py:"
        ),
    ),
    (
        Part.ENVIRONMENT,
        re.compile(
            rf"(?i)/(?:envs?|environments?)/(?!(?:{_LAUNCHERS})\.py)\w+\.py:"
            r"|/(?:\w+_)?(?:env|environment)(?:_\w+)?\.py:|/\w+_tools?\.py:"
        ),
    ),
    (
        Part.DATA,
        re.compile(
            r"(?i)/\w*(?:dataset|dataloader|data_utils|collat|preprocess)\w*\.py:"
            rf"|/data/(?!(?:{_LAUNCHERS})\.py)\w+\.py:"
            r"|:\w*(?:load_data\w*|preprocess\w*|tokenize\w*|__getitem__|collate\w*|format_(?:row|example)\w*)$"
        ),
    ),
)
_PHASES: _Table[Phase] = (
    (
        Phase.ARGUMENTS,
        re.compile(
            r"(?i):(?:__post_init__|_?(?:parse|check|validate|verify)_?\w*(?:args?|arguments|config|settings|grpo|params)\w*)$"
            r"|/\w*(?:arguments?|_args|argparse|hf_argparser)\.py:|/config(?:uration)?\w*\.py:|/hparams/"
            r"|/(?:omegaconf|hydra|pydantic\w*)/"
        ),
    ),
    (
        Phase.WEIGHT_SYNC,
        re.compile(
            r"(?i):\w*(?:update|sync|send|transfer|broadcast|load|receive)_?(?:to_engine|weights?|params|named_param)\w*$|weight_(?:transfer|sync|update)"
        ),
    ),
    (Phase.VALUES, re.compile(r"(?i):_?(?:compute|infer|forward)_values?$")),
    (
        Phase.CRITIC,
        re.compile(r"(?i):\w*(?:critic)\w*$|/\w*critic\w*\.py:"),
    ),
    (Phase.REFERENCE, re.compile(r"(?i):\w*(?:ref_log_?probs?|reference)\w*$|:_?compute_ref\w*$")),
    (Phase.LOG_PROBS, re.compile(r"(?i):\w*(?:old_log_?probs?|compute_log_?probs?)\w*$")),
    (
        Phase.ACTOR,
        re.compile(
            r"(?i):(?:update_(?:actor|policy)\w*|training_step|train_(?:step|batch|actor|mini_?batch)|backward)$"
        ),
    ),
    (
        Phase.REWARD,
        re.compile(
            r"(?i):_?score_\w+$|:_?\w*(?:rewards?|compute_score)(?:_(?!model)\w+)?$|reward_(?:manager|loop)\w*/|/reward\.py:|:reward_fn$"
        ),
    ),
    (Phase.SAVE, re.compile(r"(?i):_?save(?:_\w+)?$")),
    (Phase.LOAD, re.compile(r"(?i):_?(?:load|resume|restore)_\w*(?:checkpoint|state)\w*$")),
    (Phase.VALIDATION, re.compile(r":_?(?:validate|evaluate|evaluation_loop)$")),
    (
        Phase.ENGINE_START,
        re.compile(
            r"(?i):_?(?:init_(?:engine|llm|rollout|device|worker)|launch_\w*server\w*|wait_for_server|check_server|load_model|_?initialize_kv_caches\w*|run_engine_core|make_(?:async_)?mp_client|from_engine_args|determine_available_memory)$"
        ),
    ),
    (
        Phase.ROLLOUT,
        re.compile(
            r"(?i):\w*(?:generate|rollout|decode|prefill|alloc_req|event_loop|forward_batch)\w*$|/\w*rollout\w*\.py:|/agent_loops?/"
        ),
    ),
)
_SPEAKERS: _Table[Part] = (
    (Part.RAY, re.compile(r"raylet|gcs_server|autoscaler")),
    (
        Part.ENGINE,
        re.compile(
            r"(?i)rolloutmanager|sglang|vllm|enginecore|apiserver|llmrayactor|generationworker"
        ),
    ),
)
_SCHEDULER = re.compile(r"(?:srun|sbatch|salloc|slurmstepd|scancel|qsub|bsub|torchx): ")
_ADDRESSES: _Table[Part] = (
    (Part.TRACKER, re.compile(r"(?i)wandb|swanlab|mlflow|comet\.|neptune|clearml")),
    (
        Part.HUB,
        re.compile(
            r"(?i)(?<!inference\.)\b(?:huggingface\.co|hf\.co|hf-mirror|modelscope\.cn|cdn-lfs|cas-bridge)"
            r"(?!\S*/v1\b)"
        ),
    ),
    (
        Part.ENGINE,
        re.compile(
            r"(?:https?://[^/\s'\"]+|url: )/(?:generate|infer|wake_up|sleep"
            r"|update_(?:named_)?(?:param|weight)\w*"
            r"|init_(?:communicator|weights_update_group)\w*|pause|continue_generation|flush_cache|abort_request"
            r"|release_memory_occupation|resume_memory_occupation|health_generate|get_world_size"
            r"|close_communicator|reset_prefix_cache|add_worker|workers)\b"
        ),
    ),
)


def facts_of(line: Line, raised: Raised | None = None) -> Facts:
    """Return the facts of a line, and of the exception that it names."""
    frames = tuple(frame for frame in raised.frames if frame != TASK) if raised else ()
    part: Part | None = _blame(frames)
    if part not in _NAMED_ANYWHERE and raised and "." in raised.type:
        package = _PART_OF_PACKAGE.get(raised.type.partition(".")[0])
        part = package if package in _NAMED_ANYWHERE else part
    phases = [phase for frame in reversed(frames) if (phase := phase_of(frame))]
    # The reference is computed by the code of the actor.
    is_reference = phases[:1] == [Phase.LOG_PROBS] and Phase.REFERENCE in phases
    phase = Phase.REFERENCE if is_reference else next(iter(phases), None)
    speaker = next(_matching(_SPEAKERS, line.source), None)
    if part in (Part.TRAINER, Part.SCRIPT, None):
        if part is Part.TRAINER and phase in (Phase.ROLLOUT, Phase.WEIGHT_SYNC):
            part = Part.ROLLOUT
        part = next(_matching(_ADDRESSES, line.text), None) or speaker or part
    if part is None and _SCHEDULER.match(line.text):
        part = Part.SCHEDULER
    return Facts(part, phase, speaker)


_NAMED_ANYWHERE = (Part.JUDGE, Part.HUB, Part.TRACKER, Part.ENGINE)
"""Services: an exception from within their client is theirs, whoever called it."""


def _blame(frames: Sequence[str]) -> Part | None:
    """Return the part of the innermost frame that has one.

    What a reward function or an environment calls belongs to it, except a service.
    """
    pairs = list(zip(("", *frames), frames, strict=False))
    inward = [part for caller, frame in reversed(pairs) if (part := _part_below(caller, frame))]
    innermost = inward[0] if inward else None
    if innermost in _NAMED_ANYWHERE:
        return innermost
    until = inward.index(Part.TRAINER, 1) if Part.TRAINER in inward[1:] else len(inward)
    users = (part for part in inward[:until] if part in (Part.REWARD, Part.ENVIRONMENT))
    return next(users, innermost)


def _part_below(caller: str, frame: str) -> Part | None:
    """Return the part of a frame. User code is a reward function if the trainer calls it as one."""
    part = part_of(frame)
    is_called_to_score = caller and part_of(caller) is Part.TRAINER
    if part is Part.SCRIPT and is_called_to_score and phase_of(caller) is Phase.REWARD:
        return Part.REWARD
    return part


@lru_cache(maxsize=4096)
def part_of(frame: str) -> Part | None:
    """Return the part of a run to which ``file:function`` belongs; None for general libraries."""
    if (named := next(_matching(_NAMED, frame), None)) is not None:
        return named
    folders = frame.rpartition(":")[0].removesuffix(".py").split("/")
    installed = next((name for name in _INSTALLED if name in folders), None)
    if installed is None and _STANDARD.search(frame):
        return None
    if installed is not None:
        package = folders[folders.index(installed) + 1]
        part = _PART_OF_PACKAGE.get("genai" if package == "google" else package)
        named = next(_matching(_OF_TRAINERS, frame), part) if part in _OWN_PARTS else part
        return named if part or named in (Part.TOKENIZER, Part.DATA) else None
    part = _part_of_checkout(folders)
    table = _OF_TRAINERS if part is Part.TRAINER else _OF_USERS
    return next(_matching(table, frame), part or Part.SCRIPT) if part in _OWN_PARTS else part


def _part_of_checkout(folders: Sequence[str]) -> Part | None:
    """Return the part of the package whose source tree holds the file; None for user code.

    A trainer's tree may have folders named like other packages, and the user's files at its root.
    """
    parts = [_PART_OF_PACKAGE.get(name) for name in folders[:-1]]
    if Part.TRAINER not in parts:
        return next((part for part in reversed(parts) if part), None)
    below = folders[len(parts) - parts[::-1].index(Part.TRAINER) :]
    return Part.TRAINER if len(below) > 1 and below[0] not in _FOR_USERS else None


@lru_cache(maxsize=4096)
def phase_of(frame: str) -> Phase | None:
    return next(_matching(_PHASES, frame), None)


def _matching(table: _Table[T], text: str) -> Iterator[T]:
    return (value for value, pattern in table if pattern.search(text))
