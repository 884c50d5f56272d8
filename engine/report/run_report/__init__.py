"""A report of runs in one file: read from their directories, written as HTML, Markdown and SVG."""
