"""The suite of state tracking: a frozen protocol, and the lock of its test strings."""
