"""A Jupyter server that the tests of a module share, with a job store of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.servers import Server


@pytest.fixture(scope="module")
def _server(_module_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"), _module_store)
    yield server
    server.stop()


@pytest.fixture
def server(_server: Server, store: Path) -> Server:
    """Give the server, with no jobs in its store."""
    shutil.rmtree(store / "jobs", ignore_errors=True)
    return _server
