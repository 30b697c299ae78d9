"""The lab before a guest runs: its kernel, what it refuses, what QEMU is asked for, how it ends."""

import io
import lzma
import stat
import struct
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from tests.command_line import typed
from tracekit.errors import TracekitError, UsageError
from tracekit.lab import image
from tracekit.lab import machine as lab_machine
from tracekit.lab.image import WANTED, Image, in_loading_order, unpack_kernel, without_signature
from tracekit.lab.machine import Disk, Machine, Part, dax_start_mib, parse_disks, start
from tracekit.lab.session import Job, copy_layout_modules, unpack_result

KERNEL = b"\x7fELF" + bytes(range(256)) * 40
XZ = lzma.compress(KERNEL, lzma.FORMAT_XZ)


def bz_image(payload: bytes, *, setup_sectors: int = 3, version: int = 0x20F) -> bytes:
    """Return a file as boot.rst has it: sectors of setup, 100 bytes of program, the payload."""
    setup = bytearray(512 * ((setup_sectors or 4) + 1))
    setup[0x1F1] = setup_sectors
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", setup, 0x206, version)
    struct.pack_into("<II", setup, 0x248, 100, len(payload))
    return bytes(setup) + bytes(100) + payload + b"behind it"


@pytest.mark.parametrize("setup_sectors", [0, 3, 39])
def test_what_the_header_points_at_is_unpacked(tmp_path: Path, setup_sectors: int) -> None:
    # GIVEN a packed kernel with the size of its content behind the stream, as Linux builds it
    payload = XZ + struct.pack("<I", len(KERNEL))
    (tmp_path / "vmlinuz").write_bytes(bz_image(payload, setup_sectors=setup_sectors))
    # WHEN it is unpacked, THEN the kernel is there and nothing else
    unpack_kernel(tmp_path / "vmlinuz", tmp_path / "vmlinux")
    assert (tmp_path / "vmlinux").read_bytes() == KERNEL


@pytest.mark.parametrize("packing", [b"\x1f\x8b\x08 of gzip", b"\x28\xb5\x2f\xfd of zstd"])
def test_a_kernel_packed_in_another_way_unpacks_itself(tmp_path: Path, packing: bytes) -> None:
    (tmp_path / "vmlinuz").write_bytes(bz_image(packing))
    unpack_kernel(tmp_path / "vmlinuz", tmp_path / "vmlinux")
    assert (tmp_path / "vmlinux").read_bytes() == bz_image(packing)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no packed Linux kernel"),
        (bytes(5000), "no packed Linux kernel"),
        (bz_image(XZ, version=0x207), "no packed Linux kernel"),
        (bz_image(b""), "no packed Linux kernel"),
        (bz_image(XZ[:40] + bytes(40) + XZ[80:]), "the packed kernel is damaged"),
        (bz_image(XZ[:-40]), "the packed kernel is damaged"),
        (bz_image(lzma.compress(b"no kernel")), "what is packed in it is no kernel"),
    ],
)
def test_what_is_no_such_kernel_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "vmlinuz").write_bytes(data)
    with pytest.raises(TracekitError, match=message):
        unpack_kernel(tmp_path / "vmlinuz", tmp_path / "vmlinux")
    assert not (tmp_path / "vmlinux").exists()


def test_a_signature_behind_a_module_is_left_out() -> None:
    # GIVEN a module with 5 bytes of signature, struct module_signature and the mark behind it
    facts = bytes([0, 0, 2, 0, 0, 0, 0, 0]) + struct.pack(">I", 5)
    signed = b"\x7fELF the module" + b"12345" + facts + b"~Module signature appended~\n"
    assert without_signature(signed) == b"\x7fELF the module"
    # AND one without is as it was
    assert without_signature(b"\x7fELF the module") == b"\x7fELF the module"


def write_module(folder: Path, name: str, facts: bytes = b"depends=\0") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"\x7fELF\0" + facts + b"vermagic=6.1\0"
    path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)
    return path


def test_a_module_comes_behind_what_it_needs(tmp_path: Path) -> None:
    # GIVEN a kernel whose ext4 needs jbd2, jbd2 softly crc32c, and a packed virtio that needs more
    special = {"ext4", "virtio_pci"}
    for name in WANTED:
        if name not in special:
            write_module(tmp_path, f"{name}.ko")
    write_module(tmp_path, "fs/ext4.ko", b"depends=jbd2\0softdep=pre: no-such post: late\0")
    write_module(tmp_path, "fs/jbd2.ko", b"softdep=pre: crypto-x\0depends=\0")
    write_module(tmp_path, "crypto/crypto-x.ko")
    write_module(tmp_path, "virtio-pci.ko.xz", b"depends=virtio-ring,virtio\0")
    for name in ("virtio_ring.ko", "virtio.ko.xz", "late.ko", "unused.ko"):
        write_module(tmp_path, name)
    # WHEN the order is asked for
    names = [path.name for path in in_loading_order(tmp_path)]
    # THEN each needed module is there once, before its user, and no other one is
    assert names == [
        *("crc32c_generic.ko", "virtio_ring.ko", "virtio.ko.xz", "virtio-pci.ko.xz"),
        *("virtio_blk.ko", "crypto-x.ko", "jbd2.ko", "ext4.ko", "overlay.ko", "configfs.ko"),
        *("libnvdimm.ko", "nd_e820.ko", "nd_pmem.ko", "null_blk.ko"),
        *("dm_mod.ko", "dm_flakey.ko", "device_dax.ko", "dax_pmem.ko"),
        *("nvme.ko", "quota_v2.ko"),
    ]


def test_a_kernel_without_a_module_is_refused(tmp_path: Path) -> None:
    write_module(tmp_path, "crc32c_generic.ko")
    with pytest.raises(TracekitError, match="no module virtio_pci"):
        in_loading_order(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--disk", "root=1G", "--", "true"], "'root=1G' is no disk"),
        (["run", "--pmem", "1G", "--memory", "512MiB", "--", "true"], "does not fit"),
        (["run", "--pmem", "64M", "--disk", "fs=64M:1ms", "--", "true"], "both given"),
        (["run", "--share", "no-such-folder", "--", "true"], "no-such-folder is not a folder"),
        (["run", "-o", ".", "--", "true"], ". exists already"),
        (["capture", "-o", ".", "--disk", "fs=64M", "--", "true"], ". exists already"),
        (["build", "--package", "--evil"], "'--evil' is not the name of a package"),
    ],
)
def test_a_wrong_use_is_one_line_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, talk = typed("lab", *words)
    assert status == 2
    assert message in talk.splitlines()[0]
    assert list(tmp_path.iterdir()) == []


def test_a_trace_needs_a_disk() -> None:
    with pytest.raises(UsageError, match="no disk to trace"):
        Job(("true",), is_traced=True).check()


def test_a_machine_without_qemu_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(image, "ADMIN_PATH", str(tmp_path))
    with pytest.raises(TracekitError, match="qemu-system-x86_64, mke2fs not on PATH: apt install"):
        image.build(on_step=lambda _what: None)


def test_other_packages_are_another_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plain, more = image.find_image(), image.find_image(["gnuplot-nox"])
    assert plain.folder != more.folder
    assert plain.folder.parent == tmp_path / "tracekit/lab"
    assert image.find_image(["bash"]).folder == plain.folder
    assert not plain.is_built


def test_a_guest_without_packages_can_describe_its_disks(tmp_path: Path) -> None:
    # GIVEN what a guest gets of tracekit, and no other module than Python's own
    copy_layout_modules(tmp_path)
    statement = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import tracekit.capture.layout"
    # THEN that is enough
    subprocess.run([sys.executable, "-I", "-S", "-c", statement], check=True)


def write_disk(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    """Write a tar archive onto a larger disk, as the guest does."""
    with tarfile.open(path, "w") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with path.open("r+b") as file:
        file.truncate(1 << 24)


def named(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_files_and_folders_are_taken_and_links_are_not(tmp_path: Path) -> None:
    # GIVEN a disk with a file in a folder, a link to a file of the host and a device
    write_disk(
        tmp_path / "disk",
        (named(".", tarfile.DIRTYPE), b""),
        (named("./files", tarfile.DIRTYPE), b""),
        (named("./files/a"), b"content"),
        (named("./stdout", tarfile.SYMTYPE, "/etc/passwd"), b""),
        (named("./null", tarfile.CHRTYPE), b""),
    )
    # WHEN it is unpacked
    unpack_result(tmp_path / "disk", tmp_path / "result")
    # THEN only the file and its folder are there
    found = {str(path.relative_to(tmp_path / "result")) for path in tmp_path.rglob("result/**/*")}
    assert found == {"files", "files/a"}
    assert (tmp_path / "result/files/a").read_bytes() == b"content"


@pytest.mark.parametrize("name", ["../outside", "/outside", "files/../../outside"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    write_disk(tmp_path / "disk", (named(name), b"content"))
    with pytest.raises(TracekitError, match="has a file named"):
        unpack_result(tmp_path / "disk", tmp_path / "result")
    assert not (tmp_path / "outside").exists()


def test_an_empty_disk_has_no_result(tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(b"\xff" * 4096)
    with pytest.raises(TracekitError, match="cannot be read"):
        unpack_result(tmp_path / "disk", tmp_path / "result")


def test_parts_of_one_latency_share_a_disk() -> None:
    # GIVEN three roles, two of the same latency
    disks = parse_disks(["fs=2GiB", "journal=256MiB:108us", "swap=512M"])
    # THEN there are two disks, in the order of their first parts
    assert disks == [
        Disk((Part("fs", 2048, 0), Part("swap", 512, 0))),
        Disk((Part("journal", 256, 108_000),)),
    ]
    # AND each has a MiB at both ends for the partition table
    assert [disk.mib for disk in disks] == [2562, 258]
    assert [disk.latency_ns for disk in disks] == [0, 108_000]


def test_parts_of_another_depth_are_on_another_disk() -> None:
    # GIVEN two parts of one latency, one of which serves one request at a time
    disks = parse_disks(["fs=1G:5ms:1", "journal=64M:5ms"])
    # THEN there are two disks; without a depth it is that of the kernel's driver
    assert [(disk.latency_ns, disk.depth) for disk in disks] == [(5_000_000, 1), (5_000_000, 64)]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["fs"], "'fs' is no disk"),
        (["data=1G"], "'data=1G' is no disk"),
        (["fs=1G", "fs=2G"], "fs is given twice"),
        (["journal=64M"], "a journal without a file system"),
        (["fs=1G", "journal=1M"], "journal of 1M: from 4 MiB"),
        (["fs=0"], "fs of 0: from 16 MiB"),
        (["fs=1G:"], "'' is not a time"),
        (["fs=1G:0us"], "a latency of 0us"),
        (["fs=1G:2s"], "a latency of 2s"),
        (["fs=1G:fast"], "'fast' is not a time"),
        (["fs=1G:5ms:"], "a depth of ''"),
        (["fs=1G:5ms:0"], "a depth of '0'"),
        (["fs=1G:5ms:1025"], "a depth of '1025'"),
        (["fs=1G:5ms:+1"], "a depth of '\\+1'"),
        (["fs=/dev/sda"], "'/dev/sda' is not a size"),
        (["fs=16T"], "fs of 16T: from 16 MiB to 4 TiB"),
    ],
)
def test_what_is_no_disk_is_named(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_disks(texts)


@pytest.mark.parametrize(
    ("dax_mib", "memory_mib", "start_mib"),
    [(256, 1024, 512), (1024, 768, 512), (1025, 2304, 4096), (8192, 4096, 4096)],
)
def test_persistent_memory_lies_in_one_piece_of_real_memory(
    dax_mib: int, memory_mib: int, start_mib: int
) -> None:
    # WHEN it is placed
    assert dax_start_mib(dax_mib, memory_mib) == start_mib
    # THEN it is inside of what q35 has there: all below 4 GiB, or 2 GiB and the rest above
    total_mib = dax_mib + memory_mib
    is_split = total_mib >= 2816
    end_below_mib = 2048 if is_split else total_mib
    end_mib = end_below_mib if start_mib < 4096 else 4096 + total_mib - 2048
    assert start_mib + dax_mib + 256 <= end_mib


@pytest.mark.parametrize(("dax_mib", "memory_mib"), [(256, 512), (2048, 1024)])
def test_persistent_memory_that_does_not_fit_is_refused(dax_mib: int, memory_mib: int) -> None:
    with pytest.raises(UsageError, match=f"--pmem of {dax_mib} MiB does not fit"):
        dax_start_mib(dax_mib, memory_mib)


def machine(folder: Path, *disks: tuple[str, Path]) -> Machine:
    return Machine(Image(folder, ()), "tcg", memory_mib=512, cpus=1, disks=disks)


def fake_qemu(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "bin/qemu-system-x86_64"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_only_image_files_are_used(tmp_path: Path) -> None:
    # GIVEN a block device or what is not there in the place of an image
    for path in (Path("/dev/null"), tmp_path / "nothing"):
        with pytest.raises(TracekitError, match="is not an image file"):
            machine(tmp_path, ("lab-disk0", path)).command(tmp_path / "console")


def test_the_guest_has_no_network_and_cannot_write_what_lasts(tmp_path: Path) -> None:
    image = tmp_path / "a,b.img"
    image.touch()
    command = machine(tmp_path, ("lab-root", image), ("lab-disk0", image)).command(tmp_path / "c")
    assert command[command.index("-nic") + 1] == "none"
    drives = [text for text in command if text.startswith("file=")]
    # A comma in a path is doubled, as QEMU reads it.
    assert [text.partition(",format")[0] for text in drives] == [f"file={tmp_path}/a,,b.img"] * 2
    assert [text.rpartition("readonly=")[2] for text in drives] == ["on", "off"]


def test_a_guest_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_qemu(tmp_path, monkeypatch, f"echo it hangs > {tmp_path}/console; exec sleep 60")
    started_s = time.monotonic()
    with pytest.raises(TracekitError, match=r"did not end within 1 s.*\n  it hangs"):
        start(machine(tmp_path), tmp_path / "console", limit_s=1)
    assert time.monotonic() - started_s < 10


def test_a_guest_that_hangs_before_it_is_up_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a kernel that hangs in its first two starts, and is slow after it came up in its third
    monkeypatch.setattr(lab_machine, "PATIENCE_S", (0.2, 0.2, 2.0))
    begun, console = tmp_path / "begun", tmp_path / "console"
    script = f"echo >> {begun}; [ $(wc -l < {begun}) = 3 ] || exec sleep 60"
    up = f"echo tracekit-lab: up > {console}; sleep 2.5; echo tracekit-lab: done >> {console}"
    fake_qemu(tmp_path, monkeypatch, f"{script}\n{up}")
    # WHEN it is started, THEN it is once more, and left alone once it is up
    said = lab_machine.said_lines(start(machine(tmp_path), console, limit_s=30))
    assert (list(said), begun.read_text()) == (["up", "done"], "\n" * 3)


def test_what_qemu_complains_about_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_qemu(tmp_path, monkeypatch, "echo 'cannot set up guest memory' >&2; exit 1")
    with pytest.raises(TracekitError, match="failed: cannot set up guest memory"):
        start(machine(tmp_path), tmp_path / "console", limit_s=10)
