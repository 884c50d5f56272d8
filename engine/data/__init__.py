"""From datasets and gold scores to the files that training reads."""
