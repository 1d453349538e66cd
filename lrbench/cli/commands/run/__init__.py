"""Commands that train models and score them."""
