"""The real capture in sample-traces: what is inferred without its layout against that layout."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.classify.traces import roles_of, table_rows
from tests.command_line import invoke
from tracekit.classify import ClassifyOptions, classify
from tracekit.store import TraceFolder, write_json

SAMPLE = Path(__file__).resolve().parents[2] / "sample-traces" / "oltp"


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "trace"
    result = invoke("parse", SAMPLE, "-o", folder)
    assert result.exit_code == 0, result.output
    return folder


def test_the_trace_itself_tells_what_its_layout_says(parsed: Path) -> None:
    # GIVEN the roles by the partition table, mount and journal UUID that the capture saved
    classify(TraceFolder(parsed), ClassifyOptions())
    by_layout = roles_of(TraceFolder(parsed))
    assert set(by_layout) == {"fs", "journal"}
    # WHEN the layout is gone
    info = json.loads((parsed / "trace.json").read_text())
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
    for row in table_rows(TraceFolder(parsed), "requests"):
        if row["operation"] in ("read", "write"):
            end = row["sector"] + row["length_bytes"] // 512
            touched.update(range(row["sector"] // 8, (end - 1) // 8 + 1))
    # THEN the table of blocks has the same, though it took several passes
    blocks = table_rows(TraceFolder(parsed), "blocks")
    assert {row["block"]: row["reads"] + row["writes"] for row in blocks} == dict(touched)
    assert TraceFolder(parsed).content["hotness"]["scans"] > 1
    assert abs(sum(row["traffic_ratio"] for row in blocks) - 1) < 1e-9
