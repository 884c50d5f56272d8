"""The learning rate by phase, and the hash of the trained parameters."""

from __future__ import annotations

import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR

from engine.config.curriculum import Curriculum, parse_phases
from engine.train.phased_engine import parameters_hash, scale_learning_rate
from engine.train.phases import announce, read_phases


def make_scheduler() -> tuple[torch.optim.Optimizer, LambdaLR]:
    """A rate that rises to 1 in two steps, and phases of two, one and one steps."""
    environment: dict[str, str] = {}
    phases = parse_phases("1:0:0.5:0.5 1:0:0.25:0.1 1:0:0.25")
    announce(Curriculum(phases, 4), environment)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = LambdaLR(optimizer, lambda steps: min(1.0, (steps + 1) / 2))
    scale_learning_rate(scheduler, read_phases(environment).scale)
    return optimizer, scheduler


def rates(optimizer: torch.optim.Optimizer, scheduler: LambdaLR, steps: int) -> list[float]:
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def test_each_step_has_the_rate_of_the_schedule_times_the_factor_of_its_phase() -> None:
    # After its last step, a run that goes on stays in its last phase.
    assert rates(*make_scheduler(), 5) == pytest.approx([0.25, 0.5, 0.1, 1.0, 1.0])


def test_a_scheduler_that_is_loaded_continues_in_its_phase() -> None:
    optimizer, scheduler = make_scheduler()
    rates(optimizer, scheduler, 2)
    resumed, continued = make_scheduler()
    resumed.load_state_dict(optimizer.state_dict())
    continued.load_state_dict(scheduler.state_dict())
    assert rates(resumed, continued, 2) == pytest.approx([0.1, 1.0])


def test_the_hash_is_that_of_the_trained_parameters() -> None:
    module = torch.nn.Linear(2, 2)
    module.bias.requires_grad = False
    before = parameters_hash(module)
    module.bias.data += 1
    assert parameters_hash(module) == before
    module.weight.data += 1
    assert parameters_hash(module) != before
