"""Pages of measured tables: raw output of `lrbench bench` into numbers, these into a page."""
