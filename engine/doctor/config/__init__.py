"""What a recipe and its files alone show: known before the first step, and after the last."""
