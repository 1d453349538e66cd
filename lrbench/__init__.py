"""lrbench: did the model learn the rule, or did it learn length 40?"""

from lrbench.registry import (
    register_backbone,
    register_encoder,
    register_mixer,
    register_protocol,
    register_task,
)

__version__ = "0.1.0"

__all__ = [
    "register_backbone",
    "register_encoder",
    "register_mixer",
    "register_protocol",
    "register_task",
]
