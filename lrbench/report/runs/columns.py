"""The layout of runs.csv: its fixed columns, in order, and their pandas types.

After these come the configuration keys and `versions.*` on which the runs differ.
"""

from __future__ import annotations

CELL = ["protocol", "task", "model", "fingerprint"]  # what a cell is; its runs differ in seed only

RUN_COLUMNS = {
    "task": "object",
    "task_title": "object",
    "model": "object",
    "protocol": "object",
    "fingerprint": "object",
    "seed": "Int64",
    "data_seed": "Int64",
    "status": "object",  # finished, diverged or failed
    "stopped": "object",  # perfect, patience, budget or diverged
    "steps": "Int64",
    "train_seconds": "float64",
    "iterations": "float64",  # mean an update, of models solved by iteration
    "converged": "float64",  # the share of updates whose iterations had converged
    "parameters": "Int64",
    "state_size": "Int64",
    "device": "object",
    "dtype": "object",
    "mode": "object",
    "threads": "Int64",
    "perfect_step": "Int64",
    "perfect_seconds": "float64",
    "error": "object",
    "folder": "object",  # relative to the folder of runs
}

EVALUATION_COLUMNS = {
    "length": "Int64",  # of a split: its longest string
    "split": "object",
    "metric": "object",
    "value": "float64",
    "n": "Int64",
    "which": "object",  # the rule that kept the checkpoint; one score is repeated for each rule
    "kind": "object",
    "checkpoint_step": "Int64",  # the update that the checkpoint `which` was taken at
    "chance": "float64",  # the best baseline at this length or split, and its name
    "chance_baseline": "object",
    "guessing": "float64",  # what a guesser gets at this length by the rule `which`
}
