"""The script of a recommendation: what it says, what it does on real disks, and where it is cut."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tests.recipes.three_roles import run
from tests.recommend.carried import (
    HOT,
    NAME,
    VOLUME,
    Host,
    journal_script,
    move_script,
    region,
    run_kind,
    script_of,
    swap_script,
    volume_script,
)
from tests.recommend.test_units import WORDS
from tests.recommend.traces import BLOCK
from tests.simulate.placement_models import Request, write_trace
from tests.traces import written
from tracekit.errors import UsageError
from tracekit.model.answer import read_recommendation
from tracekit.model.carry_out import merge_spans, script
from tracekit.model.commands_by_hand import whole_copy
from tracekit.model.rival_kinds import CacheTimes
from tracekit.store import TraceFolder


@pytest.mark.root
def test_a_dry_run_prints_and_changes_nothing(machine: Host) -> None:
    machine.fresh()
    machine.unmount_all()
    before = [run("sha256sum", device) for device in (machine.disk, machine.nvm)]
    for file in (
        machine.journal_script(),
        machine.move_script(),
    ):
        for way in ("apply", "undo"):
            for nvm in (machine.nvm, ""):
                said = machine.carried_out(file, way, TRACEKIT_APPLY="no", NVM=nvm)
                assert said.count("\n+ ") > 2
                assert said.endswith("TRACEKIT_APPLY=yes for that\n")
    assert before == [run("sha256sum", device) for device in (machine.disk, machine.nvm)]
    assert machine.fstab.read_text() == "# of the test\n"
    # AND without the device nothing is run
    assert machine.script(file, NVM="").returncode == 1
    # AND of a disk that is on another machine it does not look as if it were not mounted
    away = machine.script(
        journal_script(machine.place, "/dev/away", machine.point), TRACEKIT_APPLY="no", NVM=""
    )
    assert 0 < away.stdout.index(f"+ umount {machine.point}\n") < away.stdout.index("+ e2fsck ")


@pytest.mark.root
def test_a_journal_goes_to_the_nvm_and_back(machine: Host) -> None:
    files = machine.fresh()
    file = machine.journal_script()
    for _ in range(2):  # a second run finds that all is done
        said = machine.carried_out(file)
        assert machine.files() == files
        assert "Journal device:" in machine.features()
        uuid = run("blkid", "-p", "-o", "value", "-s", "UUID", machine.nvm)
        assert f"Journal UUID:             {uuid}" in machine.features()
    assert "# the journal of" in said
    for _ in range(2):
        machine.carried_out(file, "undo")
        assert machine.files() == files
        assert "Journal inode:" in machine.features()


@pytest.mark.root
def test_a_lost_nvm_costs_the_journal_only(machine: Host) -> None:
    # GIVEN a file system whose journal device dies while it is in use
    files = machine.fresh()
    file = machine.journal_script()
    machine.carried_out(file)
    machine.unmount_all()
    run("debugfs", "-w", "-R", "feature needs_recovery", machine.disk)
    run("dd", "if=/dev/zero", f"of={machine.nvm}", "bs=1M", "count=24", "conv=fsync")
    assert machine.inside("mount", machine.disk, machine.point).returncode != 0
    # WHEN it is undone, THEN the files are there
    machine.carried_out(file, "undo", NVM_LOST="yes", NVM="")
    assert machine.files() == files


def mountable(machine: Host) -> None:
    """Restart, as it were, and mount the disk."""
    machine.unmount_all()
    machine.must("mount", machine.disk, machine.point)


@pytest.mark.root
@pytest.mark.parametrize("way", ["apply", "undo"])
def test_a_journal_script_may_be_cut_anywhere(way: str, machine: Host) -> None:
    cuts = 0
    file = machine.journal_script()
    for cut in range(20):
        files = machine.fresh()
        if way == "undo":
            machine.carried_out(file)
        done = machine.script(file, way, cut=cut)
        # THEN the file system can be mounted, with all files, and the next run ends the work
        mountable(machine)
        assert machine.files() == files, f"cut before command {cut}"
        machine.carried_out(file, way)
        assert machine.files() == files
        assert ("Journal device:" in machine.features()) == (way == "apply")
        if done.returncode == 0:
            break
        cuts += 1
    assert cuts == {"apply": 6, "undo": 5}[way]


@pytest.mark.root
@pytest.mark.parametrize(
    ("way", "path"), [("apply", NAME), ("undo", NAME), ("undo", f"{NAME}/sub/a b")]
)
def test_a_move_may_be_cut_anywhere(way: str, path: str, machine: Host) -> None:
    nvm, cuts = machine.place / "nvm", 0
    moved, on_nvm = machine.point / path, nvm / Path(path).name
    file = machine.move_script(moved)
    files = machine.fresh()
    if way == "undo":
        machine.carried_out(file)
        files = machine.written_when_moved(moved)
    before, table = machine.saved(), machine.fstab.read_text()
    for cut in range(40):
        machine.restore(before)
        machine.fstab.write_text(table)
        machine.must("mount", machine.disk, machine.point)
        if way == "undo":
            machine.must("mkdir", "-p", nvm)
            machine.must("mount", machine.nvm, nvm)
            machine.must("mount", "--bind", on_nvm, moved)
        done = machine.script(file, way, cut=cut)
        # THEN both can be mounted, and what was moved is there or there, whole
        mountable(machine)
        kept = [machine.point / f"{path}{end}" for end in ("", ".tracekit-old", ".tracekit-new")]
        if nvm.is_dir() and run_kind(machine.nvm) == "ext4":
            machine.must("mount", machine.nvm, nvm)
            kept += [on_nvm, Path(f"{on_nvm}.undone")]
        wanted = {
            name[len(path) + 2 :]: sum_ for name, sum_ in files.items() if name[2:].startswith(path)
        }
        assert wanted in [found(machine, one) for one in kept], f"cut before command {cut}"
        # AND the next run ends the work
        machine.carried_out(file, way)
        assert machine.own_files() == files
        assert (str(nvm) in machine.fstab.read_text()) or way == "undo"
        if done.returncode == 0:
            break
        cuts += 1
    assert cuts >= 10
    left = machine.must("find", machine.point, "-name", "*.tracekit-*").splitlines()
    assert len(left) == (1 if way == "apply" else 0)


def found(machine: Host, place: Path) -> dict[str, str]:
    """Return the files of a folder by path, of a file itself by an empty one."""
    if machine.inside("test", "-f", place).returncode == 0:
        return {"": machine.must("sha256sum", place).lstrip("\\").split()[0]}
    if machine.inside("test", "-d", place).returncode != 0:
        return {}
    return {name[1:]: sum_ for name, sum_ in machine.files(place).items()}


@pytest.mark.root
@pytest.mark.usefixtures("own_root")
def test_what_is_in_use_or_not_empty_is_refused(machine: Host) -> None:
    machine.fresh()
    journal = machine.journal_script()
    run("mke2fs", "-q", "-F", "-t", "ext4", "-L", "mine", machine.nvm)
    machine.refused(journal, why="holds ext4")
    machine.must("mkdir", "-p", machine.place / "other")
    machine.must("mount", machine.nvm, machine.place / "other")
    machine.refused(journal, why="is mounted")
    machine.must("umount", machine.place / "other")
    machine.wipe()
    machine.refused(journal, MIB="4000", why="are needed")
    # AND a directory in which a process works
    moved = machine.move_script()
    work = ("sh", "-c", 'cd "$1" && exec sleep 60', "-", str(machine.point / NAME))
    holder = subprocess.Popen(["nsenter", f"--mount=/proc/{machine.holder}/ns/mnt", *work])
    try:
        while str(machine.point / NAME) not in os.readlink(f"/proc/{holder.pid}/cwd"):
            pass
        machine.refused(moved, why=f"in use by process {holder.pid}")
    finally:
        holder.kill()
        holder.wait()
    machine.carried_out(moved)


@pytest.mark.root
def test_a_whole_file_system_is_copied_by_hand_and_comes_back(machine: Host) -> None:
    # GIVEN a file system, and an NVM that is larger
    base, nvm = machine.nvm, machine.disk
    run("mke2fs", "-q", "-F", "-t", "ext4", "-L", "mine", base)
    machine.must("mkdir", "-p", machine.point)
    machine.must("mount", base, machine.point)
    machine.must(
        "sh", "-c", 'cd "$1" && seq 20000 >a && mkdir b && seq 9 >b/c', "-", str(machine.point)
    )
    text = whole_copy(base, shlex.quote(str(machine.point)))
    undo = next(number for number, line in enumerate(text) if "undo" in line)

    def by_hand(lines: Sequence[str]) -> None:
        for line in lines:
            if line.startswith("$ "):
                machine.must("sh", "-ec", line[2:].replace("/dev/NVM", nvm))

    # WHEN the commands are run, THEN all is on the NVM, by the name that it had
    files = machine.files()
    by_hand(text[:undo])
    assert machine.files() == files
    assert machine.must("findmnt", "-n", "-o", "SOURCE", machine.point).strip() == nvm
    assert [run("blkid", "-p", "-o", "value", "-s", "LABEL", nvm).strip(), run_kind(base)] == [
        *("mine", "ext4")
    ]
    # AND what is written there comes back with the rest
    machine.must("sh", "-c", 'echo new >"$1"', "-", machine.point / "b/new")
    files = machine.files()
    by_hand(text[undo:])
    assert machine.files() == files
    assert machine.must("findmnt", "-n", "-o", "SOURCE", machine.point).strip() == base
    assert run_kind(nvm) == ""
    assert run("blkid", "-p", "-o", "value", "-s", "LABEL", base).strip() == "mine"


def limits(text: str) -> str:
    """Return what of a script's prediction does not hold."""
    lines = {
        "block": "# Predicted for single",
        "hand": "# What is to be",
        "size": "# Carrying it out",
    }
    return " ".join(name for name, line in lines.items() if line in text)


WHOLE = ("--unit", "role", "--capacity", "1GiB")
LOG = region("sda journal", "journal", range(80, 160))


def head_of(text: str) -> str:
    """Return the comments before a script's first command: what is lost, and the way back."""
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True))
    head = "".join(lines)
    assert head.count("If the NVM dies: ") == head.count("Mirrored: ") >= 1
    assert "undo" in head
    return head


def test_each_layout_has_its_way(tmp_path: Path) -> None:
    # GIVEN traces of a swap area and of a logical volume
    def text(requests: list[Request], *words: str, layout: list[dict[str, Any]]) -> str:
        return script_of(tmp_path, requests, *words, layout=layout).read_text()

    swap = text([Request("swap", 0)], *WHOLE, layout=[region("sda", "swap", range(800))])
    assert 'apply_swap "$NVM" 409600' in swap
    cache = text(HOT, "--capacity", "64KiB", layout=VOLUME)
    assert 'apply_cache "$LV_dm_3" "$NVM" 65536' in cache
    assert "#     CACHE=writecache: " in head_of(cache)
    extents = text(HOT, "--unit", "extent=1MiB", "--capacity", "6MiB", layout=VOLUME)
    assert f'apply_extents "$LV_dm_3" "$NVM" {6 << 20} 0+{2 << 20}' in extents
    # THEN the first lines say what the prediction does not hold for
    assert [limits(head_of(one)) for one in (swap, cache, extents)] == ["", "block", ""]
    # AND a volume with a name of its own has its path, once for all its pieces, with its journal
    pieces = [{**VOLUME[0], "name": "vg-data", "node": "dm-3", "mount": "/srv"} for _ in range(2)]
    pieces[1] |= {"start_sector": 80000}
    inner = region("vg-data journal", "journal", range(800, 1600)) | {"device": "dm-3"}
    both = [*HOT, *(Request("journal", 800 + 8 * n, device="dm-3") for n in range(8))]
    named = text(both, "--capacity", "64KiB", layout=[*pieces, inner])
    assert "LV_vg_data=/dev/mapper/vg-data\n" in named
    assert named.count('apply_cache "$LV_vg_data"') == 1
    assert "apply_journal" not in named
    words = ("--unit", "extent=1MiB", "--capacity", "6MiB")
    assert 'apply_extents "$LV_vg_data" "$NVM"' in text(both, *words, layout=[*pieces, inner])


def test_what_is_predicted_is_what_the_script_does(tmp_path: Path) -> None:
    # GIVEN an answer of single blocks, of which the script moves all of the journal
    layout = [region("sda", "fs", range(98304)), region("sda journal", "journal", range(800, 8992))]
    trace, file = tmp_path / "trace", tmp_path / "carry.sh"
    requests = [Request("journal", 800 + 16 * (7 * n % 40)) for n in range(600)]
    requests += [Request("fs", 40000 + 16 * (7 * n % 300)) for n in range(300)]
    write_trace(trace, requests, layout=layout)
    succeed("recommend", trace, *WORDS, "--capacity", "256KiB", "--script", file)
    said = file.read_text()
    # THEN the first number is of that, as the answer by whole roles has it
    succeed("recommend", trace, *WORDS, "--unit", "role", "--capacity", "5MiB")
    units = read_recommendation(TraceFolder(trace)).units
    assert units is not None
    assert [one.name for one in units.placed] == ["journal"]
    wanted = f"# Predicted for what it moves by itself, the whole journal: {units.gain_ratio:.1%} "
    assert 0 < said.index(wanted) < said.index("# Predicted for single blocks, ")
    assert "What is to be done by hand is counted in the last, too." in said
    # AND of a cache it is what that was simulated to take
    cache = volume_script(tmp_path, "--capacity", "16MiB").read_text()
    advice = read_recommendation(TraceFolder(trace))
    times = {(one.rival, one.mode): one.busy_ns for one in advice.caches}
    gain = 1 - times["dm-cache", "through"] / advice.answer.base_elapsed_ns
    assert f"# Predicted for the cache that it makes (CACHE=writethrough): {gain:.1%} " in cache


def test_what_is_by_hand_has_its_commands_as_comments(tmp_path: Path) -> None:
    # GIVEN traces of an XFS, a plain partition and a pool of ZFS
    def text(requests: list[Request], *words: str, layout: list[dict[str, Any]]) -> str:
        return script_of(tmp_path, requests, *words, layout=layout).read_text()

    xfs = region("sda", "fs", range(8000), filesystem="xfs", mount="/m x")
    log = text([Request("journal", 80)], "--capacity", "1MiB", layout=[xfs, LOG])
    assert "#   $ mkfs.xfs -f -l logdev=/dev/NVM /dev/sda" in log
    assert "xfsrestore -f /backup/dump '/m x'" in log
    assert log.endswith("\necho 'all is by hand: see the comments'\n")
    plain = text([Request("fs", 0)], "--capacity", "1MiB", layout=[region("sda", "fs", range(80))])
    assert "#   $ make-bcache -C /dev/NVM -B /dev/EMPTY" in plain
    assert "#     bcache, writeback: " in plain
    assert "wipefs" not in head_of(plain)
    whole = text([Request("fs", 0)], *WHOLE, layout=[region("sda", "fs", range(80), mount="/m")])
    assert "#   $ dd if=/dev/sda of=/dev/NVM bs=4M conv=fsync" in whole
    zfs = region("sda", "fs", range(8000), filesystem="zfs")
    pool = text([Request("fs", 0)], "--capacity", "64KiB", layout=[zfs])
    assert "#   $ zpool add POOL cache /dev/NVM" in pool
    log_of_pool = text([Request("journal", 80)], "--capacity", "1MiB", layout=[zfs, LOG])
    assert "#   $ zpool add POOL log /dev/NVM" in log_of_pool
    assert [limits(head_of(one)) for one in (log, plain, whole, pool, log_of_pool)] == [
        *("block hand", "block hand", "hand", "block hand", "block hand")
    ]


@pytest.mark.parametrize(
    ("make", "printed", "back"),
    [
        (
            lambda folder: journal_script(folder, "away", Path("/m")),
            "+ mke2fs -q -F -O journal_dev -b 4096 -L tracekit-journal NVM 1280\n"
            "+ tune2fs -J device=NVM /dev/away\n",
            "+ tune2fs -J size=5 /dev/away\n",
        ),
        (
            lambda folder: move_script(folder, "away", Path("/m/data")),
            "+ mount --bind /srv/tracekit-nvm/data /m/data\n",
            "+ mv /m/data.tracekit-new /m/data\n",
        ),
        (swap_script, "+ mkswap -L tracekit-swap NVM\n+ swapon -p 100 NVM\n", "+ swapoff NVM\n"),
        (
            lambda folder: volume_script(folder, "--unit", "extent=1MiB", "--capacity", "6MiB"),
            "+ vgextend GROUP NVM\n+ pvmove -n VOLUME OLD:EXTENTS NVM, for bytes 0+2097152\n",
            "+ pvmove NVM\n+ vgreduce GROUP NVM\n",
        ),
        (
            lambda folder: volume_script(folder, "--capacity", "64KiB"),
            "+ lvconvert --yes --type writecache --cachevol tracekit_cache GROUP/VOLUME\n",
            "+ lvconvert --yes --uncache GROUP/VOLUME\n",
        ),
    ],
    ids=["journal", "move", "swap", "extents", "writecache"],
)
def test_what_a_script_would_run_elsewhere_is_printed(
    make: Callable[[Path], Path], printed: str, back: str, tmp_path: Path
) -> None:
    # GIVEN a script for devices that are not here
    file = make(tmp_path)
    given = {**os.environ, "CACHE": "writecache", "FSTAB": str(tmp_path / "fstab")}

    def ran(way: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", str(file), way]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, env=given | more
        )

    # THEN it prints what it would run, and what would take that back
    for way, wanted in (("apply", printed), ("undo", back)):
        done = ran(way)
        assert (done.returncode, done.stderr) == (0, "")
        assert wanted in done.stdout
    # AND with the word to run them it stops before the first
    done = ran("apply", TRACEKIT_APPLY="yes")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not a block device: set the variables at the top" in done.stderr


def test_a_cache_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    file = volume_script(tmp_path, "--capacity", "64KiB")
    given = {**os.environ, "CACHE": "write-back"}
    done = subprocess.run(["sh", str(file)], capture_output=True, text=True, check=False, env=given)
    assert done.returncode == 1
    assert "+ " not in done.stdout
    assert "CACHE=write-back: choose writethrough, writeback or writecache" in done.stderr


@pytest.mark.parametrize(
    ("unit", "capacity", "said"), [("1MiB", "6MiB", True), ("4MiB", "16MiB", False)]
)
def test_more_than_predicted_moves_where_units_are_no_extents(
    unit: str, capacity: str, *, said: bool, tmp_path: Path
) -> None:
    words = ("--unit", f"extent={unit}", "--capacity", capacity)
    text = volume_script(tmp_path, *words).read_text()
    assert "pvmove" in text
    assert ("LVM moves whole extents" in text) == said


def test_parts_of_two_kinds_have_a_device_each(tmp_path: Path) -> None:
    file = script_of(
        tmp_path,
        [Request("journal", 80), Request("swap", 0, device="sdb")],
        *("--unit", "role", "--capacity", "1GiB"),
        layout=[
            region("sda", "fs", range(799), mount="/m"),
            region("sda journal", "journal", range(80, 160)),
            region("sdb", "swap", range(800)),
        ],
    )
    both = file.read_text()
    assert 'apply_journal "$FS" "$POINT" "$NVM_JOURNAL" "$MIB"' in both
    assert 'apply_swap "$NVM_SWAP" 409600' in both
    assert both[: both.index("set -eu")].count("If the NVM dies: ") == 2


def test_journals_of_two_file_systems_have_a_device_each(tmp_path: Path) -> None:
    # GIVEN two ext4, each with a journal in it
    systems = [region(name, "fs", range(98304), mount=f"/{name}") for name in ("sda", "sdb")]
    journals = [region(f"{name} journal", "journal", range(800, 8992)) for name in ("sda", "sdb")]
    hot = [Request("journal", 800, device=name) for name in ("sda", "sdb")]
    words = ("--unit", "role", "--capacity", "1GiB")
    text = script_of(tmp_path, hot, *words, layout=[*systems, *journals]).read_text()
    # THEN none is written over the other
    assert 'apply_journal "$FS" "$POINT" "$NVM" "$MIB"' in text
    assert 'apply_journal "$FS_1" "$POINT_1" "$NVM_1" "$MIB_1"' in text
    assert "TRACEKIT_APPLY=yes NVM=/dev/... NVM_1=/dev/... sh FILE" in text


BEATEN = {
    ("dm-writecache", "back"): ["lvconvert --yes --type writecache --cachevol fast nvmcache/data"],
    ("dm-cache", "back"): ["lvconvert --yes --type cache --cachemode writeback --cachevol fast"],
    ("bcache", "back"): ["make-bcache --writeback -C /dev/NVM -B /dev/EMPTY"],
    ("Open CAS", "only"): ["casadm --start-cache --cache-device /dev/NVM --cache-mode wo"],
    ("ZFS log", "back"): ["zpool add POOL log mirror /dev/A /dev/B"],
    ("ZFS special", "alone"): ["zpool add POOL special mirror /dev/A /dev/B"],
    ("ZFS special, 32K", "alone"): ["zpool add POOL special", "special_small_blocks=32K"],
    ("zram", "alone"): ["zramctl --algorithm lz4 --size 2237677961 /dev/zram0", "swapon -p 200"],
    ("zswap", "alone"): ["echo 1 > /sys/module/zswap/parameters/enabled"],
}


@pytest.mark.parametrize(("rival", "mode"), BEATEN)
def test_what_is_quicker_is_said_with_its_commands(rival: str, mode: str, tmp_path: Path) -> None:
    # GIVEN an answer that a cache beats
    write_trace(tmp_path, [Request("fs", 0)] * 9, layout=[region("sda", "fs", range(80))])
    succeed("recommend", tmp_path, *WORDS, "--unit", "role", "--capacity", "1GiB")
    folder = TraceFolder(tmp_path)
    advice = read_recommendation(folder)
    quick = CacheTimes(
        rival=rival, mode=mode, capacity_bytes=1 << 30, elapsed_ns=1, background_base_ns=0
    )
    advice.caches = [quick]
    # THEN the script ends in how it is made and taken back, and what is lost with it
    text = script(folder, advice)
    part = text[text.index("# * With 1 GiB, ") :]
    assert f"{rival} " in part
    assert [one for one in BEATEN[rival, mode] if one not in part] == []
    assert part.index("If the NVM dies: ") < part.index("#   $ ") < part.index("#   undo")
    # AND on a logical volume the script for blocks makes what LVM can
    layout = [region("dm-3", "fs", range(80))]
    write_trace(tmp_path / "volume", [Request("fs", 0, device="dm-3")] * 9, layout=layout)
    succeed("recommend", tmp_path / "volume", *WORDS, "--capacity", "1GiB")
    volume = TraceFolder(tmp_path / "volume")
    other = read_recommendation(volume)
    other.caches = [quick]
    names = {"dm-writecache": "Run this with CACHE=writecache.", "dm-cache": "CACHE=writeback."}
    assert names.get(rival, rival) in script(volume, other)


def test_a_script_is_not_replaced_and_names_cannot_leave_their_quotes(tmp_path: Path) -> None:
    path = Path("/srv") / f"{NAME}\n$(touch {tmp_path}/made)`touch {tmp_path}/made`\"'"
    table = written(
        tmp_path / "files.json",
        '[{"path": ' + json.dumps(str(path)) + ', "device": "sda", "first_sector": 0,'
        ' "sectors": 8}]',
    )
    write_trace(tmp_path / "trace", [Request("fs", 0)])
    words = ("--unit", "file", "--files", table, "--capacity", "9MiB", "--script")
    file = tmp_path / "carry.sh"
    succeed("recommend", tmp_path / "trace", *WORDS, *words, file)
    done = subprocess.run(["sh", file], check=True, capture_output=True, text=True)
    assert not (tmp_path / "made").exists()
    assert "a log" in done.stdout
    refused(
        invoke("recommend", tmp_path / "trace", *WORDS, *words, file),
        "carry.sh: exists already",
        error=UsageError,
    )
    # AND the library has it as a text
    trace = tk.open(tmp_path / "trace")
    again = trace.recommend(
        base="disk", nvm="nvm", profiles=WORDS[-1], unit="file", files=table, capacity="9MiB"
    )
    assert again.script == file.read_text()


def test_extents_that_touch_are_one() -> None:
    spans = [(8 * BLOCK, BLOCK), (0, BLOCK), (BLOCK, 2 * BLOCK), (9 * BLOCK, BLOCK)]
    assert merge_spans(spans) == [(0, 3 * BLOCK), (8 * BLOCK, 2 * BLOCK)]
    assert merge_spans([]) == []
