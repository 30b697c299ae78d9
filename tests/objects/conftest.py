"""A server for all tests of a worker, and sets beside which those in object storage are held."""

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import tracekit as tk
from tests.objects.server import Server, make_bucket, server, why_not
from tests.shared import made_once

PROFILES = {"web-server": 900, "paging": 600, "log-structured": 300}
_BUCKETS = count()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if why := why_not():
        pytest.skip(why)
    with server(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture
def s3(running: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a new bucket."""
    for name, value in running.variables.items():
        monkeypatch.setenv(name, value)
    return make_bucket(f"bucket-{next(_BUCKETS)}")


@pytest.fixture(params=["s3", "file"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty folder: in a bucket, and on this machine."""
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/traces"
    return f"file://{tmp_path}/there"


@pytest.fixture
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a set of three volumes on this machine, with roles."""

    def make(place: Path) -> None:
        for name, requests in PROFILES.items():
            tk.generate(name, place / name, requests=requests)
        tk.add_to_set(place).classify().check()

    return Path(shutil.copytree(made_once(tmp_path_factory, "stored", make), tmp_path / "set"))
