"""A counted command has the rights of who asked for it."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.command_line import succeed
from tests.privileges.others import OTHER, looking, owners, rights_of, seen


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_the_command_has_the_rights_of_who_used_sudo(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN variables that steer programs, and a command that shows its rights and variables
    for name, value in {"SUDO_UID": OTHER, "SUDO_GID": OTHER, "PYTHONPATH": "/nothing"}.items():
        monkeypatch.setenv(name, str(value))
    options = ("--repeat", "1", "--events", "page-faults", "-o", theirs / "out")
    succeed("counters", *options, "--", *looking(theirs / "seen"))
    # THEN it had no right of root, and all variables; perf counted, and what it wrote is theirs
    rights, variables = seen(theirs / "seen")
    assert rights == rights_of(OTHER, OTHER)
    assert (variables["PYTHONPATH"], variables["USER"]) == ("/nothing", str(OTHER))
    (counted,) = pq.read_table(theirs / "out/counters/counters.parquet")["count"].to_pylist()
    assert counted > 50
    assert owners(theirs) == {(OTHER, OTHER)}
