"""Whether the disk takes what a profile makes: asked before anything is made."""

import os
from pathlib import Path

import pytest
from typer.testing import Result

from tests.command_line import invoke
from tests.generate.profiles import ARRIVAL, HEAD, READS
from tracekit.workload.reader import read_profile
from tracekit.workload.requests import Extent, blocks


def generate(*arguments: str) -> Result:
    return invoke("generate", *arguments)


def made(*arguments: str) -> None:
    result = generate(*arguments)
    assert result.exit_code == 0, result.output


def with_free_bytes(monkeypatch: pytest.MonkeyPatch, place: Path, free_bytes: int) -> None:
    fields = list(os.statvfs(place))
    fields[0] = fields[1] = 4096
    fields[4] = free_bytes // 4096
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(fields))


@pytest.mark.parametrize(
    ("form", "needed"), [("trace", "an estimated 5.46 TiB"), ("plan", "43.7 TiB")]
)
def test_a_disk_without_room_for_the_requests_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, needed: str
) -> None:
    # GIVEN a disk with a GiB free, and 10^12 requests of 6 or 48 bytes
    with_free_bytes(monkeypatch, tmp_path, 1 << 30)
    output = tmp_path / "new" / "out"
    asked = ("paging", "--requests", str(10**12), "--format", form, "-o", str(output))
    result = generate(*asked)
    assert f"{output}: {needed} are needed, 1 GiB are free on its disk" in str(result.exception)
    assert "choose fewer --requests" in getattr(result.exception, "hint", "")
    assert list(tmp_path.iterdir()) == []


PHASES = """[[phase]]
duration = "1s"
rate = 3
[[phase]]
duration = "2s"
rate = 0
"""


@pytest.mark.parametrize(
    ("form", "needed"), [("trace", "an estimated 5.46 TiB"), ("plan", "an estimated 43.7 TiB")]
)
def test_so_is_one_without_room_for_those_of_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, needed: str
) -> None:
    # GIVEN a request each us in the first of each 3 s, three times as often, and then none; so in
    # 1,000,000 s 333,334 times 3 * 10^6 requests come: 10^12 of 6 or 48 bytes
    (tmp_path / "own.toml").write_text(HEAD + ARRIVAL.replace("1ms", "1us") + PHASES + READS)
    with_free_bytes(monkeypatch, tmp_path, 1 << 30)
    output = tmp_path / "out"
    asked = (str(tmp_path / "own.toml"), "--duration", "1000000s", "--format", form)
    result = generate(*asked, "-o", str(output))
    assert f"{output}: {needed} are needed, 1 GiB are free on its disk" in str(result.exception)
    assert "a shorter --duration" in getattr(result.exception, "hint", "")
    assert not output.exists()


@pytest.mark.parametrize("duration_ms", [500, 1000, 2500, 3000, 3300, 7200])
def test_the_requests_expected_of_a_time_are_those_that_come(
    tmp_path: Path, duration_ms: int
) -> None:
    # GIVEN phases, and bursts of 4 requests 1 ms from each other with 5 ms before each burst
    head = HEAD.replace("[arrival]", "")
    (tmp_path / "phases.toml").write_text(head + ARRIVAL + PHASES + READS)
    bursts = ARRIVAL + 'burst = { requests = 4, off = "constant", mean = "5ms" }\n'
    (tmp_path / "bursts.toml").write_text(head + bursts + READS)
    for name in ("phases", "bursts"):
        profile = read_profile(tmp_path / f"{name}.toml")
        extent = Extent(duration_ns=duration_ms * 10**6)
        count = sum(len(records) for records in blocks(profile, extent))
        assert extent.expected_requests(profile) == pytest.approx(count, rel=0.12)
        # THEN no more come than were asked for as well
        assert Extent(7, duration_ms * 10**6).expected_requests(profile) == 7


def test_the_room_that_a_plan_needs_is_no_more_than_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("paging", "--requests", "20000", "--format", "plan")
    made(*asked, "-o", str(tmp_path / "plan"))
    # GIVEN a disk with room for just that many bytes
    with_free_bytes(monkeypatch, tmp_path, (tmp_path / "plan").stat().st_size + 4096)
    made(*asked, "-o", str(tmp_path / "again"))


def test_a_disk_that_is_read_only_is_told_by_the_path_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    result = generate("paging", "--requests", "10", "-o", str(tmp_path / "out"))
    assert f"{tmp_path / 'out'}: {tmp_path} cannot be written to" in str(result.exception)
    assert list(tmp_path.iterdir()) == []
