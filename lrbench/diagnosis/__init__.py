"""What a trained model does inside: its steps, its states, and the automaton it seems to be."""
