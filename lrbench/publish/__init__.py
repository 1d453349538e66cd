"""The published page of a table: its records, the numbers made of them, and README.md of those.

In two steps: records -> runs.csv and settings.json (`numbers`), and from those and notes.yaml
README.md and figures (`page`). No number of a page comes from anywhere else.
"""
