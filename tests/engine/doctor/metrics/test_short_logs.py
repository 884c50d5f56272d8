"""One to five records at the end of a log: what a person would name in them, said with caution."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.doctor.diagnose import diagnose_file
from engine.doctor.log_doctor import LogDoctor, source_of
from engine.doctor.metrics import RuleContext, metric_findings
from engine.run.finding import Finding, Severity
from engine.run.history.columns import Columns
from engine.run.history.train_log import Step

NAN = {
    "pairs": "step 12: loss=nan, grad_norm=nan, lr=1e-05\n",
    "a bar": "Epoch 0:  3%|#  | 31/99 [00:12<06:30, 2.4it/s, v_num=4, train_loss_step=nan]\n",
    "a bar of RL": " 50%|##| 4/8 [00:40<00:40, 10.1s/it, policy_loss=nan, kl=nan, return=nan]\n",
    "a quotation": "> iter 20: loss 3.9, mfu 15.34%\n> \n> iter 30: loss nan, mfu 15.30%\n",
    "the rest of a log": "Epoch 1 | iter 12 step 3 | loss train: nan, val: n/a |\n",
    "another bar": "1|14|Loss: nan:   3%|#  | 14/400 [00:31<11:02]\n",
    "colors": "\x1b[31mstep: 30 \x1b[32mloss:  nan \x1b[33mgrad_norm:  nan \x1b[0m\n",
    "json": '{"loss": NaN, "grad_norm": NaN, "learning_rate": 5e-06, "step": 40}\n',
    "a sum of losses": "batch 3, ce_loss: 2.1, combined_loss: nan,\nbatch 4, combined_loss: nan,\n",
    "after sound ones": "iter 10 | loss 3.1021\niter 20 | loss nan\niter 30 | loss nan\n",
    "a tensor": "loss = tensor(nan, device='cuda:0', grad_fn=<DivBackward0>)\n",
    "filtered": "{'loss': '0', 'grad_norm': 'nan', 'learning_rate': '2e-05', 'epoch': '0.02'}\n",
    "a loss that no model has": "{'loss': 91234567.5, 'grad_norm': nan, 'epoch': 1.0}\n",
    "validation too": "{'loss': 26.2, 'grad_norm': nan}\n{'eval_loss': nan, 'epoch': 5.0}\n",
    "infinite": "| epoch 001:  104 / 2210 loss=-inf, nll_loss=-inf, gnorm=inf\n",
    "a table": "step\ttrain loss\tgrad norm\n1\t2.31\t1.2\n2\tnan\tnan\n3\tnan\tnan\n",
    "verl": "step:9 - actor/kl_loss:nan - actor/pg_loss:nan - actor/grad_norm:nan - "
    "critic/score/mean:-1.0 - critic/score/max:-1.0 - critic/score/min:-1.0\n",
    "no loss printed": " iteration 220/ 900 | loss scale: 1.0 | grad norm: nan |\n"
    " iteration 221/ 900 | loss scale: 1.0 | grad norm: nan |\n",
    "wrapped": "iteration 7/90 | learning rate: 2.5E-05 |\nloss scale: 1.0 | grad norm: nan |\n"
    "number of skipped iterations: 0 | number of nan iterations: 0\n",
    "cut in its last record": "{'loss': 2.75, 'grad_norm': 5.125, 'epoch': 0.01, 'speed': 0.5, "
    "'memory': 61.5}\n{'loss': 2.5, 'grad_norm': nan, 'epoch': 0.0",
}
FLAT = {
    "a table": "| Step | Training Loss | reward | reward_std | kl |\n|---|---|---|---|---|\n"
    "| 1 | 0.0 | 0.0 | 0.0 | 0.0 |\n| 2 | 0.0 | 0.0 | 0.0 | 0.0 |\n",
    "pairs": "step=7 mean_reward=0.0 reward_std=0.0 policy_loss=0.0 kl=0.0001\n",
    "many lines": "{'loss': 0.0,\n 'grad_norm': 0.0,\n 'reward': -1.0,\n 'reward_std': 0.0}\n",
    "verl": "step:3 - actor/pg_loss:np.float64(0.0) - actor/grad_norm:np.float64(0.0) - "
    "critic/score/mean:0.0 - critic/score/max:0.0 - critic/score/min:0.0\n",
    "no spread printed": "Step loss grad_norm reward\n1     0    0         0\n...\n"
    "9     0    0         0\n",
    "nothing ends": '{"reward": 0.0, "reward_std": 0.0, "completions/clipped_ratio": 1.0}\n',
}
STILL = {
    "rewards differ": "'reward': 0.512, 'reward_std': 0.21094, 'grad_norm': 0.0, 'kl': 0.0}\n",
    "preferences": "{'loss': 0.6931, 'grad_norm': 0.0, 'learning_rate': 2e-06, "
    "'rewards/chosen': 0.0, 'rewards/margins': 0.0, 'logps/chosen': -31.2241}\n",
    "one loss": "step 10 | loss: 2.7126 | grad norm: 0.0\n"
    "step 20 | loss: 2.7126 | grad norm: 0.0\n",
    "no labels": "{'loss': 0.0, 'grad_norm': 0.0, 'learning_rate': 4.85e-05, 'epoch': 0.1}\n",
}
LARGE = {
    "kl": "train/kl: 48,210.5\ntrain/policy_loss: 0.31\n",
    "loss and gradient": "Step 1: loss=2.1e+07, grad_norm=5.5e+05\n"
    "Step 2: loss=3.9e+07, grad_norm=7.1e+05\n",
    "skipped updates": "grad norm: 18231.5 is above 100, skipping the step\n" * 4,
    "a frame": "|    approx_kl            | 310.2   |\n|    policy_gradient_loss | 4.1 |\n",
    "distillation": "{'loss': 640.5, 'grad_norm': 5120.25, 'learning_rate': 1e-05}\n",
}
COLLAPSED = {
    "random text to the cap": "step:41 - actor/entropy:8.812 - critic/score/mean:0.0 - "
    "critic/score/max:0.0 - critic/score/min:0.0 - response_length/clip_ratio:1.0\n",
    "nothing to say": "".join(
        f"{{'reward': 1.0, 'reward_std': 0.31, 'completions/mean_length': {length}}}\n"
        for length in (410.5, 4.5, 2.0)
    ),
    "certain": "step:900 - actor/entropy:0.002 - actor/grad_norm:0.6125\n",
    "entropy falls": "step=10 entropy=0.81, pg_loss=0.01\nstep=90 entropy=0.021, pg_loss=0.02\n",
}
UNHEALTHY = {
    "loss_nan": NAN,
    "reward_zero_or_flat": FLAT,
    "loss_flat_no_learning": STILL,
    "kl_or_grad_blowup": LARGE,
    "collapse_entropy_or_length": COLLAPSED,
    "reward_function_error": {"one step": "step 4: reward=nan, loss=0.01, kl=0.002\n"},
}
HEALTHY = {
    "the scaler of AMP looks for its scale": "[1][100/9000] loss: 1.91, grad_norm: nan\n"
    "[1][200/9000] loss: 0.92, grad_norm: 3.9\n",
    "one step of AMP": "{'loss': 2.41, 'grad_norm': inf, 'learning_rate': 0.0}\n",
    "GRPO's loss is 0": "{'loss': 0.0, 'grad_norm': 0.0866, 'reward': 1.7, 'reward_std': 0.57, "
    "'kl': 0.0}\n",
    "the first step of DPO": "{'loss': 0.6931, 'grad_norm': 4.21, 'learning_rate': 0.0, "
    "'rewards/chosen': 0.0, 'rewards/margins': 0.0, 'rewards/accuracies': 0.0}\n",
    "a rate of 0": "{'loss': 2.41, 'grad_norm': 0.0, 'learning_rate': 0.0}\n"
    "{'loss': 2.41, 'grad_norm': 0.0, 'learning_rate': 0.0}\n",
    "a bar before its first loss": "  0%|  | 0/10 [00:00<?, ?it/s, loss=nan]\n"
    " 10%|  | 1/10 [00:01<00:09, loss=2.1]\n",
    "gaps of a table": "step\ttrain loss\tvalid loss\n1\tnan\t1.59\n2\t1.81\tnan\n3\tnan\t1.01\n",
    "rewards that begin at 0": "reward=0.0 reward_std=0.0 loss=0.0\n"
    "reward=0.1 reward_std=0.2 loss=0.01\n",
    "settings": "max_grad_norm: 1.0\nkl_coef: 0.0\nclip_grad_norm=5000\nreward: rule\n",
    "the first step of verl": "step:1 - actor/entropy:1.21 - actor/kl_loss:0.0 - actor/pg_loss:0.0"
    " - actor/grad_norm:0.42 - critic/score/mean:0.0 - critic/score/max:1.0 - "
    "critic/score/min:-1.0 - response_length/clip_ratio:1.0\n",
    "three decimals": "loss: 2.100, grad_norm: 0.000\nloss: 2.100, grad_norm: 0.000\n",
    "sums over a response": "objective/kl: 61.2\nobjective/entropy: 88.1\nobjective/scores: 0.4\n",
    "nothing to validate": "eval loss: nan\nstep 1 loss: 2.2\nstep 2 loss: 2.1\n",
    "PPO of games": "|  approx_kl  | 0.01 |\n| entropy_loss | -2.76 |\n| loss | 1.1e+03 |\n",
    "a step that was skipped": "step:1, loss:inf\nstep:2, loss:2.3\n",
    "another loss": "loss: 1900.0, grad_norm: 12.5\nloss: 1850.0, grad_norm: 11.5\n",
}


def alerts(path: Path, text: str) -> list[Finding]:
    path.write_text(text)
    return [finding for finding in diagnose_file(path) if finding.severity.is_alert]


@pytest.mark.parametrize(
    ("category", "text"),
    [
        pytest.param(category, text, id=f"{category}-{name}")
        for category, texts in UNHEALTHY.items()
        for name, text in texts.items()
    ],
)
def test_a_few_unhealthy_records_are_named(tmp_path: Path, category: str, text: str) -> None:
    first = alerts(tmp_path / "console.log", text)[0]

    assert first.category == category


@pytest.mark.parametrize("text", HEALTHY.values(), ids=HEALTHY)
def test_a_few_healthy_records_are_no_alert(tmp_path: Path, text: str) -> None:
    assert alerts(tmp_path / "console.log", text) == []


@pytest.mark.parametrize("texts", UNHEALTHY.values(), ids=UNHEALTHY)
def test_what_rests_on_little_is_a_warning_that_says_so(
    tmp_path: Path, texts: dict[str, str]
) -> None:
    for text in texts.values():
        for alert in alerts(tmp_path / "console.log", text):
            assert alert.severity is Severity.WARNING
            assert alert.confidence <= 0.5
            assert "This is based on" in alert.cause


def test_several_steps_without_an_update_are_told_and_are_no_alert(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_text("{'loss': 9.1252, 'grad_norm': 0.0, 'learning_rate': 0.0}\n" * 4)
    (one,) = diagnose_file(path)

    assert (one.id, one.severity) == ("loss_flat_no_learning.not_begun", Severity.INFO)


def test_a_loss_that_stays_the_same_without_a_gradient_is_found(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    line = "{'loss': 1.2513, 'grad_norm': 0.0, 'learning_rate': 2e-05}\n"
    path.write_text(line * 2)
    assert [finding.id for finding in diagnose_file(path)] == ["loss_flat_no_learning"]
    path.write_text(line + line.replace("1.2513", "1.1904").replace("0.0,", "0.81,"))
    assert diagnose_file(path) == []


def test_a_gradient_that_is_lost_is_not_called_a_loss(tmp_path: Path) -> None:
    (one,) = alerts(tmp_path / "console.log", NAN["wrapped"])

    assert one.title == "actor/grad_norm is NaN or infinite"


def test_the_number_of_records_is_told(tmp_path: Path) -> None:
    one, two = (
        alerts(tmp_path / "console.log", "".join(f"step {n}: loss=nan\n" for n in range(count)))[0]
        for count in (1, 2)
    )

    assert "is based on one logged step" in one.cause
    assert "is based on 2 logged steps" in two.cause
    assert one.confidence < two.confidence


def test_the_same_over_many_steps_is_no_mere_warning(tmp_path: Path) -> None:
    text = "".join(f"step {n}: loss={2.5 if n < 4 else 'nan'}\n" for n in range(1, 30))
    first = alerts(tmp_path / "console.log", text)[0]

    assert (first.id, first.severity) == ("loss_nan", Severity.CRITICAL)
    assert first.onset_step == 4


def test_where_steps_have_no_numbers_a_level_that_shifts_is_no_error(tmp_path: Path) -> None:
    text = "".join(f"loss: {level}\n" for level in (0.5, 9.5) for _ in range(20))

    assert [alert.severity for alert in alerts(tmp_path / "a.log", text)] == [Severity.WARNING]


def test_nothing_is_concluded_from_the_first_steps_of_a_log_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_text(FLAT["many lines"])
    doctor = LogDoctor(source_of(path))

    assert [finding for finding in doctor.diagnose() if finding.severity.is_alert] == []


def test_nothing_is_concluded_from_the_first_steps_of_a_run_of_ours(tmp_path: Path) -> None:
    attempt = tmp_path / "run" / "attempt_1"
    attempt.mkdir(parents=True)
    (tmp_path / "run" / "manifest.json").write_text("{}")

    assert alerts(attempt / "console.log", FLAT["verl"]) == []


NAMES = (
    *("train/loss", "actor/loss", "actor/pg_loss", "actor/grad_norm", "actor/kl_loss"),
    *("actor/ppo_kl", "actor/entropy", "actor/lr", "reward/mean", "reward/std", "reward/min"),
    *("reward/max", "reward/zero_std_share", "rewards/margins", "response_length/mean"),
    "response_length/clip_ratio",
)
VALUES = st.sampled_from([None, 0.0, 1e-4, 0.5, 0.6931, 1.0, 30.0, 1e6, -1.0]) | st.floats(-9, 9)


@given(
    st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1), min_size=1, max_size=5)
)
def test_no_few_records_are_more_than_a_warning(records: list[dict[str, float | None]]) -> None:
    columns = Columns()
    for number, values in enumerate(records, 1):
        columns.add(Step(number, 1, 0.0, values))

    for finding in metric_findings(columns, RuleContext(is_whole=True)):
        assert finding.severity in (Severity.WARNING, Severity.INFO)
