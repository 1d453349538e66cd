"""The tables of a report: which runs stand in which cell, and what a cell says."""
