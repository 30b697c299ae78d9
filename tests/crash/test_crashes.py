"""A killed command, a power cut and commands at once leave the old or the new."""

from pathlib import Path

import pytest

from tests.crash.cases import CASES, Bases, Case
from tests.crash.crashing import Crashes, part
from tests.crash.ext4 import LOG_ONLY, NOTHING, file_system
from tests.crash.power_cut import Disk
from tests.crash.together import SCENES, Together, rounds
from tests.crash.watched import Call, Commands
from tracekit.capture import strace

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("crash")]
KILLS = 1
SHOWN = 5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_crash_leaves_is_old_or_new(commands: Commands, bases: Bases, case: Case) -> None:
    if case.words[0] == "capture" and strace.probe() is not None:
        pytest.skip(f"file operations cannot be captured: {strace.probe()}")
    # GIVEN a command in a folder with other files of the user's
    crashes = Crashes(commands, bases, case)
    # WHEN the power is cut behind each of its calls, THEN the disk has the old or the new
    cut = crashes.cut_power()
    assert cut.wrong[:SHOWN] == []
    assert cut.count > len([call for call in crashes.calls if "rename" in call.name])
    # AND one that replaces something leaves it when it is killed, and the next run ends well
    if part(crashes.before, case.output):
        for number in crashes.points(KILLS):
            assert crashes.kill(number) == []


@pytest.mark.root
def test_a_real_file_system_has_old_or_new(
    commands: Commands, bases: Bases, tmp_path: Path
) -> None:
    case = next(case for case in CASES if case.name == "parse --force")
    with file_system(tmp_path) as disk:
        # GIVEN a command that replaces a folder on an ext4
        crashes = Crashes(commands, bases, case, disk)
        (exchange,) = (n for n, call in enumerate(crashes.calls, 1) if call.name == "renameat2")
        # WHEN the power is cut behind the exchange, or at the end of the command
        # THEN the disk has the old or the new folder, at the end the new one
        assert crashes.lose_power(exchange + 1, LOG_ONLY) == []
        assert crashes.lose_power(len(crashes.calls) + 1, NOTHING) == []


def disk_after(place: Path, *calls: Call) -> Disk:
    disk = Disk(place)
    for call in calls:
        disk.apply(call)
    return disk


def test_the_model_loses_what_is_not_synced(tmp_path: Path) -> None:
    # GIVEN a new file that gets the name of an old one without a sync
    (tmp_path / "old").write_text("old")
    new, old = tmp_path / "new", tmp_path / "old"
    calls = [Call("openat", new, flags=0o100), Call("write", new), Call("rename", new, old)]
    disk = disk_after(tmp_path, *calls)
    # WHEN the power is cut, THEN the disk has the old file, or the new name with nothing in it
    assert disk.cut([]) == {".": "folder", "old": "0:0"}
    assert disk.cut(disk.changes) == {".": "folder", "old": "torn"}
    # WHEN the file was synced before, THEN the new name is as good as the old one
    disk = disk_after(tmp_path, *calls[:2], Call("fsync", new), calls[2])
    assert disk.cut(disk.changes) == {".": "folder", "old": "2:1"}
    assert disk.cut([]) == {".": "folder", "old": "0:0"}
    # WHEN the folder was synced behind it, THEN only the new file is there
    disk.apply(Call("fsync", tmp_path))
    assert disk.cut([]) == {".": "folder", "old": "2:1"}


def test_the_model_knows_what_the_kernel_refuses(tmp_path: Path) -> None:
    # GIVEN two folders, one of which has a file
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "b/file").touch()
    a, b = tmp_path / "a", tmp_path / "b"
    before = Disk(tmp_path).now()
    # WHEN a call fails, THEN nothing changes
    for call in (
        Call("rename", a, b),
        Call("renameat2", a, b, flags=1),
        Call("rmdir", b),
        Call("unlink", a),
        Call("mkdir", b),
        Call("openat", b / "file", flags=0o300),
    ):
        assert disk_after(tmp_path, call).now() == before
    # AND an exchange is one change
    disk = disk_after(tmp_path, Call("renameat2", a, b, flags=2))
    assert sorted(disk.cut(disk.changes)) == [".", "a", "a/file", "b"]
    assert len(disk.changes) == 1


@pytest.mark.parametrize("scene", SCENES)
def test_commands_at_once(commands: Commands, bases: Bases, scene: str) -> None:
    assert rounds(Together(commands, bases), scene, [4]).wrong == []
