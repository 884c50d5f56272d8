"""The screen: what a person sees, presses and types. ``engine`` does all of it without a screen."""
