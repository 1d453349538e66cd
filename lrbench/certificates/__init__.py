"""What a model does on all strings: the shortest one it gets wrong, or a proof for every length."""
