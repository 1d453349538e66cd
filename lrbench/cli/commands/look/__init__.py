"""Commands that print what runs, tasks and models are."""
