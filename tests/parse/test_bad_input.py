"""Bad input: one error that names the place, and nothing left behind."""

import gzip
import lzma
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests import parsed as traces
from tests.decode import scenes
from tests.decode.records import Event, pack, pack_events
from tests.parse.captures import capture
from tests.parsed import COMPRESSORS
from tracekit.errors import InputError, UsageError
from tracekit.readers.blktrace import ParseOptions, parse

PLAIN, MERGED = pack(scenes.PLAIN), pack(scenes.BACK_MERGE)
WRITES = pack_events(Event(n, 1 | 1 << 17, sector=n) for n in range(5000))
NEW_VERSION = PLAIN[:-48] + b"\x05taessss" + bytes(40)
# By name: the files x, y ..., and the message.
BAD: dict[str, tuple[list[bytes], str]] = {
    "empty": ([b""], r"/x: byte 0: empty"),
    "not a trace": (
        [b"%PDF-1.7" + bytes(80)],
        r"/x: byte 0: not a blktrace file: it begins with 0x46445025, not with 0x65617407",
    ),
    "cut": ([PLAIN[:-1]], r"/x: byte \d+: the file ends within a record's header: 47"),
    "version": ([NEW_VERSION], r"/x: byte \d+: a record of blktrace version 5"),
    "bit": (
        [MERGED[:48] + b"\x07\x74\x61\x64" + MERGED[52:]],
        r"/x: byte 48: no record begins here: 0x64617407",
    ),
    "backwards": (
        [pack_events([Event(10**9 + t, 1, sector=t) for t in range(5000)] * 2)],
        r"/x: byte 240000: time runs backwards by 4999 ns, after the record at byte 239952",
    ),
    "no request": ([pack("1 P N\n2 U N")], r"/x: 2 records, but none of a queued"),
    "same bytes twice": ([PLAIN, PLAIN], "the same bytes as"),
    **{
        f"damaged {name}": (
            [compress(WRITES)[:-500]],
            rf"/x: the compressed file is damaged before byte [0-9,]+: {name}: ",
        )
        for name, compress in COMPRESSORS.items()
    },
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_error_and_no_folder(tmp_path: Path, name: str) -> None:
    contents, message = BAD[name]
    files = [tmp_path / letter for letter, _ in zip("xy", contents, strict=False)]
    for file, data in zip(files, contents, strict=True):
        file.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        parse(files, tmp_path / "trace")
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["/proc/self/mem"], "/proc/self/mem: cannot be opened: Input/output error"),
        (["in"], "there is no trace in this folder"),
        (["none"], "there is no such file"),
        (["x", "link"], "given twice"),
    ],
)
def test_files_that_cannot_be(tmp_path: Path, names: list[str], message: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "x").write_bytes(PLAIN)
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with pytest.raises(InputError, match=message):
        parse([tmp_path / name for name in names], tmp_path / "trace")
    assert not (tmp_path / "trace").exists()


def test_idle_cpus_have_the_same_packed_files(tmp_path: Path) -> None:
    # GIVEN a capture whose CPUs but the first had nothing to do, packed: files of the same bytes
    (tmp_path / "x.blktrace.0").write_bytes(PLAIN)
    for cpu in (1, 2):
        (tmp_path / f"x.blktrace.{cpu}.xz").write_bytes(lzma.compress(b""))
    # THEN it is parsed
    folder, _ = parse([tmp_path], tmp_path / "trace")
    assert folder.content["counts"]["requests"] > 0


def test_salvage(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(MERGED[:-1])
    folder, _ = parse([tmp_path / "x"], tmp_path / "t", options=ParseOptions(keeps_whole=True))
    assert folder.content["counts"]["records"] == 8
    assert "was read up to byte 384 only" in traces.warnings(folder)["salvaged"]


def test_salvage_of_damaged_compression(tmp_path: Path) -> None:
    data = pack_events(Event(place, 1 | 1 << 17, sector=place) for place in range(50_000))
    (tmp_path / "x").write_bytes(gzip.compress(data)[:-500])
    folder, _ = parse([tmp_path / "x"], tmp_path / "t", options=ParseOptions(keeps_whole=True))
    assert 1000 < folder.content["counts"]["records"] < 50_000
    assert "salvaged" in traces.warnings(folder)


def test_an_existing_folder_is_kept(tmp_path: Path) -> None:
    source = capture(tmp_path / "capture")
    parse([source], tmp_path / "trace")
    with pytest.raises(UsageError, match="exists already"):
        parse([source], tmp_path / "trace")
    parse([source], tmp_path / "trace", options=ParseOptions(overwrite=True))


READING = (
    '"counters": [{"device": "a", "begin": {"before_ns": 1, "after_ns": %d, "completed": %s},'
    ' "end": %s}]'
)
PART = '"partitions": [{"device": "a", %s}]'
END = '{"before_ns": 3, "after_ns": 5, "completed": {}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ('{"layout_version": 2}', "layout_version is 2"),
        ("", "neither a layout.json nor an sfdisk dump"),
        ("{}", "is no layout.json"),
        ('"partitions": 5', "partitions cannot be 5"),
        ('"partitions": [{"device": 5}]', "device cannot be 5"),
        (PART % '"start_sector": -1, "sectors": 1', "entry 0: start_sector cannot be -1"),
        (PART % '"start_sector": 0, "sectors": "9"', "entry 0: sectors cannot be '9'"),
        (PART % '"start_sector": 0, "sectors": 9, "role": "x"', "entry 0: role is 'x'"),
        ('"partitions": [{"device": "a"}]', "partitions, entry 0: start_sector is missing"),
        ("hello", "neither a layout.json nor an sfdisk dump"),
        ('"loss": {"overrun": -1}', "loss: overrun cannot be -1"),
        ('"loss": {"overrun": 1e999}', "1e999 is too large"),
        ('"processes": {"-1": "a"}', "processes are not names"),
        ('"processes": {"1": "\\ud800"}', "not UTF-8"),
        ('"devices": [{"device": "a", "major": 5000}]', "major is 5000"),
        ('"devices": [{"device": "a", "size_sectors": "a"}]', "be 'a'"),
        (
            PART % '"start_sector": 0, "sectors": 99999999999999999',
            "no device reaches to sector 99999999999999999",
        ),
        ('"counters": [{"why_not": "a"}]', "counters, entry 0: device is missing"),
        (READING % (2, '{"read": -1}', "{}"), "counters, entry 0, begin: completed cannot be"),
        (READING % (4, "{}", END), "the readings do not belong together"),
        ("device: /dev/a\n/dev/a1 : start= 1, size= 0", "sectors is 0"),
    ],
)
def test_bad_layout(tmp_path: Path, text: str, message: str) -> None:
    source = capture(tmp_path / "capture")
    whole = f'{{"layout_version": 1, {text}}}' if text.startswith('"') else text
    (source / "layout.json").write_text(whole)
    with pytest.raises(InputError, match=message):
        parse([source], tmp_path / "trace")
    assert not (tmp_path / "trace").exists()


def test_a_full_disk_is_one_error_and_no_folder(tmp_path: Path) -> None:
    # GIVEN a process that may not write files of more than 2000 bytes
    (tmp_path / "x").write_bytes(PLAIN)
    limit = (2000, 2000)
    done = subprocess.run(
        [sys.executable, "-m", "tracekit", "parse", "x", "-o", "trace"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    # THEN it says so, and leaves nothing
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "tracekit: the table of requests cannot be written: File too large",
        "  free some space, or choose an --output elsewhere",
    ]
    assert os.listdir(tmp_path) == ["x"]
