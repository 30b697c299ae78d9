"""What would stop a script on its way stops it before anything is changed, and says why."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.recipes.three_roles import run
from tests.recommend.carried import Host
from tests.recommend.test_carry_out import (
    NAME,
    features,
    fresh,
    journal_script,
    move_script,
    needs_root,
    region,
    run_kind,
    script_of,
    volume_script,
)
from tests.simulate.placement_models import Request
from tests.traces import written

NOBODY = 65534


def both_script(folder: Path, disk: str, point: Path) -> Path:
    """Return a script that moves the journal and a directory, each to a device of its own."""
    name = Path(disk).name
    table = written(
        folder / "files.csv",
        f'path,device,first_sector,sectors\n"{point / NAME}",{name},800,8192\n',
    )
    layout = [
        region(name, "fs", range(98304), mount=str(point)),
        region(f"{name} journal", "journal", range(32768, 32768 + 8192)),
    ]
    requests = [Request("journal", 32768 + 16 * n, device=name) for n in range(512)]
    requests += [Request("fs", 800 + 16 * n, device=name) for n in range(512)]
    words = ("--unit", "file", "--files", table, "--capacity", "1GiB")
    return script_of(folder, requests, *words, layout=layout)


def is_as_before(machine: Host, point: Path, files: dict[str, str]) -> bool:
    """Say whether the file system is mounted with its files, own journal and table."""
    where = machine.must("findmnt", "-n", "-o", "SOURCE", "-M", str(point)).strip()
    kept = machine.files(point) == files and "Journal inode:" in features(machine)
    return kept and where == machine.disk and machine.fstab.read_text() == "# of the test\n"


@needs_root
def test_devices_are_checked_before_the_first_part_is_carried_out(
    machine: Host, point: Path, tmp_path: Path
) -> None:
    # GIVEN a script of two parts and the device of one of them, or one device for both
    file = both_script(tmp_path, machine.disk, point)
    files = fresh(machine, point)
    for journal, move, why in (
        (machine.nvm, "", "NVM_MOVE= is not a block device"),
        (machine.nvm, machine.nvm, "is given for something else, too"),
        (machine.disk, machine.nvm, f"{machine.disk} is "),
    ):
        done = machine.script(file, NVM_JOURNAL=journal, NVM_MOVE=move)
        assert (done.returncode, done.stdout) == (1, "")
        assert why in done.stderr
        # THEN nothing is changed, and neither by its undo
        machine.script(file, "undo", NVM_JOURNAL=journal, NVM_MOVE=move)
        assert is_as_before(machine, point, files)
    assert run_kind(machine.nvm) == ""


@needs_root
def test_without_blkid_no_device_looks_empty(machine: Host, point: Path, tmp_path: Path) -> None:
    # GIVEN a device with somebody's files, on a machine without the program that would find them
    file = move_script(tmp_path, machine.disk, point / NAME)
    files = fresh(machine, point)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-L", "mine", machine.nvm)
    blkid = shutil.which("blkid", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert blkid is not None
    machine.must("mount", "--bind", "/dev/null", blkid)
    # THEN the script does not begin
    done = machine.script(file)
    machine.must("umount", blkid)
    assert done.returncode == 1
    assert "missing programs, install them first: blkid" in done.stderr
    assert is_as_before(machine, point, files)
    assert run_kind(machine.nvm) == "ext4"


@needs_root
def test_a_user_can_read_what_would_be_done(machine: Host, point: Path, tmp_path: Path) -> None:
    # GIVEN devices that the user cannot read
    fresh(machine, point)
    file = journal_script(tmp_path, machine.disk, point)
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


@needs_root
def test_a_file_system_that_cannot_be_unmounted_stays_mounted(
    machine: Host, point: Path, tmp_path: Path
) -> None:
    # GIVEN a file system that is mounted twice, elsewhere, or used by a process
    file = journal_script(tmp_path, machine.disk, point)
    files = fresh(machine, point)
    second = tmp_path / "second"
    second.mkdir()
    machine.must("mount", machine.disk, str(second))
    done = machine.script(file)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{machine.disk} is mounted 2 times" in done.stderr
    machine.must("umount", str(second))
    assert is_as_before(machine, point, files)
    for other in ("", str(second)):
        assert "or not at " in machine.script(file, POINT=other or " ").stderr
        assert is_as_before(machine, point, files)
    command = ["nsenter", f"--mount=/proc/{machine.holder}/ns/mnt", "sh", "-c"]
    held = subprocess.Popen([*command, 'exec 3<"$1" && echo && exec sleep 60', "-",
                             str(point / NAME / "x")], stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert held.stdout is not None
        held.stdout.readline()
        done = machine.script(file)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"is in use by process {held.pid}" in done.stderr
    finally:
        held.kill()
        held.wait()
    assert is_as_before(machine, point, files)
    # AND a device that cannot be written is found while the journal is still there
    run("blockdev", "--setro", machine.nvm)
    done = machine.script(file)
    run("blockdev", "--setrw", machine.nvm)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is read-only" in done.stderr
    assert is_as_before(machine, point, files)
    assert machine.script(file).returncode == 0


@needs_root
def test_a_path_that_cannot_be_moved_is_left_alone(
    machine: Host, point: Path, tmp_path: Path
) -> None:
    # GIVEN a directory on which something is mounted, that became a link, or that has grown
    moved = point / NAME
    file = move_script(tmp_path, machine.disk, moved)
    files = fresh(machine, point)
    machine.must("mount", "-t", "tmpfs", "none", str(moved))
    done = machine.script(file)
    machine.must("umount", str(moved))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{moved} is a mount point" in done.stderr
    machine.must("mv", str(moved), f"{moved}.real")
    machine.must("ln", "-s", f"{moved}.real", str(moved))
    done = machine.script(file)
    machine.must("rm", str(moved))
    machine.must("mv", f"{moved}.real", str(moved))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{moved} is a link to {moved}.real" in done.stderr
    machine.must("dd", "if=/dev/zero", f"of={moved}/more", "bs=1M", "count=20")
    done = machine.script(file)
    machine.must("rm", f"{moved}/more")
    assert (done.returncode, done.stdout) == (1, "")
    assert " KiB for files" in done.stderr
    # THEN nothing was made of the NVM, and all is as before
    assert run_kind(machine.nvm) == ""
    assert is_as_before(machine, point, files)


@needs_root
def test_the_kernel_has_nothing_left_to_write_to_the_nvm(
    machine: Host, point: Path, tmp_path: Path
) -> None:
    fresh(machine, point)
    done = machine.script(move_script(tmp_path, machine.disk, point / NAME))
    assert done.returncode == 0, done.stdout + done.stderr
    # THEN all tables of inodes are written: the kernel would do so among other requests
    text = run("dumpe2fs", machine.nvm)
    assert text.count("ITABLE_ZEROED") == text.count("Inode table at") >= 1


@needs_root
def test_names_with_ends_of_lines_are_moved_and_come_back(
    machine: Host, point: Path, tmp_path: Path
) -> None:
    # GIVEN a directory with a name of two lines, and a table whose last line has no end
    fresh(machine, point)
    moved = point / "two\nlines \\ \ttab"
    machine.must("mkdir", str(moved))
    machine.must("sh", "-c", 'seq 9 >"$1/x"', "-", str(moved))
    files = machine.files(point)
    file = move_script(tmp_path, machine.disk, moved)
    last = "LABEL=other /other ext4 nofail 0 2"
    machine.fstab.write_text(last)
    # WHEN it is carried out, THEN the table has a line of its own for each, which mount reads
    done = machine.script(file)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = machine.fstab.read_text().splitlines()
    assert lines[0] == last
    assert [len(line.split()) for line in lines] == [6, 6, 6]
    machine.must("umount", str(moved))
    machine.must("mount", "--fstab", str(machine.fstab), str(moved))
    assert machine.must("cat", str(moved / "x")) == "".join(f"{n}\n" for n in range(1, 10))
    # AND undo leaves nothing of it behind, mounted or in the table
    for _ in range(2):
        done = machine.script(file, "undo")
        assert done.returncode == 0, done.stdout + done.stderr
        assert machine.files(point) == files
        assert machine.fstab.read_text() == f"{last}\n"
        assert machine.inside("findmnt", "-S", machine.nvm).returncode == 1
    # AND it can be carried out again
    assert machine.script(file).returncode == 0
    assert machine.script(file).returncode == 0
    assert machine.inside("mountpoint", "-q", str(moved)).returncode == 0


def test_a_cache_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    file = volume_script(tmp_path, "--capacity", "64KiB")
    given = {**os.environ, "CACHE": "write-back"}
    done = subprocess.run(["sh", str(file)], capture_output=True, text=True, check=False, env=given)
    assert done.returncode == 1
    assert "+ " not in done.stdout
    assert "CACHE=write-back: choose writethrough, writeback or writecache" in done.stderr
