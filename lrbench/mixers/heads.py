"""Heads that share features between them."""

from __future__ import annotations


def share(
    features: int, heads: int, what: str = "model.width", fix: str = "choose heads that divide it"
) -> int:
    """Return how many of `features` each head has; ValueError where that is no whole number.

    what: the setting that says how many there are; fix: what a user can do.
    """
    if features % heads:
        raise ValueError(
            f"{what} of {features} cannot be shared by model.mixer.heads={heads}; {fix}"
        )
    return features // heads
