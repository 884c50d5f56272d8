"""Why rewards are zero, missing, not a number or all equal, from every rollout's record."""

from engine.doctor.rewards.diagnosis import RewardDiagnosis, merge_numbers, reward_findings

__all__ = ["RewardDiagnosis", "merge_numbers", "reward_findings"]
