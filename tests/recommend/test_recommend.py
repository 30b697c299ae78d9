"""`tracekit recommend`: the answer and its wording on traces that can be worked out by hand."""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec import to_builtins

from tests.command_line import invoke
from tests.recommend.traces import BLOCK, DEVICES, US, curve, oltp, recommended
from tests.simulate.placement_traces import Request, write_trace
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.store import TraceFolder
from tracekit.tables import PLACEMENT


def test_the_hot_part_of_the_file_system_and_then_the_journal(tmp_path: Path) -> None:
    # GIVEN 3,800 writes of 5,000 us, each of which NVM makes 4,985 us shorter, and 100 blocks of it
    base_us, saved_us = 3800 * 5000, 4985
    # WHEN a placement is sought
    result = recommended(tmp_path, oltp(), capacities_bytes=(100 * BLOCK,))
    # THEN a split saves 10 * 100 + 90 * 8 requests, the file system alone 10 * 100 + 90
    assert result["answer"] == {
        "capacity_bytes": 100 * BLOCK,
        "placement": "combined",
        "fs_bytes": 10 * BLOCK,
        "journal_bytes": 90 * BLOCK,
        "swap_bytes": 0,
        "elapsed_ns": (base_us - 1720 * saved_us) * US,
        "base_elapsed_ns": base_us * US,
        "gain_ratio": pytest.approx(1720 * saved_us / base_us),
        "runner_up": "fs",
        "runner_up_elapsed_ns": (base_us - 1090 * saved_us) * US,
        "margin_ratio": pytest.approx(630 * saved_us / (base_us - 1090 * saved_us)),
        "optimal_elapsed_ns": (base_us - 1720 * saved_us) * US,
    }
    # AND the hot part is one role: a split is the answer as soon as it saves 1 % of the time, at
    # 6 journal blocks, whose 7 more requests each are 42 * 4,985 us of 19 s
    assert result["flips"] == [
        {"capacity_bytes": BLOCK, "from": "base", "to": "fs"},
        {"capacity_bytes": (10 + 6) * BLOCK, "from": "fs", "to": "combined"},
    ]


def test_the_single_role_changes_as_in_the_study(tmp_path: Path) -> None:
    # GIVEN the same trace, WHEN only one role may be placed
    result = recommended(tmp_path, oltp())
    # THEN the file system is best while 1,000 + (c - 10) exceeds 8 c, which ends at 142 blocks
    assert result["single_role_flips"] == [
        {"capacity_bytes": BLOCK, "from": "base", "to": "fs"},
        {"capacity_bytes": 142 * BLOCK, "from": "fs", "to": "journal"},
    ]


def test_of_equal_roles_the_smaller_is_named(tmp_path: Path) -> None:
    # GIVEN two roles that cost the same, of which the journal is half as large
    fs = [Request("fs", 16 * block) for block in range(4)]
    journal = [Request("journal", 800 + 16 * block) for block in (0, 1, 0, 1)]
    result = recommended(tmp_path, fs + journal)
    # WHEN both fit whole, THEN the journal needs less NVM for the same time
    assert result["single_role_flips"] == [
        {"capacity_bytes": BLOCK, "from": "base", "to": "journal"},
    ]
    assert curve(tmp_path, "fs")[4] == curve(tmp_path, "journal")[4]
    assert result["answers"][1]["placement"] == "journal"


def test_the_answer_is_said_in_three_lines(tmp_path: Path) -> None:
    # GIVEN the same trace and 100 blocks of NVM
    result = recommended(tmp_path, oltp(), capacities_bytes=(100 * BLOCK,))
    # THEN the headline says what to place, by what margin, and where that changes; the knee is
    # where 90 % of the 3,800 requests are on NVM: all but 380 cold blocks of the file system
    assert result["headline"] == [
        "With 400 KiB of nvm, place 40 KiB of the file system (2% of it) and 360 KiB of the journal"
        " (30% of it) there: elapsed I/O time falls by 45.1%, from 19 s to 10.4 s (the hottest"
        " blocks of all roles: 10.4 s).",
        "The runner-up, the file system alone, takes 13.6 s: the answer is 23.1% ahead; the other"
        " way to cover a role that does not fit gives the same answer with 45.1%.",
        "From 4 KiB on the file system alone, from 64 KiB on a split between roles; 1.29 MiB"
        " already give 90% of the largest gain, which is 99.7% at 2.77 MiB.",
        "With one part of a device taking 0.5 or 2 times as long, the gain is 45.0% (write setup of"
        " the base device x 0.5) to 45.2% (write setup of the base device x 2); in the 8 windows of"
        " the trace, 15.7% (window 3) to 99.7% (window 1, from the start).",
    ]


def test_the_table_holds_every_placement(tmp_path: Path) -> None:
    # GIVEN a trace with all three roles
    requests = [Request("fs", 0), Request("journal", 800), Request("swap", 1600)]
    recommended(tmp_path, requests)
    # WHEN its table is read, THEN it has the contract's columns and each curve is complete
    table = pq.read_table(tmp_path / "simulations" / "placement.parquet")
    assert table.schema.equals(PLACEMENT)
    names = ("combined", "fs", "fs+journal", "fs+swap", "journal", "journal+swap")
    counts = table.group_by(["placement", "coverage"]).aggregate([("elapsed_ns", "count")])
    assert sorted(tuple(row.values()) for row in counts.to_pylist()) == [
        ("base", "none", 4),
        *[(name, how, 4) for name in names for how in ("hottest", "start")],
        ("optimal", "hottest", 4),
        ("swap", "hottest", 4),
        ("swap", "start", 4),
    ]
    # AND the shares of the split fit the capacity
    for row in table.to_pylist():
        assert row["fs_bytes"] + row["journal_bytes"] + row["swap_bytes"] <= row["capacity_bytes"]


def test_no_curve_beats_the_split_of_its_own_roles(tmp_path: Path) -> None:
    recommended(tmp_path, oltp()[::3])
    for coverage in ("hottest", "start"):
        combined = curve(tmp_path, "combined", coverage)
        for role in ("fs", "journal"):
            alone = curve(tmp_path, role, coverage)
            assert all(combined[capacity] <= alone[capacity] for capacity in combined)


def test_nvm_that_is_slower_is_left_empty(tmp_path: Path) -> None:
    # GIVEN an NVM slower than the base device, WHEN a placement is sought
    result = recommended(tmp_path, oltp(), base="nvm", nvm="disk")
    # THEN the answer is to leave it, with no gain
    assert result["answer"]["placement"] == "base"
    assert result["answer"]["gain_ratio"] == 0
    assert result["headline"][0].endswith(
        "leave everything on the base device: no placement takes less than its 57 ms."
    )
    assert result["headline"][2] == "No capacity of it pays."


def test_an_empty_trace_has_nothing_to_place(tmp_path: Path) -> None:
    result = recommended(tmp_path, [])
    assert result["headline"][0] == (
        "The trace has no read, write or flush: there is nothing to place."
    )
    assert (result["answer"]["placement"], result["answer"]["gain_ratio"]) == ("base", 0.0)
    assert result["roles"] == {}
    assert curve(tmp_path, "optimal") == {0: 0}


@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_single_request(operation: str, tmp_path: Path) -> None:
    # GIVEN one request, THEN its block is what to place, whatever its kind
    result = recommended(tmp_path, [Request("swap", 0, operation=operation)])
    assert result["answer"]["placement"] == "swap"
    assert result["headline"][0].startswith("With 4 KiB of nvm, place the whole swap (4 KiB) there")
    largest = {"read": "99.6%", "write": "99.7%"}[operation]
    assert result["headline"][2].endswith(f"; the largest gain, {largest}, needs 4 KiB.")
    assert "no read or write touches: file system, journal; it is not placed" in " ".join(
        result["assumptions"]
    )


def test_capacities_of_nothing_and_above_everything(tmp_path: Path) -> None:
    # GIVEN capacities of zero, below one block and far above the footprint
    result = recommended(
        tmp_path, [Request("fs", 0), Request("fs", 80)], capacities_bytes=(0, 4095, 1 << 40)
    )
    # THEN nothing is gained with none, and no more than everything with all
    assert result["answer"]["placement"] == "base"
    last = result["answers"][-1]
    assert (last["capacity_bytes"], last["fs_bytes"]) == (1 << 40, 2 * BLOCK)
    assert last["elapsed_ns"] == 30 * US


def test_the_rest_of_a_cyclic_journal_is_named(tmp_path: Path) -> None:
    # GIVEN a journal partition of 1 MiB of which 4 KiB were written
    layout = {"device": "sda", "role": "journal", "start_sector": 0, "sectors": 2048}
    write_trace(tmp_path, [Request("journal", 0)], layout=[layout])
    result = to_builtins(recommend(TraceFolder(tmp_path), RecommendOptions()))
    # THEN the reader is told what a longer run will touch
    assert result["assumptions"][-2].startswith("the journal is cyclic: 4 KiB were written into")
    assert result["assumptions"][-1] == (
        "a longer run goes on to all 1 MiB of the journal's partition, of which this trace wrote"
        " 0.00 rounds"
    )


def test_results_are_finite_and_the_same_each_time(tmp_path: Path) -> None:
    # GIVEN two runs on one trace
    first = recommended(tmp_path, oltp())
    table = (tmp_path / "simulations" / "placement.parquet").read_bytes()
    second = recommended(tmp_path, oltp())
    # THEN both are the same to the byte, and JSON holds no NaN
    assert first == second == json.loads((tmp_path / "recommendation.json").read_text())
    assert table == (tmp_path / "simulations" / "placement.parquet").read_bytes()
    ratios = [answer["gain_ratio"] for answer in first["answers"]]
    assert all(math.isfinite(ratio) and 0 <= ratio < 1 for ratio in ratios)


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"base": "dsik"}, UsageError, "there is no device profile 'dsik'"),
        ({"profiles": Path("none.toml")}, InputError, "none.toml: cannot be read"),
    ],
)
def test_a_failure_leaves_no_result(
    changes: dict[str, Any], kind: type[TracekitError], words: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=words):
        recommended(tmp_path, [Request("fs", 0)], **changes)
    assert not (tmp_path / "recommendation.json").exists()
    assert not (tmp_path / "simulations").exists()


def test_a_trace_that_is_not_classified_is_refused(tmp_path: Path) -> None:
    write_trace(tmp_path, [Request("fs", 0)])
    (tmp_path / "blocks.parquet").unlink()
    with pytest.raises(InputError, match="there is no table 'blocks'") as caught:
        recommend(TraceFolder(tmp_path), RecommendOptions())
    assert caught.value.hint == f"run: tracekit classify {tmp_path}"


def test_the_command_prints_its_lines_or_json(tmp_path: Path) -> None:
    # GIVEN a trace and the command's options
    write_trace(tmp_path, oltp())
    words = ["recommend", str(tmp_path), "--base", "disk", "--nvm", "nvm", "--capacity", "400K,1M"]
    words += ["--profiles", str(DEVICES), "--level", "queued", "--coverage", "start"]
    # WHEN it is run, THEN the headline is printed, and with --json the whole result
    plain = invoke(*words)
    assert plain.exit_code == 0
    assert len(plain.stdout.splitlines()) == 4
    assert plain.stdout.startswith("With 400 KiB of nvm, place ")
    result = json.loads(invoke(*words, "--json").stdout)
    assert result["headline"] == plain.stdout.splitlines()
    assert (result["coverage"], result["other_coverage"]["coverage"]) == ("start", "hottest")
    assert 1 << 20 in [answer["capacity_bytes"] for answer in result["answers"]]


def test_the_command_names_a_bad_size(tmp_path: Path) -> None:
    write_trace(tmp_path, [Request("fs", 0)])
    result = invoke("recommend", tmp_path, "--capacity", "1MiB,lots")
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "--capacity: 'lots' is not a size"


@pytest.mark.parametrize("name", ["requests", "blocks"])
def test_a_damaged_table_is_named(name: str, tmp_path: Path) -> None:
    # GIVEN a table whose end is missing
    file = write_trace(tmp_path, [Request("fs", 0)]) / f"{name}.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    # WHEN a placement is sought, THEN the error names the file
    with pytest.raises(InputError, match=rf"{name}\.parquet is not a readable Parquet file"):
        recommend(TraceFolder(tmp_path), RecommendOptions())


def test_a_table_without_a_column_is_named(tmp_path: Path) -> None:
    file = write_trace(tmp_path, [Request("fs", 0)]) / "blocks.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["reads", "writes"]), file)
    with pytest.raises(InputError, match=r"blocks\.parquet lacks the columns reads, writes"):
        recommend(TraceFolder(tmp_path), RecommendOptions())
