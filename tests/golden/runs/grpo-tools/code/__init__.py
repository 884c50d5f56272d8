"""What a model is trained to do: how a row becomes a prompt, and what scores its answer."""
