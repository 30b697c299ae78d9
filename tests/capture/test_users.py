"""The command of a capture has the rights of who asked for it, and root's files are closed."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.capture import machine
from tests.capture.file_captures import NEEDS_STRACE
from tests.capture.machine import CAPTURE, Disk
from tests.privileges.others import (
    NOBODY,
    OTHER,
    all_of,
    looking,
    mode,
    owners,
    rights_of,
    seen,
)
from tracekit.capture.programs import Program
from tracekit.capture.session import NAMES

pytestmark = pytest.mark.root


def sudo(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setenv("SUDO_UID", str(uid))
    monkeypatch.setenv("SUDO_GID", str(uid))


@pytest.mark.parametrize("source", NAMES)
def test_the_command_has_the_rights_of_who_used_sudo(
    disk: Disk,
    theirs: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
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
    disk: Disk,
    theirs: Path,
    monkeypatch: pytest.MonkeyPatch,
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
            *(disk.device, "--source", source, "-o", tmp_path / "trace"),
            *("--", *disk.writer(300)),
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
    theirs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
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
