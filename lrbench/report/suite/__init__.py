"""A suite of tasks: scores over all of them, the entries, and the tables of both."""
