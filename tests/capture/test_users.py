"""The command has its user's rights, root's files are closed, and control groups have paths."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import parsed as traces
from tests.capture import machine
from tests.capture.file_captures import NEEDS_STRACE
from tests.capture.machine import CAPTURE, Disk
from tests.privileges.others import NOBODY, OTHER, all_of, looking, mode, owners, rights_of, seen
from tracekit.capture import bpf, remote
from tracekit.capture.cgroups import hierarchy
from tracekit.capture.programs import Program
from tracekit.capture.session import NAMES
from tracekit.readers.blktrace import parse

pytestmark = pytest.mark.root


def sudo(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setenv("SUDO_UID", str(uid))
    monkeypatch.setenv("SUDO_GID", str(uid))


@pytest.mark.parametrize("source", NAMES)
def test_the_command_has_the_rights_of_who_used_sudo(
    disk: Disk, theirs: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    machine.skip_unless_it_works(source, disk)
    # GIVEN a capture by root that somebody asked for by sudo
    sudo(monkeypatch, OTHER)
    monkeypatch.setenv("PYTHONPATH", "/nothing")
    file, trace = theirs / "seen", theirs / "trace"
    disk.capture(trace, "--source", source, "--untraced", command=looking(file))
    # THEN the command had their rights, no other, and all variables
    rights, variables = seen(file)
    assert rights == rights_of(OTHER, OTHER)
    assert [variables[name] for name in ("HOME", "USER", "LOGNAME")] == ["/", "12345", "12345"]
    assert variables["PYTHONPATH"] == "/nothing"
    # AND the capture is theirs
    assert owners(theirs) == {(OTHER, OTHER)}
    assert {mode(one) for one in all_of(trace)} == {0o755, 0o644}


def test_another_user_and_root_can_be_chosen(
    disk: Disk, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sudo(monkeypatch, OTHER)
    theirs.chmod(0o777)
    disk.capture(theirs / "a", "--user", "nobody", command=looking(theirs / "nobody"))
    rights, variables = seen(theirs / "nobody")
    assert rights == rights_of(NOBODY, NOBODY)
    assert variables["USER"] == "nobody"
    # What comes of it is theirs who asked for it.
    assert owners(theirs / "a") == {(OTHER, OTHER)}
    disk.capture(theirs / "b", "--user", "root", command=looking(theirs / "root"))
    rights, variables = seen(theirs / "root")
    assert rights["Uid"] == {"0"}
    assert rights["CapEff"] != {"0" * 16}


@pytest.mark.parametrize("source", NAMES)
def test_what_is_being_recorded_is_closed_to_others(
    disk: Disk, tmp_path: Path, source: str
) -> None:
    machine.skip_unless_it_works(source, disk)
    # GIVEN a user whose new files are open to everybody
    before = os.umask(0)
    try:
        running = machine.start_capture(
            *(disk.device, "--source", source, "-o", tmp_path / "trace"), *("--", *disk.writer(300))
        )
    finally:
        os.umask(before)
    # WHEN the capture's files are looked at until it ends
    folders: set[int] = set()
    files: dict[str, int] = {}
    while running.poll() is None:
        for part in (tmp_path / "trace.unfinished", *tmp_path.glob(".trace.tracekit-*")):
            try:
                folders.add(mode(part))
                others = (".log", ".bt", ".json")
                records = [one for one in all_of(part) if one.suffix not in others]
                files |= {one.name: mode(one) for one in records if one.is_file()}
            except FileNotFoundError:
                continue
    said, talk = running.communicate()
    assert (said, talk.count("\n")) == ("", 1)
    assert talk.startswith(f"{tmp_path / 'trace'}: ")
    # THEN nobody else could enter their folder, nor read what a source had written
    assert 0o700 in folders
    raw = {"perf": ["perf.data"], "bpf": ["bpf.records"], "tracefs-blk": ["cpu0.000001"]}
    for name in raw.get(source, [name for name in files if ".blktrace." in name][:1]):
        assert files[name] == 0o600


def test_files_of_a_program_that_records_are_closed(tmp_path: Path) -> None:
    # GIVEN a program that leaves the mode of its files to the umask, which closes nothing
    program = Program("sh", tmp_path / "log", remedy="")
    before = os.umask(0)
    try:
        program.launch(["sh", "-c", f"echo >{tmp_path}/records"]).wait()
    finally:
        os.umask(before)
    assert mode(tmp_path / "records") == 0o600


@NEEDS_STRACE
def test_a_command_under_strace(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a strace that shows its own variables, and some that steer programs
    tool = tmp_path / "bin/strace"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nenv >{tmp_path}/own; exec /usr/bin/strace "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}:{theirs}")
    monkeypatch.setenv("LD_BIND_NOW", "1")
    # WHEN nobody, by sudo, captures the files of a command
    sudo(monkeypatch, NOBODY)
    theirs.chmod(0o777)
    words = [*CAPTURE, "--files", "-o", str(theirs / "trace"), "--untraced", "--"]
    ran = subprocess.run(
        [*words, *looking(theirs / "seen")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    # THEN the command has their rights and all variables, and strace those that do not steer it
    rights, variables = seen(theirs / "seen")
    assert rights == rights_of(NOBODY, NOBODY)
    assert (variables["LD_BIND_NOW"], variables["USER"]) == ("1", "nobody")
    assert variables["PATH"] == os.environ["PATH"]
    own = (tmp_path / "own").read_text()
    assert "LD_BIND_NOW" not in own
    assert str(theirs) not in own
    assert owners(theirs / "trace") == {(NOBODY, NOBODY)}


@NEEDS_STRACE
def test_strace_knows_users_by_name(theirs: Path, tmp_path: Path) -> None:
    words = ("--files", "--user", str(OTHER), "-o", tmp_path / "trace", "--", "true")
    code, message = machine.rejection(*words)
    assert code == 2
    assert message.startswith(f"--files as user {OTHER}: strace knows users by name")
    assert owners(theirs) == {(OTHER, OTHER)}


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
        <= {"/", *(f"/{one.name}" for one in groups)}
    )
