"""A table with everything behind it in one archive: packed, made anonymous, checked by others."""
