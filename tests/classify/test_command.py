import json
from pathlib import Path

from tests.classify.traces import FS, JOURNAL, entry, read, trace, write
from tests.command_line import invoke
from tracekit.errors import UsageError


def rows_of_study() -> list[dict[str, object]]:
    return [*[write(2048) for _ in range(9)], *[write(10240 + 8 * n) for n in range(6)]]


def test_prints_regions_and_roles(tmp_path: Path) -> None:
    # GIVEN one block that is written nine times, and a log
    folder = trace(tmp_path / "t", rows_of_study(), [entry(FS), entry(JOURNAL)])
    # WHEN
    result = invoke("classify", folder.path)
    # THEN
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "sda1             fs       sectors 2,048 to 10,239              layout",
        "sda2             journal  sectors 10,240 to 14,335             layout",
        "",
        "role         requests       blocks      touches   hot blocks  their share"
        "         warm         cold",
        "fs                  9            1            9            1        60.0%"
        "            0            0",
        "journal             6            6            6            0         0.0%"
        "            0            6",
        "",
        "a block is hot from 9 touches on; blocks are 4 KiB, shares are of all touches",
    ]


def test_a_hostile_layout_does_not_reach_the_terminal(tmp_path: Path) -> None:
    # GIVEN a partition whose name would clear the screen
    folder = trace(tmp_path / "t", rows_of_study(), [{**entry(FS), "name": "\x1b[2Jsda1"}])
    # WHEN, THEN it is written, not done
    result = invoke("classify", folder.path)
    assert result.stdout.splitlines()[0].startswith("\\x1b[2Jsda1")


def test_json_is_what_the_trace_keeps(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", rows_of_study(), [entry(FS), entry(JOURNAL)])
    result = invoke("classify", folder.path, "--json", "--hot", "0.9")
    kept = json.loads((folder.path / "trace.json").read_text())
    printed = json.loads(result.stdout)
    assert printed == {key: kept[key] for key in printed}
    assert printed["hotness"]["hot_traffic_ratio"] == 0.9


def test_warnings_go_to_stderr(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", [read(2048)])
    result = invoke("classify", folder.path)
    assert "warning: requests without a role: 1; set roles" in result.stderr
    assert "warning" not in result.stdout


def test_a_window_of_no_time_is_refused(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", [read(2048)])
    for window in ("0", "nan", "-1"):
        result = invoke("classify", folder.path, "--window", window)
        assert isinstance(result.exception, UsageError)
