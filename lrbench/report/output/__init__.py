"""A table as markdown, CSV, LaTeX, HTML and on a terminal."""
