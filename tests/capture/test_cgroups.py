"""The control groups whose I/O a capture records, by the hierarchy of this machine."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import parsed as traces
from tests.capture import machine
from tests.capture.machine import Disk
from tracekit.capture import bpf, remote
from tracekit.capture.cgroups import hierarchy
from tracekit.readers.blktrace import parse

pytestmark = pytest.mark.root
SCRIPT = Path(remote.__file__).with_suffix(".sh")


WHOLE = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
PART = "31 23 0:27 /docker/4711 /sys/fs/cgroup/blkio ro - cgroup cgroup rw,blkio"
SPACED = "32 23 0:28 / /mnt/groups\\040of\\040v1 rw shared:4 master:2 - cgroup cgroup rw,cpu,blkio"
TABLES = {
    "v2": (WHOLE, "/sys/fs/cgroup"),
    "v1 before v2, whatever their order": (f"{WHOLE}\n{SPACED}", "/mnt/groups of v1"),
    "a part of v1, as a container has it": (f"{PART}\n{WHOLE}", "/sys/fs/cgroup"),
}


@pytest.mark.parametrize(("table", "expected"), TABLES.values(), ids=TABLES)
def test_the_hierarchy_that_counts_io_is_found_here_and_on_other_hosts(
    tmp_path: Path, table: str, expected: str
) -> None:
    (tmp_path / "mountinfo").write_text(f"{table}\n")
    assert hierarchy(tmp_path / "mountinfo") == Path(expected)
    function = SCRIPT.read_text().partition("find_hierarchy() {")[2].partition("\n}\n")[0]
    script = f"find_hierarchy() {{{function}\n}}\nfind_hierarchy {tmp_path}/mountinfo"
    found = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True)
    assert found.stdout == f"{expected}\n"


@pytest.fixture
def groups() -> Iterator[list[Path]]:
    """Return three groups that are there."""
    top = hierarchy() if os.geteuid() == 0 else None
    if top is None or not os.access(top / "cgroup.procs", os.W_OK):
        pytest.skip("needs root and a hierarchy of control groups that counts I/O")
    if top.joinpath("cgroup.controllers").exists():
        if "io" not in (top / "cgroup.controllers").read_text().split():
            pytest.skip("needs the controller io")
        (top / "cgroup.subtree_control").write_text("+io")
    made = [top / f"tracekit-{os.getpid()}-{name}" for name in ("stays", "goes", "flash")]
    for folder in made[:2]:
        folder.mkdir()
    try:
        yield made
    finally:
        for folder in made:
            if folder.exists():
                folder.rmdir()


@pytest.mark.parametrize("source", ["tracefs-blk", "bpf"])
def test_each_request_is_of_the_group_of_who_asked(
    disk: Disk, tmp_path: Path, groups: list[Path], source: str
) -> None:
    if source == "bpf" and (why := bpf.why_not()):
        pytest.skip(f"bpf does not record block events here: {why}")
    # GIVEN a group that stays, one that is removed, and one that is there for a moment only
    part = f"{disk.device}p3"
    words = []
    for number, group in enumerate(groups, start=1):
        dd = f"exec dd if={part} of=/dev/null bs=4k count={10 * number} iflag=direct status=none"
        words.append(f"mkdir -p {group}; sh -c 'echo 0 >{group}/cgroup.procs; {dd}'")
    words.append(f"rmdir {groups[1]} {groups[2]}")
    # WHEN each reads in a capture
    script = ("sh", "-c", "; ".join(words))
    disk.capture(tmp_path / "trace", "--source", source, command=script)
    # THEN the requests are of these; the last has no path that anybody has seen
    folder, _ = parse([tmp_path / "trace"], tmp_path / "parsed")
    rows = [row for row in traces.requests(folder).to_pylist() if row["process"] == "dd"]
    found = Counter(row["cgroup"] for row in rows)
    (unknown,) = (name for name in found if str(name).startswith("#"))
    assert found == {f"/{groups[0].name}": 10, f"/{groups[1].name}": 20, unknown: 30}
    # AND the layout has the paths of these and of no others
    paths = set(machine.read_layout(tmp_path / "trace")["cgroups"].values())
    assert (
        {f"/{one.name}" for one in groups[:2]}
        <= paths
        <= {
            "/",
            *(f"/{one.name}" for one in groups),
        }
    )
