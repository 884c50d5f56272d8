"""What runs of this project write: metrics, rewards and rollouts by step."""
