"""What a sweep has to do, how far it is, and what it says."""
