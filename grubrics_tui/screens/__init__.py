"""The screens: a package holds a screen with the widgets that only it uses."""
