"""What the user names and somebody else made: folders of captures, profiles, expressions."""

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.command_line import invoke
from tests.report.folder import make_folder


def fails(*words: str | Path) -> str:
    """Run a command that must end with an error of one line; return it."""
    error = invoke(*words).exception
    assert error is not None
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize("name", ["x.blktrace.0", "x.perf.txt", "octf.trace.0", "layout.json"])
def test_a_pipe_in_the_folder_of_a_capture_is_not_waited_for(tmp_path: Path, name: str) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    (capture / "x.blktrace.0").touch()
    (capture / name).unlink(missing_ok=True)
    if name != "layout.json":
        (capture / "x.blktrace.0").unlink(missing_ok=True)
    os.mkfifo(capture / name)
    assert fails("parse", capture, "-o", tmp_path / "out") == f"{capture / name} is a pipe"
    assert not (tmp_path / "out").exists()


def test_a_link_in_the_folder_of_a_capture_is_not_followed(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    (capture / "x.blktrace.0").symlink_to("/etc/passwd")
    place = capture / "x.blktrace.0"
    assert fails("parse", capture, "-o", tmp_path / "out") == f"{place} is a symbolic link"


def test_an_expression_takes_time_in_proportion_to_the_text(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("1.5 R 8 8\n" * 3 + "a" * 20_000 + "b\n")
    # Python's own engine would take longer than the universe for the last line.
    expression = r"(?:(?P<time>[0-9.]+) (?P<op>[RW]) (?P<sector>\d+) (?P<sectors>\d+)|(?:a+)+$)"
    begin = time.process_time()
    invoke("import", lines, "--regex", expression, "-o", tmp_path / "out")
    assert time.process_time() - begin < 20


def test_a_profile_nested_too_deeply_is_an_error(tmp_path: Path) -> None:
    profiles = tmp_path / "deep.toml"
    profiles.write_text("[disk]\nread_us = " + "[" * 5_000 + "]" * 5_000 + "\n")
    trace = make_folder(tmp_path / "trace", stages=("classify",))
    error = fails("recommend", trace.path, "--profiles", profiles)
    assert str(profiles) in error
    assert "nested" in error


@pytest.mark.parametrize("name", ["requests", "REQUESTS", "blocks"])
def test_a_finding_cannot_stand_in_for_a_table(tmp_path: Path, name: str) -> None:
    trace = make_folder(tmp_path / "trace", stages=("classify",))
    (trace.path / "findings").mkdir(exist_ok=True)
    finding = trace.path / f"findings/{name}.parquet"
    shutil.copy(trace.table("working_set"), finding)
    error = fails("sql", trace.path, "select count(*) from requests")
    assert error.startswith(f"{finding}: a finding cannot have the name")
