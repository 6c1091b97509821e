"""Parts of the bundle that no pod has to wait for: what it started with, and packages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from jupyter_jax_trainer.worker.pod.packagecache import PackageCache
from jupyter_jax_trainer.worker.pod.parcel import AWAITED_VARIABLE, WITHOUT_PACKAGES, Source
from jupyter_jax_trainer.worker.serialization.archive import (
    DIGEST_VARIABLE,
    SHEBANG,
    Archive,
    file_pieces,
)


def find(environment: Mapping[str, str], started: Path) -> Iterator[Source]:
    """Yield what of the bundle is here, and what the package cache may have.

    Parameters
    ----------
    environment
        Of the pod.
    started
        What it started with: the bundle without its packages, or without all that is large.

    Raises
    ------
    UsageError
        The setting of the cache is wrong.
    """
    cache = PackageCache.from_environment(environment)
    packages = Archive(started, environment.get(DIGEST_VARIABLE)).packages
    yield Source(0, len(SHEBANG), lambda: iter([SHEBANG]))
    if cache is not None:
        for one in packages.values():
            yield Source(one["offset"], one["size"], partial(cache.read, one))
    if environment[AWAITED_VARIABLE].endswith(WITHOUT_PACKAGES):
        begin = len(SHEBANG)
        end = begin + sum(one["size"] for one in packages.values())
        rest = os.stat(started).st_size - begin
        yield Source(end, rest, partial(file_pieces, started, begin, rest))
