"""joblib's worker processes, which know from their start on whom they work for.

Without this, a worker knows its sweep from its first job on. If the sweep is killed before that,
joblib lets the worker wait for five minutes.
"""

from __future__ import annotations

from typing import Any

from lrbench.sweeps.launch.worker import Parent, obey


def tell_workers(parent: Parent) -> None:
    """Let worker processes that joblib starts from now on end with `parent`."""
    from joblib import register_parallel_backend
    from joblib._parallel_backends import LokyBackend

    class Told(LokyBackend):  # type: ignore[misc]  # joblib is not annotated
        def configure(self, *arguments: Any, **settings: Any) -> Any:
            return super().configure(*arguments, initializer=obey, initargs=(parent,), **settings)

    register_parallel_backend("loky", Told)
