"""Figures of a report: their numbers, their axes and their drawing."""
