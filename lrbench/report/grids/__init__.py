"""The cells of a table: which runs stand in which, and what one of them says."""
