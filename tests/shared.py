"""What tests only read is made once for all workers: the first one makes it, others wait."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder of a test run for which `make` was called once; nothing may be changed in it.

    A worker's own folder is below that of the run; without workers there is only that one.
    """
    own = factory.getbasetemp()
    place = (own.parent if own.name.startswith("popen-") else own) / f"shared-{name}"
    with open(f"{place}.made", "a+") as made:
        fcntl.flock(made, fcntl.LOCK_EX)
        if not os.fstat(made.fileno()).st_size:
            place.mkdir()
            make(place)
            made.write("whole")
    return place
