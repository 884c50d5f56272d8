"""From a rollout to its reward: rubrics scored by a judge, or a function of the config."""
