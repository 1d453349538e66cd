"""Weights that are right by construction, for tasks that are finite automata (`init=exact`)."""
