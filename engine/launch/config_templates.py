"""The texts of a first config and of its reward function, with fields to fill in."""

from __future__ import annotations

SFT = """\
# SFT on {comment}. All values: grubrics-tui config {name}
grubrics:
  kind: sft
  device: {device}
  description: SFT on {comment}

model:
  path: {model} # a folder, or a name on the Hugging Face hub

lora:
  r: {lora_rank} # 0: full fine-tuning

data:
  train_file: {data}
  max_seq_length: {sequence}

training:
  output_dir: checkpoints/{name} # the trained model is in final/
  num_train_epochs: 1
  per_device_train_batch_size: 4
  gradient_accumulation_steps: 1
  learning_rate: {sft_rate}
  warmup_ratio: 0.1 # the share of the steps in which the rate rises
  weight_decay: 0.01
  bf16: {bf16}
  save_steps: -1 # only at the end
  seed: 1 # of the order and of LoRA's weights

logging:
  project: {name}
  run_name: {name}
"""

GRPO = """\
# GRPO on {comment}. All values: grubrics-tui config {name}
grubrics:
  kind: grpo
  device: {device}
  description: GRPO on {comment}
  seed: 1 # of the responses

{reward}

data:
  train_files: {data}
  val_files: {validation}
  seed: 1 # of the order of the prompts
  train_batch_size: 8
  max_prompt_length: {prompt}
  max_response_length: {response}
  apply_chat_template_kwargs:
    enable_thinking: false # true: thoughts of a thinking model count as response tokens

actor_rollout_ref:
  model:
    path: {model} # a folder, or a name on the Hugging Face hub
  actor:
    ppo_mini_batch_size: 8 # one update per step
    ppo_micro_batch_size_per_gpu: 4
    clip_ratio: 0.2
    use_kl_loss: false
    optim:
      lr: 1.0e-6
  rollout:
    name: {engine}
    temperature: 1.0
    tensor_model_parallel_size: 1
    n: 8 # responses per prompt; their spread is what GRPO learns from
    log_prob_micro_batch_size_per_gpu: 4{tools}
  ref:
    log_prob_micro_batch_size_per_gpu: 4

algorithm:
  adv_estimator: grpo

trainer:
  total_epochs: 1
  n_gpus_per_node: 1
  project_name: {name}
  experiment_name: {name}
  default_local_dir: checkpoints/${{trainer.experiment_name}}
  resume_mode: disable # every launch starts from the model; grubrics-tui resume RUN continues one
  test_freq: 10
  save_freq: 50
  logger: [console]
"""

TOOLS = """
    agent:
      default_agent_loop: tool_agent
    multi_turn:
      function_tool_path: {tools} # functions with @function_tool
      format: hermes # how the model writes a call; docs/tools.md lists others
      max_assistant_turns: 4"""

JUDGED = """\
judge:
  provider: openai # or azure; docs/data.md has the credentials
  model: gpt-5-mini
  timeout_s: 300 # a reasoning model takes minutes
  max_tokens: 16000 # its thinking counts too

reward_config:
  use_contrastive: {contrastive} # as the file was prepared"""

SCORED = """\
reward:
  custom_reward_function:
    path: {path}"""

REWARD = r'''"""Scores a response to a row of {data}."""

import json
import re

# How responses mark their final answer: the last mark counts, and without one the last line.
MARKS = (
    r"<((?:final_?)?(?:answer|solution|result))>(?P<answer>.*?)</\1>",
    r"\\boxed{{(?P<answer>(?:[^{{}}]|{{[^{{}}]*}})*)}}",
    r"(?:####|answer is|answer:)\s*(?P<answer>[^\n]+)",
)


def compute_score(data_source, solution_str, ground_truth, extra_info):
    """1 if the final answer of the response is a right one, else 0."""
    answer = plain(final_answer(solution_str.rpartition("</think>")[2]))
    right = [plain(str(text)) for text in right_answers(ground_truth)]
    return float(answer != "" and answer in right)


def final_answer(response):
    marked = [m for mark in MARKS for m in re.finditer(mark, response, re.IGNORECASE | re.DOTALL)]
    if marked:
        return max(marked, key=lambda match: match.start("answer"))["answer"]
    return response


def right_answers(truth):
    """Those of a text, a list, a mapping with one list, or the JSON of them."""
    if isinstance(truth, str) and truth.lstrip()[:1] in ("[", "{{"):
        try:
            truth = json.loads(truth)
        except ValueError:
            pass
    if isinstance(truth, dict):
        truth = next((value for value in truth.values() if value is not None), "")
    return list(truth) if not isinstance(truth, (str, int, float)) else [truth]


def plain(text):
    """The last line without case, outer marks and the separators of thousands."""
    lines = re.sub(r"</?\w+>", "", text).strip().splitlines() or [""]
    text = " ".join(lines[-1].strip(" .$*'\"`").lower().split())
    number = text.replace(",", "")
    is_number = re.fullmatch(r"-?[0-9]{{1,15}}(\.[0-9]{{1,15}})?", number)
    return repr(float(number)) if is_number else text
'''
