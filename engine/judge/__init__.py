"""Judges: who scores the answers with a rubric."""

from engine.judge.base import ErrorKind, Judge, JudgeResult, ScoringError
from engine.judge.factory import make_judge

__all__ = ["ErrorKind", "Judge", "JudgeResult", "ScoringError", "make_judge"]
