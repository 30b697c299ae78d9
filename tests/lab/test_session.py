"""What the lab refuses before it starts anything, and what it takes of what a guest brings."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.command_line import typed
from tracekit.errors import TracekitError, UsageError
from tracekit.lab import image
from tracekit.lab.session import Job, copy_layout_modules, unpack_result


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
