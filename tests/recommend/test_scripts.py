"""Scripts that stop before anything is changed; those that are killed, or undone without an NVM."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.recipes.three_roles import loop_disk, run
from tests.recommend.carried import (
    MEMORY,
    NAME,
    Host,
    of_path,
    run_kind,
    script_of,
    with_journal,
)

pytestmark = pytest.mark.root
NOBODY = 65534


def both_script(machine: Host) -> Path:
    """Return a script that moves the journal and a directory, each to a device of its own."""
    layout, commits = with_journal(machine.disk, machine.point)
    words, writes = of_path(machine.place, machine.disk, machine.point / NAME)
    return script_of(machine.place, commits + writes, *words, "--capacity", "1GiB", layout=layout)


def is_as_before(machine: Host, files: dict[str, str]) -> bool:
    """Say whether the file system is mounted with its files, own journal and table."""
    where = machine.must("findmnt", "-n", "-o", "SOURCE", "-M", machine.point).strip()
    kept = machine.files() == files and "Journal inode:" in machine.features()
    return kept and where == machine.disk and machine.fstab.read_text() == "# of the test\n"


def test_devices_are_checked_before_the_first_part_is_carried_out(machine: Host) -> None:
    # GIVEN a script of two parts and the device of one of them, or one device for both
    file = both_script(machine)
    files = machine.fresh()
    for journal, move, why in (
        (machine.nvm, "", "NVM_MOVE= is not a block device"),
        (machine.nvm, machine.nvm, "is given for something else, too"),
        (machine.disk, machine.nvm, f"{machine.disk} is "),
    ):
        machine.refused(file, NVM_JOURNAL=journal, NVM_MOVE=move, why=why)
        # THEN nothing is changed, and neither by its undo
        machine.script(file, "undo", NVM_JOURNAL=journal, NVM_MOVE=move)
        assert is_as_before(machine, files)
    assert run_kind(machine.nvm) == ""


def test_without_blkid_no_device_looks_empty(machine: Host) -> None:
    # GIVEN a device with somebody's files, on a machine without the program that would find them
    file = machine.move_script()
    files = machine.fresh()
    run("mke2fs", "-q", "-F", "-t", "ext4", "-L", "mine", machine.nvm)
    blkid = shutil.which("blkid", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert blkid is not None
    machine.must("mount", "--bind", "/dev/null", blkid)
    # THEN the script does not begin
    machine.refused(file, why="missing programs, install them first: blkid")
    machine.must("umount", blkid)
    assert is_as_before(machine, files)
    assert run_kind(machine.nvm) == "ext4"


def test_a_user_can_read_what_would_be_done(machine: Host) -> None:
    # GIVEN devices that the user cannot read
    machine.fresh()
    file = machine.journal_script()
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "sh", "-s"]
    given = {**os.environ, "NVM": machine.nvm, "FSTAB": "/dev/null"}

    def ran(**more: str) -> subprocess.CompletedProcess[str]:
        text = file.read_text()
        return subprocess.run(
            user, input=text, capture_output=True, text=True, check=False, env=given | more
        )

    # THEN the commands are printed, with what was not checked
    done = ran()
    assert (done.returncode, done.stderr) == (0, "")
    assert f"# {machine.disk} cannot be read by this user" in done.stdout
    assert f"+ tune2fs -J device={machine.nvm} {machine.disk}\n" in done.stdout
    # AND they are not run
    done = ran(TRACEKIT_APPLY="yes")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not a block device" in done.stderr or "root's rights" in done.stderr


@pytest.mark.usefixtures("own_root")
def test_a_file_system_that_cannot_be_unmounted_stays_mounted(machine: Host) -> None:
    # GIVEN a file system that is mounted twice, elsewhere, or used by a process
    file = machine.journal_script()
    files = machine.fresh()
    second = machine.place / "second"
    second.mkdir()
    machine.must("mount", machine.disk, second)
    machine.refused(file, why=f"{machine.disk} is mounted 2 times")
    machine.must("umount", second)
    assert is_as_before(machine, files)
    for other in ("", str(second)):
        machine.refused(file, POINT=other or " ", why="or not at ")
        assert is_as_before(machine, files)
    command = ["nsenter", f"--mount=/proc/{machine.holder}/ns/mnt", "sh", "-c"]
    held = subprocess.Popen([*command, 'exec 3<"$1" && echo && exec sleep 60', "-",
                             str(machine.point / NAME / "x")], stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert held.stdout is not None
        held.stdout.readline()
        machine.refused(file, why=f"is in use by process {held.pid}")
    finally:
        held.kill()
        held.wait()
    assert is_as_before(machine, files)
    # AND a device that cannot be written is found while the journal is still there
    run("blockdev", "--setro", machine.nvm)
    machine.refused(file, why="is read-only")
    run("blockdev", "--setrw", machine.nvm)
    assert is_as_before(machine, files)
    machine.carried_out(file)


def test_a_path_that_cannot_be_moved_is_left_alone(machine: Host) -> None:
    # GIVEN a directory on which something is mounted, that became a link, or that has grown
    moved = machine.point / NAME
    file = machine.move_script(moved)
    files = machine.fresh()
    machine.must("mount", "-t", "tmpfs", "none", moved)
    machine.refused(file, why=f"{moved} is a mount point")
    machine.must("umount", moved)
    machine.must("mv", moved, f"{moved}.real")
    machine.must("ln", "-s", f"{moved}.real", moved)
    machine.refused(file, why=f"{moved} is a link to {moved}.real")
    machine.must("rm", moved)
    machine.must("mv", f"{moved}.real", moved)
    machine.must("dd", "if=/dev/zero", f"of={moved}/more", "bs=1M", "count=20")
    machine.refused(file, why=" KiB for files")
    machine.must("rm", f"{moved}/more")
    # THEN nothing was made of the NVM, and all is as before
    assert run_kind(machine.nvm) == ""
    assert is_as_before(machine, files)


def test_the_kernel_has_nothing_left_to_write_to_the_nvm(machine: Host) -> None:
    machine.fresh()
    machine.carried_out(machine.move_script())
    # THEN all tables of inodes are written: the kernel would do so among other requests
    text = run("dumpe2fs", machine.nvm)
    assert text.count("ITABLE_ZEROED") == text.count("Inode table at") >= 1


def test_names_with_ends_of_lines_are_moved_and_come_back(machine: Host) -> None:
    # GIVEN a directory with a name of two lines, and a table whose last line has no end
    machine.fresh()
    moved = machine.point / "two\nlines \\ \ttab"
    machine.must("mkdir", moved)
    machine.must("sh", "-c", 'seq 9 >"$1/x"', "-", moved)
    files = machine.files()
    file = machine.move_script(moved)
    last = "LABEL=other /other ext4 nofail 0 2"
    machine.fstab.write_text(last)
    # WHEN it is carried out, THEN the table has a line of its own for each, which mount reads
    machine.carried_out(file)
    lines = machine.fstab.read_text().splitlines()
    assert lines[0] == last
    assert [len(line.split()) for line in lines] == [6, 6, 6]
    machine.must("umount", moved)
    machine.must("mount", "--fstab", machine.fstab, moved)
    assert machine.must("cat", moved / "x") == "".join(f"{n}\n" for n in range(1, 10))
    # AND undo leaves nothing of it behind, mounted or in the table
    for _ in range(2):
        machine.carried_out(file, "undo")
        assert machine.files() == files
        assert machine.fstab.read_text() == f"{last}\n"
        assert machine.inside("findmnt", "-S", machine.nvm).returncode == 1
    # AND it can be carried out again
    machine.carried_out(file)
    machine.carried_out(file)
    assert machine.inside("mountpoint", "-q", moved).returncode == 0


@contextmanager
def second(tmp_path: Path, size_bytes: int = 8 << 20) -> Iterator[str]:
    """Yield one more device."""
    image = Path(MEMORY or tmp_path) / f"{tmp_path.name}.img"
    with loop_disk(image, size_bytes) as device:
        yield device


def test_a_dead_nvm_of_journal_and_directory_is_undone_in_one_run(machine: Host) -> None:
    # GIVEN a journal and a directory on NVM that dies, so that the file system cannot be mounted
    file = both_script(machine)
    files = machine.fresh()
    with second(machine.place) as journal:
        machine.carried_out(file, NVM_JOURNAL=journal, NVM_MOVE=machine.nvm)
        assert machine.own_files() == files
        machine.unmount_all()
        run("debugfs", "-w", "-R", "feature needs_recovery", machine.disk)
        for device, mib in ((journal, 8), (machine.nvm, 24)):
            run("dd", "if=/dev/zero", f"of={device}", "bs=1M", f"count={mib}", "conv=fsync")
        assert machine.inside("mount", machine.disk, machine.point).returncode != 0
        # WHEN it is undone, THEN all files are where they were, and nothing else is left
        machine.carried_out(file, "undo", NVM_LOST="yes", NVM_JOURNAL="", NVM_MOVE="")
        assert is_as_before(machine, files)


def test_a_directory_cannot_be_undone_before_its_file_system_is_mounted(machine: Host) -> None:
    file = machine.move_script()
    files = machine.fresh()
    machine.carried_out(file)
    machine.unmount_all()
    why = f"but {machine.fstab} has {machine.point / NAME}: mount its file system first"
    machine.refused(file, "undo", why=why)
    machine.must("mount", machine.disk, machine.point)
    machine.carried_out(file, "undo")
    assert is_as_before(machine, files)


def test_journal_and_directory_may_be_cut_anywhere(machine: Host) -> None:
    # GIVEN a script of two parts, of which the first unmounts what the second is for
    file = both_script(machine)
    with second(machine.place) as journal:
        devices = {"NVM_JOURNAL": journal, "NVM_MOVE": machine.nvm}
        for cut in range(40):
            files = machine.fresh()
            run("wipefs", "--quiet", "--all", journal)
            machine.fstab.write_text("# of the test\n")
            cut_off = machine.script(file, cut=cut, **devices)
            # THEN the next run goes on from there
            machine.carried_out(
                file, NVM_JOURNAL=journal, NVM_MOVE=machine.nvm, hint=f"cut before {cut}: "
            )
            assert machine.own_files() == files
            assert "Journal device:" in machine.features()
            # AND all of it can be taken back
            machine.carried_out(
                file, "undo", NVM_JOURNAL=journal, NVM_MOVE=machine.nvm, hint=f"cut before {cut}: "
            )
            assert is_as_before(machine, files)
            if cut_off.returncode == 0:
                break
        assert cut >= 12


def test_there_need_be_no_room_for_two_copies(machine: Host) -> None:
    # GIVEN a directory of which two copies do not fit on the NVM
    moved = machine.point / NAME
    file = machine.move_script(moved)
    machine.fresh()
    machine.must("dd", "if=/dev/urandom", f"of={moved}/more", "bs=1M", "count=12")
    files = machine.files()
    # WHEN the script is killed with one copy there, THEN the next run goes on
    assert machine.script(file, cut=8).returncode != 0
    copy = machine.place / "nvm" / NAME / "more"
    assert machine.inside("test", "-s", copy).returncode == 0
    machine.carried_out(file)
    # AND what was taken back can be moved again
    files = machine.written_when_moved(moved)
    for way in ("undo", "apply", "undo"):
        machine.carried_out(file, way)
        assert machine.own_files() == files


def test_what_fits_the_size_that_is_asked_for_is_moved(machine: Host) -> None:
    # GIVEN 4 MiB in a directory, and a device as small as the script asks for
    file = machine.move_script()
    asked = int(re.findall(r'apply_move .*"\$NVM" (\d+)', file.read_text())[0])
    assert 12 << 20 < asked < 13 << 20
    machine.fresh()
    more = str(machine.point / NAME / "more")
    machine.must("dd", "if=/dev/urandom", f"of={more}", "bs=1M", "count=4")
    files = machine.files()
    with second(machine.place, 13 << 20) as small:
        machine.carried_out(file, NVM=small)
        assert machine.own_files() == files
        assert "Block size:               4096" in run("dumpe2fs", "-h", small)
        machine.carried_out(file, "undo", NVM=small)


def test_a_file_with_a_second_name_outside_is_left_alone(machine: Host) -> None:
    moved = machine.point / NAME
    file = machine.move_script(moved)
    machine.fresh()
    # GIVEN two names of a file in the directory, which move together
    machine.must("ln", moved / "x", moved / "sub" / "y")
    machine.carried_out(file)
    machine.carried_out(file, "undo")
    # AND one outside, which would stay with the old content
    machine.must("ln", moved / "x", machine.point / "z")
    files = machine.files()
    machine.refused(file, why=f"has another name outside of {moved} (a hard link)")
    assert is_as_before(machine, files)


def test_the_journal_of_another_file_system_is_left_alone(machine: Host) -> None:
    # GIVEN a script for a file system, and another one by its name
    files = machine.fresh()
    uuid = run("blkid", "-p", "-o", "value", "-s", "UUID", machine.disk).strip()
    traced = "11111111-2222-3333-4444-555555555555"
    file = machine.journal_script(uuid=traced)
    for way in ("apply", "undo"):
        machine.refused(file, way, why=f"its UUID is {uuid}, that one's {traced}")
        assert is_as_before(machine, files)
    # THEN only who says so has it moved
    for given in (uuid, "any"):
        machine.carried_out(file, FS_UUID=given)
        machine.carried_out(file, "undo", FS_UUID=given)
        assert is_as_before(machine, files)


def test_a_file_system_is_mounted_as_it_was(machine: Host) -> None:
    # GIVEN one that the table of file systems does not have
    file = both_script(machine)
    machine.fresh()
    machine.must("mount", "-o", "remount,noatime,nosuid", machine.point)
    with second(machine.place) as journal:
        for way in ("apply", "undo"):
            machine.carried_out(file, way, NVM_JOURNAL=journal, NVM_MOVE=machine.nvm)
            options = machine.must("findmnt", "-n", "-o", "VFS-OPTIONS", "-M", machine.point)
            assert {"noatime", "nosuid"} <= {*options.strip().split(",")}
