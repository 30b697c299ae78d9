"""What `tracekit characterize-device` refuses before it makes or touches anything."""

import os
from pathlib import Path

import pytest

from tests.characterize_device.test_command import FEW, tracekit
from tests.command_line import refused
from tracekit.errors import InputError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to characterize was named"),
        (["--device", "nope"], "no device profile 'nope'"),
        (["--device", "ssd-emlc", "--engine", "threads"], "needs the emulated engine"),
        (["x.img", "--engine", "emulated"], "needs --device"),
        (["x.img", "--engine", "null"], "--engine null: not one of"),
        (["--device", "ssd-emlc", "--size", "1MiB"], "too small"),
        (["--device", "ssd-emlc", "--depths", "1,x"], "--depths 1,x"),
        (["--device", "ssd-emlc", "--price", "0"], "--price 0"),
        (["--device", "ssd-emlc", "--like", "nope"], "no device profile 'nope'"),
        (["--device", "ssd-emlc", "--name", "a b"], "not a profile's name"),
        (["--device", "ssd-emlc", "--seed", "-1"], "--seed -1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = tracekit(*arguments, "-o", tmp_path / "out")
    refused(ran, message)
    assert list(tmp_path.iterdir()) == []


def test_a_file_smaller_than_the_size_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "small.img").write_bytes(bytes(8 << 20))
    ran = tracekit(tmp_path / "small.img", "--size", "9MiB", "-o", tmp_path / "out")
    assert "--size 9 MiB" in str(ran.exception)
    ran = tracekit(tmp_path, "-o", tmp_path / "out")
    assert ran.exit_code != 0
    # AND a folder of something else does not get results
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.txt").write_text("mine")
    ran = tracekit("--device", "ssd-emlc", *FEW, "-o", tmp_path / "docs")
    assert "is no trace folder" in str(ran.exception)
    assert [path.name for path in (tmp_path / "docs").iterdir()] == ["a.txt"]


def test_a_disk_without_room_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a disk with 10 MiB free
    fields = list(os.statvfs(tmp_path))
    fields[0] = fields[1] = 4096
    fields[4] = 10 * 256
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(fields))
    ran = tracekit(tmp_path / "new.img", "--size", "12MiB", *FEW, "-o", tmp_path / "out")
    refused(ran, "new.img: 12 MiB are needed, 10 MiB are free on its disk", error=InputError)
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_disk_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    target = tmp_path / "disk/new.img"
    ran = tracekit(target, "--size", "12MiB", *FEW, "-o", tmp_path / "out")
    assert f"{target}: {target.parent} cannot be written to" in str(ran.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["disk"]
