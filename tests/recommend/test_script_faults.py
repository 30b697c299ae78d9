"""A script of two parts is killed, undone without its NVM, or meets what it was not made for."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.recipes.three_roles import loop_disk, run
from tests.recommend.carried import MEMORY, Host
from tests.recommend.test_carry_out import (
    NAME,
    features,
    files_of,
    fresh,
    move_script,
    needs_root,
    region,
    script_of,
    written_when_moved,
)
from tests.recommend.test_script_checks import both_script, is_as_before
from tests.simulate.placement_models import Request

pytestmark = needs_root


@contextmanager
def second(tmp_path: Path, size_bytes: int = 8 << 20) -> Iterator[str]:
    """Yield one more device."""
    image = Path(MEMORY or tmp_path) / f"{tmp_path.name}.img"
    with loop_disk(image, size_bytes) as device:
        yield device


def test_a_dead_nvm_of_journal_and_directory_is_undone_in_one_run(
    machine: Host, point: Path, tmp_path: Path
) -> None:
    # GIVEN a journal and a directory on NVM that dies, so that the file system cannot be mounted
    file = both_script(tmp_path, machine.disk, point)
    files = fresh(machine, point)
    with second(tmp_path) as journal:
        done = machine.script(file, NVM_JOURNAL=journal, NVM_MOVE=machine.nvm)
        assert done.returncode == 0, done.stdout + done.stderr
        assert files_of(machine, point) == files
        machine.unmount_all()
        run("debugfs", "-w", "-R", "feature needs_recovery", machine.disk)
        for device, mib in ((journal, 8), (machine.nvm, 24)):
            run("dd", "if=/dev/zero", f"of={device}", "bs=1M", f"count={mib}", "conv=fsync")
        assert machine.inside("mount", machine.disk, str(point)).returncode != 0
        # WHEN it is undone, THEN all files are where they were, and nothing else is left
        done = machine.script(file, "undo", NVM_LOST="yes", NVM_JOURNAL="", NVM_MOVE="")
        assert done.returncode == 0, done.stdout + done.stderr
        assert is_as_before(machine, point, files)


def test_a_directory_cannot_be_undone_before_its_file_system_is_mounted(
    machine: Host, point: Path, tmp_path: Path
) -> None:
    file = move_script(tmp_path, machine.disk, point / NAME)
    files = fresh(machine, point)
    assert machine.script(file).returncode == 0
    machine.unmount_all()
    done = machine.script(file, "undo")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"but {machine.fstab} has {point / NAME}: mount its file system first" in done.stderr
    machine.must("mount", machine.disk, str(point))
    assert machine.script(file, "undo").returncode == 0
    assert is_as_before(machine, point, files)


def test_journal_and_directory_may_be_cut_anywhere(
    machine: Host, point: Path, tmp_path: Path
) -> None:
    # GIVEN a script of two parts, of which the first unmounts what the second is for
    file = both_script(tmp_path, machine.disk, point)
    with second(tmp_path) as journal:
        for cut in range(40):
            files = fresh(machine, point)
            run("wipefs", "--quiet", "--all", journal)
            machine.fstab.write_text("# of the test\n")
            cut_off = machine.script(file, cut=cut, NVM_JOURNAL=journal, NVM_MOVE=machine.nvm)
            # THEN the next run goes on from there
            done = machine.script(file, NVM_JOURNAL=journal, NVM_MOVE=machine.nvm)
            assert done.returncode == 0, f"cut before {cut}: {done.stdout}{done.stderr}"
            assert files_of(machine, point) == files
            assert "Journal device:" in features(machine)
            # AND all of it can be taken back
            done = machine.script(file, "undo", NVM_JOURNAL=journal, NVM_MOVE=machine.nvm)
            assert done.returncode == 0, f"cut before {cut}: {done.stdout}{done.stderr}"
            assert is_as_before(machine, point, files)
            if cut_off.returncode == 0:
                break
        assert cut >= 12


def test_there_need_be_no_room_for_two_copies(machine: Host, point: Path, tmp_path: Path) -> None:
    # GIVEN a directory of which two copies do not fit on the NVM
    moved = point / NAME
    file = move_script(tmp_path, machine.disk, moved)
    fresh(machine, point)
    machine.must("dd", "if=/dev/urandom", f"of={moved}/more", "bs=1M", "count=12")
    files = machine.files(point)
    # WHEN the script is killed with one copy there, THEN the next run goes on
    assert machine.script(file, cut=8).returncode != 0
    copy = machine.place / "nvm" / NAME / "more"
    assert machine.inside("test", "-s", str(copy)).returncode == 0
    done = machine.script(file)
    assert done.returncode == 0, done.stdout + done.stderr
    # AND what was taken back can be moved again
    files = written_when_moved(machine, point, moved)
    for way in ("undo", "apply", "undo"):
        done = machine.script(file, way)
        assert done.returncode == 0, done.stdout + done.stderr
        assert files_of(machine, point) == files


def test_what_fits_the_size_that_is_asked_for_is_moved(
    machine: Host, point: Path, tmp_path: Path
) -> None:
    # GIVEN 4 MiB in a directory, and a device as small as the script asks for
    file = move_script(tmp_path, machine.disk, point / NAME)
    asked = int(re.findall(r'apply_move .*"\$NVM" (\d+)', file.read_text())[0])
    assert 12 << 20 < asked < 13 << 20
    fresh(machine, point)
    more = str(point / NAME / "more")
    machine.must("dd", "if=/dev/urandom", f"of={more}", "bs=1M", "count=4")
    files = machine.files(point)
    with second(tmp_path, 13 << 20) as small:
        done = machine.script(file, NVM=small)
        assert done.returncode == 0, done.stdout + done.stderr
        assert files_of(machine, point) == files
        assert "Block size:               4096" in run("dumpe2fs", "-h", small)
        assert machine.script(file, "undo", NVM=small).returncode == 0


def test_a_file_with_a_second_name_outside_is_left_alone(
    machine: Host, point: Path, tmp_path: Path
) -> None:
    moved = point / NAME
    file = move_script(tmp_path, machine.disk, moved)
    fresh(machine, point)
    # GIVEN two names of a file in the directory, which move together
    machine.must("ln", str(moved / "x"), str(moved / "sub" / "y"))
    assert machine.script(file).returncode == 0
    assert machine.script(file, "undo").returncode == 0
    # AND one outside, which would stay with the old content
    machine.must("ln", str(moved / "x"), str(point / "z"))
    files = machine.files(point)
    done = machine.script(file)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"has another name outside of {moved} (a hard link)" in done.stderr
    assert is_as_before(machine, point, files)


def test_the_journal_of_another_file_system_is_left_alone(
    machine: Host, point: Path, tmp_path: Path
) -> None:
    # GIVEN a script for a file system, and another one by its name
    files = fresh(machine, point)
    uuid = run("blkid", "-p", "-o", "value", "-s", "UUID", machine.disk).strip()
    name = Path(machine.disk).name
    traced = "11111111-2222-3333-4444-555555555555"
    layout = [
        region(name, "fs", range(98304), mount=str(point), uuid=traced),
        region(f"{name} journal", "journal", range(32768, 32768 + 8192)),
    ]
    requests = [Request("journal", 32768 + 16 * n, device=name) for n in range(512)]
    words = ("--unit", "role", "--capacity", "5MiB")
    file = script_of(tmp_path, requests, *words, layout=layout)
    for way in ("apply", "undo"):
        done = machine.script(file, way)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"its UUID is {uuid}, that one's {traced}" in done.stderr
        assert is_as_before(machine, point, files)
    # THEN only who says so has it moved
    for given in (uuid, "any"):
        assert machine.script(file, FS_UUID=given).returncode == 0
        assert machine.script(file, "undo", FS_UUID=given).returncode == 0
        assert is_as_before(machine, point, files)


def test_a_file_system_is_mounted_as_it_was(machine: Host, point: Path, tmp_path: Path) -> None:
    # GIVEN one that the table of file systems does not have
    file = both_script(tmp_path, machine.disk, point)
    fresh(machine, point)
    machine.must("mount", "-o", "remount,noatime,nosuid", str(point))
    with second(tmp_path) as journal:
        for way in ("apply", "undo"):
            done = machine.script(file, way, NVM_JOURNAL=journal, NVM_MOVE=machine.nvm)
            assert done.returncode == 0, done.stdout + done.stderr
            options = machine.must("findmnt", "-n", "-o", "VFS-OPTIONS", "-M", str(point))
            assert {"noatime", "nosuid"} <= {*options.strip().split(",")}
