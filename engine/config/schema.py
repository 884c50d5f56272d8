"""The sections of a config that are ours, as models that refuse unknown keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from engine.base.errors import nearest
from engine.base.masking import is_secret_name
from engine.config.curriculum import parse_phases
from engine.config.keys import flatten
from engine.reward.formula import RewardSettings
from engine.reward.judge.settings import JudgeSettings
from engine.run.categories import ALERTS, alternatives_to
from engine.run.kinds import GRPO, ByKind, Kind

_SEVERITIES = f"{', '.join(ALERTS[:-1])} and {ALERTS[-1]}"


CONFIG_VERSION = 1
"""The only version of configs so far. A change that gives a key another meaning needs the next."""
_NEWER = "; a newer config needs a newer program"


def _require_sha256(text: str) -> str:
    if re.fullmatch(r"[0-9a-fA-F]{8,64}", text):
        return text
    raise PydanticCustomError(
        "sha256", "give the 64 hex digits of a SHA-256, or its first 8 or more: sha256sum FILE"
    )


Sha256 = Annotated[str, AfterValidator(_require_sha256)]
"""A SHA-256 in hex, or its beginning."""

Decay = Annotated[float, Field(ge=0, lt=1)]
"""A decay rate of Adam."""


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ScheduleSection(Section):
    """A value of the rollouts that changes linearly over ``steps`` and then stays."""

    @field_validator("steps", check_fields=False)
    @classmethod
    def _has_both_ends(cls, steps: int | None, info: ValidationInfo) -> int | None:
        missing = [name for name in ("initial", "final") if info.data.get(name, 0) is None]
        if steps is None or not missing:
            return steps
        names = " and ".join(missing)
        raise PydanticCustomError("no_ends", "the schedule needs {names}, too", {"names": names})


class TemperatureScheduleSection(ScheduleSection):
    """The sampling temperature of the training rollouts by step, in place of rollout.temperature:
    initial + step / steps * (final - initial) up to ``steps``, then final."""

    initial: float | None = Field(default=None, gt=0)
    """The temperature at step 0, before the first step, from which the schedule starts."""
    final: float | None = Field(default=None, gt=0)
    """The temperature from step ``steps`` on."""
    steps: int | None = Field(default=None, ge=1)
    """The steps over which the temperature changes from initial to final; null: no schedule."""


class LengthScheduleSection(ScheduleSection):
    """The longest response of the training rollouts by step, in place of max_response_length,
    which it must not exceed."""

    initial: int | None = Field(default=None, ge=1)
    """Tokens of the longest response at step 0, before the first step."""
    final: int | None = Field(default=None, ge=1)
    """Tokens of the longest response from step ``steps`` on."""
    steps: int | None = Field(default=None, ge=1)
    """The steps over which the length changes from initial to final; null: no schedule."""


class ProjectSection(Section):
    """Settings of a run that neither verl nor the judge has."""

    kind: str = GRPO.name
    """The kind of training: grpo or sft."""
    version: int = CONFIG_VERSION
    """The version of the format that the config is written in. There is one so far."""
    device: Literal["cpu", "cuda"] = "cuda"
    """Where training and generation run."""
    description: str = ""
    """A line about the config."""
    no_silent_defaults: bool = False
    """The checks fail if a value that decides what is learned, such as the learning rate, is a
    default that nobody has set."""
    expect_data: list[Sha256] | None = None
    """The SHA-256 of the data files, in any order, or the first 8 characters or more of each; the
    checks fail for other data."""
    deterministic: bool = False
    """Repeat the numbers of a run bit by bit where the hardware and its libraries can: slower."""
    keep_data_mb: int = Field(default=100, ge=0)
    """A run keeps copies of its data files up to so many MiB; after the files have changed, resume
    continues with the copies. 0: none."""
    preset: str | list[str] | None = None
    """An algorithm by its name, or several that fit together, e.g. [dapo, tis]; docs/verl.md lists
    them."""
    seed: int = 42
    """The seed of the responses. data.seed is that of the order of the prompts: neither sets the
    other."""
    shares: list[Annotated[float, Field(ge=0)]] | None = None
    """The shares of the files of data.train_files in every step, e.g. [0.8, 0.2]; null: all rows
    of all files, shuffled."""
    curriculum: str | None = None
    """Phases of the run, each VERIFIABLE:OPEN:STEPS[:LR_SCALE], e.g. 0.8:0.2:0.4 0.2:0.8:0.6:
    shares of the rows of the two data.train_files, share of the steps, and factor of the learning
    rate; null: none."""
    max_failed_share: float = Field(default=0.5, ge=0, le=1)
    """The run stops when more than this share of a step's rollouts got no reward."""
    max_refill_batches: int = Field(default=10, ge=0)
    """The run stops when a step replaces more than this many times ``data.train_batch_size``
    prompts, because their rollouts got equal rewards, none, or are too stale."""
    max_skipped_updates: int | None = Field(default=3, ge=1)
    """The run stops after so many updates in a row that are skipped, because the norm of their
    gradient is NaN or infinite; null: never."""
    reward_timeout_s: float = Field(default=120.0, gt=0)
    """A call of the config's own reward function is cut after so many seconds, and its rollout has
    no reward."""
    reward_check_s: float = Field(default=10.0, ge=0)
    """Seconds for a preflight check to load that function and score sample rows; 0: no check."""
    tool_timeout_s: float = Field(default=30.0, gt=0)
    """A call of a tool is given up after so many seconds; the model reads that it had no reply."""
    blocklist: list[Annotated[str, Field(min_length=1)]] = []
    """Texts that a response must not contain, in any case; responses with one are counted."""
    blocked_reward: float | None = None
    """The reward of a response with a text of the blocklist; null: the reward that it gets."""
    temperature_schedule: TemperatureScheduleSection = TemperatureScheduleSection()
    response_length_schedule: LengthScheduleSection = LengthScheduleSection()
    final_model: bool = True
    """Whether a GRPO run whose last step is saved also writes its model to final/."""
    exposed: bool = False
    """Whether the run may listen where other hosts reach it, as it must on a cluster of several."""

    @field_validator("version")
    @classmethod
    def _is_known(cls, version: int) -> int:
        if version == CONFIG_VERSION:
            return version
        raise PydanticCustomError(
            "version",
            "this program reads configs of version {known}{newer}",
            {"known": CONFIG_VERSION, "newer": _NEWER if version > CONFIG_VERSION else ""},
        )

    @field_validator("curriculum")
    @classmethod
    def _has_phases(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                parse_phases(text)
            except ValueError as error:
                raise PydanticCustomError("phases", "{problem}", {"problem": str(error)}) from error
        return text


class ModelSection(Section):
    path: str = "???"
    """Folder of the model, or its name on the Hugging Face hub."""
    trust_remote_code: bool = False
    """Execute Python code that comes with the model."""
    custom_chat_template: str | None = None
    """Text of a template to use in place of the model's; it is saved with the trained model."""


class LoraSection(Section):
    r: int = Field(default=0, ge=0)
    """LoRA rank; 0 is full fine-tuning."""
    alpha: int = 32
    """LoRA alpha: the update is scaled by alpha / r."""
    target_modules: str | list[str] = "all-linear"
    """Modules that get LoRA weights."""
    dropout: float = Field(default=0.0, ge=0, lt=1)


class SftDataSection(Section):
    train_file: str = "???"
    """Conversations to train on."""
    val_file: str | None = None
    """Conversations whose loss is measured after each epoch; null: none."""
    max_seq_length: int = Field(default=2560, ge=1)
    """Tokens of a conversation; longer ones are cut at the right."""
    ignore_input_ids_mismatch: bool = False
    """Train on conversations that the chat template renders otherwise message by message."""


class TrainingSection(Section):
    output_dir: str = "???"
    """Folder for checkpoints."""
    num_train_epochs: int = Field(default=3, ge=1)
    """Passes over the training file; max_steps overrides it."""
    max_steps: int = -1
    """Stop after this many steps; -1 runs every epoch."""
    per_device_train_batch_size: int = Field(default=8, ge=1)
    """Conversations in one forward pass of a GPU."""
    gradient_accumulation_steps: int = Field(default=1, ge=1)
    """Forward passes of each GPU before the optimizer steps."""
    learning_rate: float = Field(default=2.0e-5, gt=0)
    """Highest learning rate, after the warmup."""
    lr_scheduler_type: Literal["cosine", "constant"] = "cosine"
    """Schedule of the learning rate after the warmup."""
    min_lr_ratio: float = Field(default=0.0, ge=0, le=1)
    """Lowest learning rate of the cosine schedule, as a share of the highest."""
    warmup_ratio: float = Field(default=0.1, ge=0, le=1)
    """Share of the steps in which the learning rate rises from 0."""
    weight_decay: float = 0.01
    """Weight decay of AdamW."""
    betas: list[Decay] = Field(default=[0.9, 0.999], min_length=2, max_length=2)
    """Decay rates of AdamW's two moments."""
    eps: float = Field(default=1e-8, gt=0)
    """Added to the denominator of AdamW."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm."""
    bf16: bool = True
    """Compute in bfloat16; false: float32."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass: less memory, more time."""
    logging_steps: int = Field(default=1, ge=1)
    save_steps: int = -1
    """Save every so many steps; -1 saves only at the end."""
    eval_steps: int | None = Field(default=None, ge=1)
    """Validate every so many steps and at the end; null validates after every epoch."""
    seed: int = 42
    n_gpus: int = Field(default=1, ge=1)
    """GPUs of this machine to train on."""
    master_port: int = Field(default=0, ge=0, le=65535)
    """Rendezvous port of torch.distributed; 0 takes a free one."""
    resume_from: str | None = None
    """A ``global_step_<n>`` folder to resume from; null starts from the model."""


class LoggingSection(Section):
    project: str = "grubrics-transfer"
    """Project name in the logger."""
    run_name: str = "sft"
    """Run name in the logger."""
    report_to: list[Literal["console", "file", "wandb"]] = ["console", "file"]
    """Where metrics go; file is always added."""


class SupervisionSection(Section):
    """Time limits of the run's supervisor."""

    interrupt_patience_s: float = Field(default=15.0, ge=0)
    """Seconds between SIGINT and SIGTERM when the run is stopped; verl needs about 5."""
    terminate_patience_s: float = Field(default=5.0, ge=0)
    """Seconds between SIGTERM and SIGKILL."""
    stall_factor: float = Field(default=8.0, gt=1)
    """A run is stalled after this many median step times without a step, if those are at least
    stall_floor_s."""
    stall_floor_s: float = Field(default=60.0, ge=0)
    """Seconds without a step before which no run is stalled."""
    start_patience_s: float = Field(default=1800.0, ge=0)
    """Before two steps are known, a run is stalled after so many seconds without one."""
    stack_dumps: bool = True
    """Whether a stall is located with py-spy, where the system allows it."""
    queue_fast_failure_s: float = Field(default=120.0, ge=0)
    """Two runs in a row that failed within so many seconds of their start stop the queue."""


class GuardSection(Section):
    """Automatic stop and notification on findings; by default it does neither."""

    stop_on: list[str] = []
    """Severities, categories or IDs of findings that stop the run, e.g. [critical, loss_nan]."""
    stop_at_once: bool = False
    """Stop at once instead of after the next checkpoint."""
    notify_on: list[str] = ["critical", "error"]
    """Severities, categories or IDs of findings that are sent to command and webhook."""
    command: list[str] = []
    """Run, without a shell, with the finding as JSON in GRUBRICS_FINDING."""
    webhook_variable: str | None = None
    """Name of the environment variable that holds the address a finding is posted to."""
    every_s: float = Field(default=10.0, ge=0.5)
    """Seconds between two examinations of a run."""

    @field_validator("stop_on", "notify_on")
    @classmethod
    def _can_fire(cls, names: list[str]) -> list[str]:
        for name in names:
            if options := alternatives_to(name):
                close = nearest(name, options)
                hint = f"did you mean '{close}'?" if close else f"severities are {_SEVERITIES}"
                raise PydanticCustomError(
                    "never_fires",
                    "no finding is called {name}; {hint}",
                    {"name": repr(name), "hint": hint},
                )
        return names

    @field_validator("webhook_variable")
    @classmethod
    def _is_masked(cls, name: str | None) -> str | None:
        if name is None or is_secret_name(name):
            return name
        raise PydanticCustomError(
            "unmasked",
            "must have WEBHOOK in it, e.g. GUARD_WEBHOOK: by its name a variable is known as a "
            "secret wherever variables are recorded",
        )


class CommonSections(Section):
    grubrics: ProjectSection = ProjectSection()
    supervision: SupervisionSection = SupervisionSection()
    guard: GuardSection = GuardSection()


class GrpoSections(CommonSections):
    judge: JudgeSettings = JudgeSettings()
    reward_config: RewardSettings = RewardSettings()


class SftSections(CommonSections):
    model: ModelSection = ModelSection()
    lora: LoraSection = LoraSection()
    data: SftDataSection = SftDataSection()
    training: TrainingSection = TrainingSection()
    logging: LoggingSection = LoggingSection()


_SECTIONS: ByKind[type[CommonSections]] = ByKind("config", grpo=GrpoSections, sft=SftSections)


def own_sections(kind: Kind) -> type[CommonSections]:
    """The model that checks our sections of a config of this kind."""
    return _SECTIONS[kind]


@cache
def own_defaults(kind: Kind) -> Mapping[str, Any]:
    """Our sections' defaults by dotted key."""
    return MappingProxyType(dict(flatten(own_sections(kind)().model_dump())))
