"""Finding and reading run folders and published tables; the frames that they give."""
