"""`tracekit recommend` on whole traces: answers, models and ranges."""

import itertools
import json
import math
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec import to_builtins

from tests.command_line import invoke, refused, succeed
from tests.recommend.traces import BLOCK, DEVICES, US, curve, oltp, recommended
from tests.simulate.placement_models import (
    Request,
    gain,
    hottest_first,
    model,
    placed_blocks,
    write_trace,
)
from tests.traces import json_of, partition
from tracekit.devices import DevicePair, load_profiles
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.model.changes import changed_devices, variants
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.store import TraceFolder
from tracekit.tables import PLACEMENT
from tracekit.units import format_duration


def test_the_hot_part_of_the_file_system_and_then_the_journal(tmp_path: Path) -> None:
    # GIVEN 3,800 writes of 5,000 us, each of which NVM makes 4,985 us shorter, and 100 blocks of it
    base_us, saved_us = 3800 * 5000, 4985
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
        "most_accessed_elapsed_ns": (base_us - 1720 * saved_us) * US,
    }
    # AND the hot part is one role: a split is the answer as soon as it saves 1 % of the time, at
    # 6 journal blocks, whose 7 more requests each are 42 * 4,985 us of 19 s
    assert result["flips"] == [
        {"capacity_bytes": BLOCK, "from": "base", "to": "fs"},
        {"capacity_bytes": (10 + 6) * BLOCK, "from": "fs", "to": "combined"},
    ]


def test_what_a_short_run_does_not_need_is_not_loaded(tmp_path: Path) -> None:
    # GIVEN libraries that would take most of the time of a short run
    recommended(tmp_path, oltp())
    code = (
        "import sys, tracekit as tk;"
        f"tk.open(sys.argv[1]).recommend(base='disk', nvm='nvm', profiles={str(DEVICES)!r});"
        "slow = {'duckdb', 'pandas', 'scipy', 'numpy.ma', 'numpy.random', 'pyarrow.compute'};"
        "print(*slow & {*sys.modules})"
    )
    # WHEN a recommendation is made THEN none of them was loaded
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "\n"


def test_the_single_role_changes_as_in_the_study(tmp_path: Path) -> None:
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
        {"capacity_bytes": BLOCK, "from": "base", "to": "journal"}
    ]
    assert curve(tmp_path, "fs")[4] == curve(tmp_path, "journal")[4]
    assert result["answers"][1]["placement"] == "journal"


def test_the_answer_is_reported_in_five_lines(tmp_path: Path) -> None:
    result = recommended(tmp_path, oltp(), capacities_bytes=(100 * BLOCK,))
    # THEN the headline says what to place, by what margin, and where that changes; the knee is
    # where 90 % of the 3,800 requests are on NVM: all but 380 cold blocks of the file system
    assert result["headline"] == [
        "With 400 KiB of nvm, place 40 KiB of the file system (2% of it) and 360 KiB of the journal"
        " (30% of it) there: elapsed I/O time falls by 45.1%, from 19 s to 10.4 s (the most"
        " accessed blocks of all roles: 10.4 s).",
        "The runner-up, the file system alone, takes 13.6 s: the answer is 23.1% ahead; filling"
        " each role from its start, it is the same placement with 45.1%.",
        "From 4 KiB the file system alone, from 64 KiB a split between roles; 1.29 MiB"
        " already give 90% of the largest gain, which is 99.7% at 2.77 MiB.",
        "With any one parameter of a device times 0.5 or 2, the gain is 45.0% (write setup of"
        " the base device x 0.5) to 45.2% (write setup of the base device x 2); in the 8 windows of"
        " the trace, 15.7% (window 3) to 99.7% (window 1, from the start).",
        "Block by block, 40 KiB of the file system and 360 KiB of the journal (100 extents, in"
        " simulations/best_placement) on 400 KiB of nvm take 10.4 s, a gain of 45.1%; it is within"
        " 0.1% of the best possible. On other devices and in windows of the trace it takes 39.8%"
        " longer than the best placement there (window 8), at worst.",
    ]


def test_the_table_holds_every_placement(tmp_path: Path) -> None:
    requests = [Request("fs", 0), Request("journal", 800), Request("swap", 1600)]
    recommended(tmp_path, requests)
    table = pq.read_table(tmp_path / "simulations" / "placement.parquet")
    assert table.schema.equals(PLACEMENT)
    names = ("combined", "fs", "fs+journal", "fs+swap", "journal", "journal+swap")
    counts = table.group_by(["placement", "coverage"]).aggregate([("elapsed_ns", "count")])
    assert sorted(tuple(row.values()) for row in counts.to_pylist()) == [
        ("base", "none", 4),
        *[(name, how, 4) for name in names for how in ("hottest", "start")],
        ("most-accessed-first", "hottest", 4),
        ("swap", "hottest", 4),
        ("swap", "start", 4),
    ]
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
    result = recommended(tmp_path, oltp(), base="nvm", nvm="disk")
    assert result["answer"]["placement"] == "base"
    assert result["answer"]["gain_ratio"] == 0
    assert result["headline"][0].endswith("no placement takes less than its 57 ms.")


def test_an_empty_trace_has_nothing_to_place(tmp_path: Path) -> None:
    result = recommended(tmp_path, [])
    assert "nothing to place" in result["headline"][0]
    assert (result["answer"]["placement"], result["answer"]["gain_ratio"]) == ("base", 0.0)
    assert result["roles"] == {}
    assert curve(tmp_path, "most-accessed-first") == {0: 0}


@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_single_request(operation: str, tmp_path: Path) -> None:
    result = recommended(tmp_path, [Request("swap", 0, operation=operation)])
    assert result["answer"]["placement"] == "swap"
    assert result["headline"][0].startswith("With 4 KiB of nvm, place the whole swap (4 KiB) there")
    largest = {"read": "99.6%", "write": "99.7%"}[operation]
    assert result["headline"][2].endswith(f"; the largest gain, {largest}, needs 4 KiB.")
    assert "no read or write touches: file system, journal; it is not placed" in " ".join(
        result["assumptions"]
    )


def test_capacities_of_nothing_and_above_everything(tmp_path: Path) -> None:
    result = recommended(
        tmp_path, [Request("fs", 0), Request("fs", 80)], capacities_bytes=(0, 4095, 1 << 40)
    )
    assert result["answer"]["placement"] == "base"
    last = result["answers"][-1]
    assert (last["capacity_bytes"], last["fs_bytes"]) == (1 << 40, 2 * BLOCK)
    assert last["elapsed_ns"] == 30 * US


def test_the_rest_of_a_cyclic_journal_is_named(tmp_path: Path) -> None:
    # GIVEN a journal partition of 1 MiB of which 4 KiB were written
    layout = {"device": "sda", "role": "journal", "start_sector": 0, "sectors": 2048}
    write_trace(tmp_path, [Request("journal", 0)], layout=[layout])
    result = to_builtins(recommend(TraceFolder(tmp_path), RecommendOptions()))
    cyclic, longer = result["assumptions"][-2:]
    assert cyclic.startswith("the journal is cyclic: 4 KiB were written into")
    assert "to all 1 MiB of the journal's partition, of which this trace wrote 0.00" in longer


def test_results_are_finite_and_the_same_each_time(tmp_path: Path) -> None:
    first = recommended(tmp_path, oltp())
    table = (tmp_path / "simulations" / "placement.parquet").read_bytes()
    second = recommended(tmp_path, oltp())
    assert first == second
    kept = json_of(tmp_path / "recommendation.json")
    assert json.loads(json.dumps(first)) == {key: kept[key] for key in kept if key != "made_from"}
    assert table == (tmp_path / "simulations" / "placement.parquet").read_bytes()
    ratios = [answer["gain_ratio"] for answer in first["answers"]]
    assert all(math.isfinite(ratio) and 0 <= ratio < 1 for ratio in ratios)


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"base": "dsik"}, UsageError, "there is no device profile 'dsik'"),
        ({"profiles": Path("none.toml")}, InputError, "none.toml: there is no such file"),
    ],
)
def test_a_failure_leaves_no_result(
    changes: dict[str, Any], kind: type[TracekitError], words: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=words):
        recommended(tmp_path, [Request("fs", 0)], **changes)
    assert not (tmp_path / "recommendation.json").exists()
    assert not (tmp_path / "simulations").exists()


def test_a_trace_that_is_not_classified_is_rejected(tmp_path: Path) -> None:
    write_trace(tmp_path, [Request("fs", 0)])
    (tmp_path / "blocks.parquet").unlink()
    with pytest.raises(InputError, match="there is no table 'blocks'") as caught:
        recommend(TraceFolder(tmp_path), RecommendOptions())
    assert caught.value.hint == f"run: tracekit classify {tmp_path}"


def test_the_command_prints_its_lines_or_json(tmp_path: Path) -> None:
    write_trace(tmp_path, oltp())
    words = ["recommend", str(tmp_path), "--base", "disk", "--nvm", "nvm", "--capacity", "400K,1M"]
    words += ["--profiles", str(DEVICES), "--level", "queued", "--coverage", "start"]
    plain = succeed(*words)
    result = json.loads(invoke(*words, "--json").stdout)
    # THEN each row of the answer stands in the table, and its numbers are those of the answer
    shown = " ".join(plain.stdout.split())
    assert all(" ".join(row["text"].split()) in shown for row in result["rows"])
    rows, answer = {row["what"]: row["text"] for row in result["rows"]}, result["answer"]
    assert rows["place"].endswith("on 400 KiB of nvm")
    assert f"{answer['gain_ratio']:.1%} less" in rows["elapsed I/O time"]
    assert format_duration(answer["elapsed_ns"]) in rows["elapsed I/O time"]
    assert all(len(line) <= 100 for line in plain.stdout.splitlines())
    assert len(result["headline"]) == 5
    assert (result["coverage"], result["other_coverage"]["coverage"]) == ("start", "hottest")
    assert 1 << 20 in [answer["capacity_bytes"] for answer in result["answers"]]


def test_the_command_names_a_bad_size(tmp_path: Path) -> None:
    write_trace(tmp_path, [Request("fs", 0)])
    refused(
        invoke("recommend", tmp_path, "--capacity", "1MiB,lots"), "--capacity: 'lots' is not a size"
    )


@pytest.mark.parametrize("name", ["requests", "blocks", "columns"])
def test_a_damaged_table_is_named(name: str, tmp_path: Path) -> None:
    file = (
        write_trace(tmp_path, [Request("fs", 0)]) / f"{name.replace('columns', 'blocks')}.parquet"
    )
    if name == "columns":
        pq.write_table(pq.read_table(file).drop_columns(["reads", "writes"]), file)
        message = r"blocks\.parquet lacks the columns reads, writes"
    else:
        file.write_bytes(file.read_bytes()[:-20])
        message = rf"{name}\.parquet is not a readable Parquet file"
    with pytest.raises(InputError, match=message):
        recommend(TraceFolder(tmp_path), RecommendOptions())


def rows(folder: Path, placement: str, coverage: str) -> list[dict[str, Any]]:
    """Return a series of the table, by rising capacity."""
    table = pq.read_table(folder / "simulations" / "placement.parquet")
    assert table.schema.equals(PLACEMENT)
    return [
        row
        for row in table.to_pylist()
        if (row["placement"], row["coverage"]) == (placement, coverage)
    ]


def test_queueing_compares_mean_response_times(tmp_path: Path) -> None:
    # GIVEN a disk of 5,000 us a write, NVM of 15 us, and three writes at 0, 1,000 and 2,000 us, of
    # which the second is of the journal
    requests = [
        Request("fs", 0, queue_ns=0),
        Request("journal", 800, queue_ns=1000 * US),
        Request("fs", 80, queue_ns=2000 * US),
    ]
    result = recommended(tmp_path, requests, queueing="open", capacities_bytes=(BLOCK,))
    # THEN on the disk alone they are done at 5, 10 and 15 ms: 5, 9 and 13 ms after they came
    (base, *_) = rows(tmp_path, "base", "none")
    assert base["elapsed_ns"] == 15000 * US
    assert base["response_avg_ns"] == 9000 * US
    assert base["makespan_ns"] == 15000 * US
    # AND with the journal on NVM at 5, 1.015 and 10 ms: 5, 0.015 and 8 ms after they came
    journal = rows(tmp_path, "journal", "hottest")[1]
    assert journal["elapsed_ns"] == 10015 * US
    assert journal["response_avg_ns"] == pytest.approx(13015 / 3 * US, abs=1)
    assert journal["makespan_ns"] == 10000 * US
    # AND the answer and its words are of the mean; the file system's first write frees the disk at
    # once: 0.015, 5 and 9 ms, which is worse
    assert result["answer"]["placement"] == "journal"
    assert result["answer"]["base_elapsed_ns"] == 9000 * US
    assert result["queueing"] == "open"
    assert result["times"] == {
        name: {key: row[key] for key in ("elapsed_ns", "response_avg_ns", "makespan_ns")}
        for name, row in (("base", base), ("answer", journal))
    }
    assert "mean response time falls by 51.8%" in result["headline"][0]
    assert any(
        text.startswith("disk alone cannot keep up: the last request comes after 2 ms and is done")
        for text in result["assumptions"]
    )


def test_without_queueing_nothing_is_reported_of_responses(tmp_path: Path) -> None:
    result = recommended(tmp_path, [Request("fs", 0)])
    assert result["queueing"] == "serial"
    assert {one["response_avg_ns"] for one in result["times"].values()} == {None}
    assert {one["makespan_ns"] for one in result["times"].values()} == {None}
    (base, *_) = rows(tmp_path, "base", "none")
    assert (base["response_avg_ns"], base["makespan_ns"]) == (None, None)


def test_a_split_of_roles_is_simulated_too(tmp_path: Path) -> None:
    result = recommended(tmp_path, oltp()[::10], queueing="open")
    for how in ("hottest", "start"):
        for placement in ("fs", "journal", "combined"):
            for row in rows(tmp_path, placement, how):
                assert row["makespan_ns"] >= row["response_avg_ns"] > 0
    assert result["best"]["elapsed_ns"] < result["answer"]["base_elapsed_ns"]


@pytest.mark.parametrize("queueing", ["serial", "open"])
@pytest.mark.parametrize("requests", [[], [Request("fs", 0, 0, "flush")], [Request("other", 0)]])
def test_nearly_nothing_has_an_answer(
    requests: list[Request], queueing: str, tmp_path: Path
) -> None:
    result = recommended(tmp_path, requests, base="hdd-7200-seek", queueing=queueing)
    assert result["answer"]["placement"] == "base"
    assert result["answer"]["gain_ratio"] == 0


def test_the_command_takes_a_disk_with_a_head_and_queues(tmp_path: Path) -> None:
    folder = write_trace(tmp_path / "trace", oltp()[::20], layout=[])
    options = ["--base", "hdd-7200-seek", "--nvm", "nvm", "--profiles", str(DEVICES)]
    done = succeed("recommend", folder, *options, "--queueing", "open", "--json")
    result = json.loads(done.stdout)
    assert result["profiles"][0]["rpm"] == 7200
    assert any("hdd-7200-seek seeks by distance" in text for text in result["assumptions"])


def test_a_disk_smaller_than_the_trace_is_reported(tmp_path: Path) -> None:
    result = recommended(tmp_path, [Request("fs", 1_953_125_000)], base="hdd-7200-seek")
    assert "requests beyond the disk's capacity, whose seeks count as full strokes: 1" in " ".join(
        result["assumptions"]
    )


def test_the_rounds_of_the_journal(tmp_path: Path) -> None:
    # GIVEN a journal of 8 blocks, of which 4 are written three times and read once
    blocks = [*range(4), *range(4), *range(4)]
    writes = [Request("journal", 8 * block) for block in blocks]
    reads = [Request("journal", 8 * block, operation="read") for block in range(4)]
    layout = [{"device": "sda", "role": "journal", "start_sector": 0, "sectors": 64}]
    result = recommended(tmp_path, writes + reads, info={"layout": layout})
    # THEN it went three times round what it touched, and one and a half times round itself
    assert result["journal"] == {
        "touched_bytes": 4 * BLOCK,
        "written_bytes": 12 * BLOCK,
        "region_bytes": 8 * BLOCK,
        "touched_cycles": 3.0,
        "region_cycles": 1.5,
    }
    assert any("3.0 times round" in text for text in result["assumptions"])
    # AND once all of it is on NVM, every round is written there
    assert curve(tmp_path, "journal")[4] == 12 * 15 + 4 * 12


def test_no_journal_goes_no_round(tmp_path: Path) -> None:
    result = recommended(tmp_path, [Request("fs", 0)])
    nothing = {"touched_bytes": 0, "written_bytes": 0, "touched_cycles": 0.0}
    assert result["journal"] == nothing | {"region_bytes": None, "region_cycles": None}
    assert not any("cyclic" in text for text in result["assumptions"])


def test_flash_that_writes_slower_than_it_reads_prefers_what_is_read(tmp_path: Path) -> None:
    # GIVEN a PCM device of 6.7 us a read and 128.3 us a write before flash of 108.0 and 37.1
    requests = [Request("fs", 16 * block, operation="read") for block in range(50)]
    requests += [Request("journal", 16_000 + 16 * block) for block in range(50)]
    result = recommended(
        tmp_path, requests, base="ssd-emlc", nvm="ssd-pcm", capacities_bytes=(100 * BLOCK,)
    )
    assert result["answer"]["placement"] == "fs"
    saved_ns = result["answer"]["base_elapsed_ns"] - result["answer"]["elapsed_ns"]
    assert saved_ns == pytest.approx(50 * (108_000 - 6_700), abs=100)
    assert curve(tmp_path, "journal")[50] > curve(tmp_path, "journal")[0]


MS = 1_000_000


def small() -> list[Request]:
    """Return a hot and a cold part of a file system, and a journal: 50 blocks in all."""
    hot = [Request("fs", 16 * block) for _ in range(50) for block in range(5)]
    cold = [Request("fs", 16 * block) for block in range(5, 30)]
    return hot + cold + [Request("journal", 1 << 20 | 16 * n) for _ in range(9) for n in range(20)]


def timed() -> list[Request]:
    """Return the same with flushes, FUA and a read now and then, one every millisecond."""
    return [
        replace(
            request,
            operation="read" if number % 7 == 3 else "write",
            is_fua=number % 11 == 0 and number % 7 != 3,
            is_preflush=number % 5 == 0,
            queue_ns=number * MS,
        )
        for number, request in enumerate(small())
    ]


def test_every_set_of_roles_has_its_best_split(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    requests = [
        Request(role, 800 * n + 8 * int(random.zipf(1.5) % 9), 8, queue_ns=0)
        for _ in range(60)
        for n, role in enumerate(("fs", "journal", "swap"))
    ]
    recommended(tmp_path, requests, base="plain")
    alone = {role: curve(tmp_path, role) for role in ("fs", "journal", "swap")}
    base = curve(tmp_path, "base", "none")[0]
    for first, second in itertools.combinations(alone, 2):
        for capacity, found in curve(tmp_path, f"{first}+{second}").items():
            best = min(
                alone[first][one] + alone[second][other] - base
                for one, other in itertools.product(alone[first], alone[second])
                if one + other <= capacity
            )
            assert found == pytest.approx(best, abs=3)


@pytest.mark.parametrize("queueing", ["serial", "open"])
@pytest.mark.parametrize("base", ["disk", "hdd-7200-seek", "ssd-emlc"])
def test_the_range_is_over_parts_and_windows(base: str, queueing: str, tmp_path: Path) -> None:
    # GIVEN a base device of constant cost, a disk with a head, or flash
    requests = timed()
    info = {"clock": {"duration_ns": len(requests) * MS, "wall_ns": None}}
    result = recommended(tmp_path, requests, info=info, base=base, queueing=queueing)
    pair = DevicePair(load_profiles(DEVICES)[base], load_profiles(DEVICES)["nvm"])
    blocks, found = placed_blocks(requests, result["answer"]), result["gain_range"]
    # WHEN each part of each device takes half and twice as long, one at a time
    gains, charged = {}, partial(gain, queueing=queueing, trace=requests)
    for one in variants(pair, (0.5, 2.0)):
        key = (one.device, one.parameter, one.factor)
        gains[key] = charged(requests, blocks, changed_devices(pair, one))
    # AND each eighth of the requests is a trace of its own
    size = -(-len(requests) // 8)
    parts = [charged(requests[n : n + size], blocks, pair) for n in range(0, len(requests), size)]
    assert found["parameter"]["tried"] == len(gains)
    assert found["window"]["tried"] == len(parts) == 8
    for end, choose in (("low", min), ("high", max)):
        told = found["parameter"][end]
        assert told["gain_ratio"] == pytest.approx(choose(gains.values()), abs=1e-6)
        named = gains[told["device"], told["parameter"], told["factor"]]
        assert named == pytest.approx(told["gain_ratio"], abs=1e-6)
        told = found["window"][end]
        assert told["gain_ratio"] == pytest.approx(choose(parts), abs=1e-6)
        assert parts[told["window"] - 1] == pytest.approx(told["gain_ratio"], abs=1e-6)
        assert told["start_ns"] == (told["window"] - 1) * size * MS
        whole = choose([*gains.values(), *parts])
        assert found[f"{end}_ratio"] == pytest.approx(whole, abs=1e-6)
    assert found["cut"] == {"length_ns": None, "requests": size}
    assert result["headline"][3].startswith("With any one parameter of a device times 0.5 or 2")


def test_a_long_trace_is_cut_by_the_hour(tmp_path: Path) -> None:
    # GIVEN half the requests in the first of four hours, and none in the third
    hour_ns = 3600 * 10**9
    hours = [0] * 200 + [1] * 100 + [3] * 100
    requests = [
        replace(request, queue_ns=hour * hour_ns + number)
        for number, (hour, request) in enumerate(zip(hours, timed(), strict=False))
    ]
    info = {"clock": {"duration_ns": 4 * hour_ns, "wall_ns": None}}
    found = recommended(tmp_path, requests, info=info)["gain_range"]
    assert found["cut"] == {"length_ns": hour_ns, "requests": None}
    assert found["window"]["tried"] == 3
    assert {found["window"][end]["window"] for end in ("low", "high")} <= {1, 2, 4}


@pytest.mark.parametrize("queueing", ["serial", "open"])
@pytest.mark.parametrize("count", [0, 1])
def test_next_to_nothing_has_a_defined_range(count: int, queueing: str, tmp_path: Path) -> None:
    result = recommended(tmp_path, timed()[:count], queueing=queueing)
    found = result["gain_range"]
    if count == 0:
        assert found is None
    else:
        assert 0 < found["low_ratio"] <= result["answer"]["gain_ratio"] <= found["high_ratio"] < 1
        assert found["window"]["tried"] == 1
        assert "in the only window of the trace the same" in result["headline"][3]
    json.dumps(result, allow_nan=False)


def test_a_trace_without_times_is_cut_by_count(tmp_path: Path) -> None:
    requests = [replace(request, queue_ns=None, issue_ns=None) for request in timed()]
    found = recommended(tmp_path, requests)["gain_range"]
    assert found["window"]["tried"] == 8
    assert found["window"]["low"]["start_ns"] is None
    assert pq.read_metadata(tmp_path / "requests.parquet").num_rows == len(requests)


def test_roles_that_are_guesses_are_said_in_the_first_lines(tmp_path: Path) -> None:
    # GIVEN roles of which some are guesses, and a layout that was given and is contradicted
    layout = [
        partition("sda", 1, "fs", range(80000)) | {"confidence": "certain"},
        partition("sda", 2, "journal", range(80000, 90000)) | {"confidence": "medium"},
    ]
    warnings = [
        {"code": "contradicted_roles", "message": "the requests are against the layout: sda1 ..."},
        {"code": "guessed_roles", "message": "said above"},
    ]
    result = recommended(tmp_path, oltp(), info={"layout": layout, "warnings": warnings})
    assert result["headline"][1:3] == [
        "Roles are guessed from the requests, with a confidence: sda2 (journal, medium); a layout,"
        " or classify --role, says more.",
        "The requests are against the layout: sda1 ....",
    ]
    plain = recommended(tmp_path / "plain", oltp(), info={"layout": layout[:1]})
    assert not any("guessed" in line for line in plain["headline"])


SURENESS = {"low": True, "medium": True, "high": False, "certain": False}


@pytest.mark.parametrize(("confidence", "is_wider"), SURENESS.items())
def test_a_role_that_may_be_guessed_wrongly_widens_the_range(
    tmp_path: Path, confidence: str, is_wider: bool
) -> None:
    # GIVEN a role of the answer whose places are a guess
    requests = [
        Request(role, 800 * n + 8 * (number % 9), 8, queue_ns=MS * (3 * number + n))
        for number in range(80)
        for n, role in enumerate(("fs", "journal", "swap"))
    ]
    plain = recommended(tmp_path / "plain", requests)
    role = max(("fs", "journal", "swap"), key=lambda one: plain["answer"][f"{one}_bytes"])
    layout = [partition("sda", 1, role, range(80000)) | {"confidence": confidence}]
    result = recommended(tmp_path, requests, info={"layout": layout})
    # WHEN its blocks stay on the base device
    pair = (load_profiles(DEVICES)["disk"], load_profiles(DEVICES)["nvm"])
    held = placed_blocks(requests, result["answer"]) - set(hottest_first(requests, role))
    alone, placed = (model(requests, one, pair, level="queued") for one in (set(), held))
    left = 1 - placed.service / alone.service
    # THEN the range goes down to that, unless the guess is as good as sure
    found, before = result["gain_range"], plain["gain_range"]
    expected = min(before["low_ratio"], left) if is_wider else before["low_ratio"]
    assert found["low_ratio"] == pytest.approx(expected, abs=1e-6)
    assert (found["guess"] is not None) == is_wider
    assert any("may be guessed wrongly" in line for line in result["headline"]) == is_wider
    if is_wider:
        assert found["guess"]["roles"] == [role]
        assert found["guess"]["gain_ratio"] == pytest.approx(left, abs=1e-6)
        assert found["low_ratio"] < before["low_ratio"]
