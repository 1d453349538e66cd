"""A suite of tasks: scores over all of them, who entered, and the tables of both."""
