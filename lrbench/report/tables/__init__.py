"""The tables of a report: what is printed of grids of cells, and of all runs."""
