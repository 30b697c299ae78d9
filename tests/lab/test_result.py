"""What a guest brings is unpacked without trust."""

import io
import tarfile
from pathlib import Path

import pytest

from tracekit.errors import TracekitError
from tracekit.lab.session import unpack_result


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
