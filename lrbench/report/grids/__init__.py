"""The cells of a table: the runs that belong to each, and what each shows."""
