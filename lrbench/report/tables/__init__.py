"""The tables of a report: those of grids of cells, and those of all runs."""
