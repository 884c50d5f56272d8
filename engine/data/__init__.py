"""From datasets and cached gold scores to the files that training reads."""
