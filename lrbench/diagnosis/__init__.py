"""Diagnosis of a trained model: its steps, its states, and the automaton extracted from it."""
