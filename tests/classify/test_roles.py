"""The role of each request, the command and the sample."""

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.classify.traces import (
    FS,
    JOURNAL,
    SWAP,
    classified,
    entry,
    flush,
    read,
    roles_of,
    trace,
    write,
)
from tests.command_line import invoke, refused, succeed
from tests.traces import Row, json_of, rows_of, written
from tracekit.classify import ClassifyOptions, Override, classify
from tracekit.errors import InputError, UsageError
from tracekit.store import TraceFolder, write_json

LAYOUT = [entry(FS), entry(JOURNAL), entry(SWAP)]


def overridden(folder: TraceFolder, *roles: str) -> list[str]:
    classify(folder, ClassifyOptions(overrides=tuple(Override.parse(role) for role in roles)))
    return roles_of(folder)


def test_the_layout_decides_by_address(tmp_path: Path) -> None:
    # GIVEN the first and last sector of each partition, and sectors before, behind and between
    sectors = [0, 2047, 2048, 10239, 10240, 14335, 14336, 18431, 18432]
    folder, result = classified(
        tmp_path, [read(sector, length_bytes=512) for sector in sectors], LAYOUT
    )
    assert roles_of(folder) == [
        *("other", "other", "fs", "fs", "journal", "journal", "swap", "swap", "other")
    ]
    inside = {"fs": 2, "journal": 2, "swap": 2}
    assert result["classification"]["requests"] == inside | {"other": 3, "unknown": 0}
    assert result["classification"]["evidence"] == {"layout": inside, "outside": {"other": 3}}
    assert result["warnings"] == []


def test_only_the_column_role_changes(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", [write(2048, process="cp"), flush(), read(10240)], LAYOUT)
    before = pq.read_table(folder.table("requests"))
    classify(folder, ClassifyOptions())
    after = pq.read_table(folder.table("requests"))
    assert after.schema.equals(before.schema, check_metadata=True)
    assert after.drop_columns("role").to_pylist() == before.drop_columns("role").to_pylist()


@pytest.mark.parametrize(
    ("layout", "role"),
    [
        (LAYOUT, "fs"),
        ([entry(JOURNAL), entry(SWAP)], "journal"),
        ([entry(FS, role="other")], "other"),
        ([entry(SWAP)], "unknown"),
    ],
)
def test_empty_flushes(tmp_path: Path, layout: list[dict[str, object]], role: str) -> None:
    folder, result = classified(tmp_path, [flush(process="jbd2/sda1-8")], layout)
    assert roles_of(folder) == [role]
    kind = "undecided" if role == "unknown" else "empty_flush"
    assert result["classification"]["evidence"] == {kind: {role: 1}}


INNER = entry(FS, name="inner", start_sector=4096, sectors=8, role="journal")


@pytest.mark.parametrize(
    ("rows", "layout", "roles"),
    [
        # any request with a place has its role, also what the source calls a flush
        ([write(10240, is_preflush=True, is_fua=True)], LAYOUT, ["journal"]),
        ([{**write(14336), "operation": "discard"}], LAYOUT, ["swap"]),
        ([{**write(10240), "operation": "flush"}], LAYOUT, ["journal"]),
        # the smaller of nested regions decides
        ([read(4088), read(4096), read(4104)], [INNER, entry(FS)], ["fs", "journal", "fs"]),
    ],
)
def test_places_decide(
    tmp_path: Path, rows: list[Row], layout: list[Row], roles: list[str]
) -> None:
    folder, _ = classified(tmp_path, rows, layout)
    assert roles_of(folder) == roles


def test_a_request_over_an_edge_is_counted_and_reported(tmp_path: Path) -> None:
    folder, result = classified(tmp_path, [read(10232, 2), read(10224, 2)], LAYOUT)
    assert roles_of(folder) == ["fs", "fs"]
    assert result["classification"]["crossing_requests"] == 1
    assert [warning["code"] for warning in result["warnings"]] == ["crossing_requests"]


def test_devices_are_told_apart(tmp_path: Path) -> None:
    # GIVEN the same sector on a device with a layout and on another without
    rows = [read(2048), read(2048, device="sdb")]
    folder, result = classified(tmp_path, rows, [entry(FS), entry(FS, device="sdc")])
    assert roles_of(folder) == ["fs", "unknown"]
    codes = {warning["code"]: warning["message"] for warning in result["warnings"]}
    assert "sdc" in codes["absent_devices"]
    assert codes["unknown_roles"] == "requests without a role: 1"


@pytest.mark.parametrize(
    ("option", "roles"),
    [
        ("sda1=journal", ["journal", "journal", "swap"]),
        ("8,3=other", ["fs", "journal", "other"]),
        ("sda=fs", ["fs", "fs", "fs"]),
        ("sda:10240+8=swap", ["fs", "swap", "swap"]),
        ("10240+8=unknown", ["fs", "unknown", "swap"]),
    ],
)
def test_options_override(tmp_path: Path, option: str, roles: list[str]) -> None:
    folder = trace(tmp_path / "t", [read(2048), read(10240), read(14336)], LAYOUT)
    assert overridden(folder, option) == roles


def test_classifying_again_forgets_options(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", [read(2048), read(10240)], LAYOUT)
    options = ("sda1=swap", "sda1=unknown", "2048+8=other")
    assert overridden(folder, *options) == ["other", "journal"]
    # WHEN it is classified again without them
    classify(TraceFolder(folder.path), ClassifyOptions())
    assert roles_of(folder) == ["fs", "journal"]
    assert TraceFolder(folder.path).content["layout"] == LAYOUT


def test_classifying_twice_changes_no_byte(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", [read(2048), write(5000, process="jbd2/x-8"), flush()])
    names = ["requests.parquet", "blocks.parquet", "working_set.parquet", "trace.json"]
    classify(folder, ClassifyOptions())
    once = [(folder.path / name).read_bytes() for name in names]
    classify(TraceFolder(folder.path), ClassifyOptions())
    assert [(folder.path / name).read_bytes() for name in names] == once


@pytest.mark.parametrize("text", ["sda1", "=fs", "sda1=", "sda1=disk"])
def test_options_of_another_form_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not NAME=ROLE"):
        Override.parse(text)


@pytest.mark.parametrize("text", ["sda9=fs", "sdz:1+1=fs", "2048+0=fs", f"1+{10**30}=fs"])
def test_options_for_nothing_are_rejected(tmp_path: Path, text: str) -> None:
    folder = trace(tmp_path / "t", [read(2048)], LAYOUT)
    with pytest.raises(UsageError, match=r"there is no|is no device|no device reaches"):
        overridden(folder, text)
    assert not folder.has("blocks")


SFDISK_DUMP = (
    "label: gpt\ndevice: /dev/vdb\nsector-size: 512\n\n"
    "/dev/vdb1 : start= 2048, size= 8192, type=0657FD6D-A4AB-43C4-84E5-0933C84B4F4F\n"
)


@pytest.mark.parametrize("is_dump", [False, True])
def test_a_layout_file_replaces_the_layout(tmp_path: Path, is_dump: bool) -> None:
    # GIVEN a layout, or a dump, that calls the trace's only device by another name
    file = tmp_path / "layout"
    devices = [{"device": "vdb", "major": 8, "minor": 0}]
    partitions = [entry(FS, device="vdb", role="swap")]
    write_json(file, {"layout_version": 1, "devices": devices, "partitions": partitions})
    if is_dump:
        file.write_text(SFDISK_DUMP)
    folder, result = classified(tmp_path, [read(2048), read(10240)], LAYOUT, layout_file=file)
    assert roles_of(folder) == ["swap", "other"]
    assert [found["device"] for found in result["layout"]] == ["sda"]


def test_a_layout_that_was_given_is_shown_and_forgotten(tmp_path: Path) -> None:
    # GIVEN a trace classified twice with another layout
    file, rows = tmp_path / "other.json", [read(2048), read(10240)]
    partitions = [entry(FS, role="swap")]
    write_json(file, {"layout_version": 1, "devices": [], "partitions": partitions})
    folder, result = classified(tmp_path, rows, LAYOUT, layout_file=file)
    classify(folder, ClassifyOptions(layout_file=file))
    # THEN what it rests on is kept, shown and warned of
    assert folder.content["classification"]["layout_from"] == str(file)
    assert folder.content["own_layout"] == LAYOUT
    assert [warning["code"] for warning in result["warnings"]] == ["given_layout"]
    shown = invoke("classify", folder.path, "--layout", file)
    assert shown.stdout.startswith(f"layout of {file}, given by --layout\n")
    # WHEN it is classified without, THEN the trace's own layout is back, and stays so
    for _ in range(2):
        folder = TraceFolder(folder.path)
        assert classify(folder, ClassifyOptions())["warnings"] == []
        assert roles_of(folder) == ["fs", "journal"]
        assert folder.content["layout"] == LAYOUT
        assert "layout_from" not in folder.content["classification"]


def test_roles_given_before_and_no_more_are_named(tmp_path: Path) -> None:
    folder, _ = classified(tmp_path, [read(2048), read(10240)], LAYOUT)
    names = ("--role", "sda1=swap", "--role", "sda2=fs")
    invoke("classify", folder.path, *names)
    assert "given before" not in invoke("classify", folder.path, *names).stderr
    said = invoke("classify", folder.path, *names[2:]).stderr
    assert "do not count: sda1=swap; give them again" in " ".join(said.split())


def test_what_a_given_layout_leaves_open_is_told(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    doubts = ["where the log of sda1 (xfs) lies is not known: add `xfs_info /dev/sda1`"]
    content = {"layout_version": 1, "devices": [], "partitions": [entry(FS)], "doubts": doubts}
    write_json(file, content)
    _, result = classified(tmp_path, [read(2048)], LAYOUT, layout_file=file)
    told = {one["code"]: one["message"] for one in result["warnings"]}
    assert told["open_layout"] == f"the layout leaves open: {doubts[0]}"


def test_a_bad_layout_file_is_rejected(tmp_path: Path) -> None:
    file = written(tmp_path / "layout.json", "{}")
    folder = trace(tmp_path / "t", [read(2048)], LAYOUT)
    with pytest.raises(InputError, match=r"layout\.json: is no layout\.json") as caught:
        classify(folder, ClassifyOptions(layout_file=file))
    assert f"tracekit layout --text {file} -o layout.json" in (caught.value.hint or "")
    written(file, '{"layout_version": 2}')
    with pytest.raises(InputError, match="layout_version is 2, this tracekit reads 1"):
        classify(folder, ClassifyOptions(layout_file=file))


def test_a_folder_without_requests_is_rejected(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", [])
    folder.table("requests").unlink()
    with pytest.raises(InputError, match="no table 'requests'"):
        classify(folder, ClassifyOptions())


def test_a_damaged_table_is_rejected_and_stays(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", [read(2048)])
    file = folder.table("requests")
    file.write_bytes(file.read_bytes()[:-9])
    damaged = file.read_bytes()
    with pytest.raises(InputError, match="not a readable Parquet file"):
        classify(folder, ClassifyOptions())
    assert file.read_bytes() == damaged
    assert sorted(path.name for path in folder.path.iterdir()) == ["requests.parquet", "trace.json"]


def rows_of_study() -> list[dict[str, object]]:
    return [*[write(2048) for _ in range(9)], *[write(10240 + 8 * n) for n in range(6)]]


def test_prints_regions_and_roles(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", rows_of_study(), [entry(FS), entry(JOURNAL)])
    result = invoke("classify", folder.path)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "sda1             fs       sectors 2,048 to 10,239              layout",
        "sda2             journal  sectors 10,240 to 14,335             layout",
        "",
        "role         requests       blocks     accesses   hot blocks  their share"
        "         warm         cold",
        "fs                  9            1            9            1        60.0%"
        "            0            0",
        "journal             6            6            6            0         0.0%"
        "            0            6",
        "",
        "a block is hot after 9 or more accesses; blocks are 4 KiB, shares are of all accesses",
    ]


def test_a_hostile_layout_does_not_reach_the_terminal(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", rows_of_study(), [{**entry(FS), "name": "\x1b[2Jsda1"}])
    result = invoke("classify", folder.path)
    assert result.stdout.splitlines()[0].startswith("\\x1b[2Jsda1")


def test_json_is_what_the_trace_keeps(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", rows_of_study(), [entry(FS), entry(JOURNAL)])
    result = invoke("classify", folder.path, "--json", "--hot", "0.9")
    kept = json_of(folder.path / "trace.json")
    printed = json.loads(result.stdout)
    assert printed == {key: kept[key] for key in printed}
    assert printed["hotness"]["hot_traffic_ratio"] == 0.9


def test_warnings_go_to_stderr(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", [read(2048)])
    result = invoke("classify", folder.path)
    assert "warning: requests without a role: 1; set roles" in result.stderr
    assert "warning" not in result.stdout


def test_a_window_of_no_time_is_rejected(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", [read(2048)])
    for window in ("0", "nan", "-1"):
        refused(invoke("classify", folder.path, "--window", window))


SAMPLE = Path(__file__).resolve().parents[2] / "sample-traces" / "oltp"


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "trace"
    succeed("parse", SAMPLE, "-o", folder)
    return folder


def test_the_trace_itself_tells_what_its_layout_says(parsed: Path) -> None:
    # GIVEN the roles by the partition table, mount and journal UUID that the capture saved
    classify(TraceFolder(parsed), ClassifyOptions())
    by_layout = roles_of(TraceFolder(parsed))
    assert set(by_layout) == {"fs", "journal"}
    info = json_of(parsed / "trace.json")
    write_json(parsed / "trace.json", {**info, "layout": []})
    result = classify(TraceFolder(parsed), ClassifyOptions())
    # THEN remap records and jbd2 give each request the same role
    assert Counter(zip(by_layout, roles_of(TraceFolder(parsed)), strict=True)) == {
        ("fs", "fs"): by_layout.count("fs"),
        ("journal", "journal"): by_layout.count("journal"),
    }
    assert [warning["code"] for warning in result["warnings"]].count("guessed_roles") == 1


def test_block_touches_are_those_of_the_requests(parsed: Path) -> None:
    # GIVEN the blocks that each read and write covers
    classify(TraceFolder(parsed), ClassifyOptions(budget_bytes=1 << 18))
    touched: Counter[int] = Counter()
    for row in rows_of(TraceFolder(parsed).table("requests")):
        if row["operation"] in ("read", "write"):
            end = row["sector"] + row["length_bytes"] // 512
            touched.update(range(row["sector"] // 8, (end - 1) // 8 + 1))
    blocks = rows_of(TraceFolder(parsed).table("blocks"))
    assert {row["block"]: row["reads"] + row["writes"] for row in blocks} == dict(touched)
    assert TraceFolder(parsed).content["hotness"]["scans"] > 1
    assert abs(sum(row["traffic_ratio"] for row in blocks) - 1) < 1e-9
