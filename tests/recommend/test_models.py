"""`tracekit recommend` with queueing and with a disk's head, and what it says of the journal."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke
from tests.recommend.traces import BLOCK, DEVICES, US, curve, oltp, recommended
from tests.simulate.placement_traces import Request, write_trace
from tracekit.tables import PLACEMENT


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
    # WHEN placements are compared with queues
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


def test_without_queueing_nothing_is_said_of_responses(tmp_path: Path) -> None:
    result = recommended(tmp_path, [Request("fs", 0)])
    assert result["queueing"] == "serial"
    assert result["times"] is None
    (base, *_) = rows(tmp_path, "base", "none")
    assert (base["response_avg_ns"], base["makespan_ns"]) == (None, None)


def test_a_split_of_roles_is_walked_too(tmp_path: Path) -> None:
    # GIVEN a trace like study A's, a request each ms, WHEN it queues
    result = recommended(tmp_path, oltp()[::10], queueing="open")
    # THEN every placement has its times, and no NVM of that capacity is worse than none
    for how in ("hottest", "start"):
        for placement in ("fs", "journal", "combined"):
            for row in rows(tmp_path, placement, how):
                assert row["makespan_ns"] >= row["response_avg_ns"] > 0
    assert result["best"]["elapsed_ns"] < result["answer"]["base_elapsed_ns"]


@pytest.mark.parametrize("queueing", ["serial", "open"])
@pytest.mark.parametrize("requests", [[], [Request("fs", 0, 0, "flush")], [Request("other", 0)]])
def test_a_head_and_queues_on_nearly_nothing(
    requests: list[Request], queueing: str, tmp_path: Path
) -> None:
    # GIVEN a trace without a block to place, WHEN it is walked, THEN the base device is the answer
    result = recommended(tmp_path, requests, base="hdd-7200-seek", queueing=queueing)
    assert result["answer"]["placement"] == "base"
    assert result["answer"]["gain_ratio"] == 0


def test_the_command_takes_a_disk_with_a_head_and_queues(tmp_path: Path) -> None:
    folder = write_trace(tmp_path / "trace", oltp()[::20], layout=[])
    options = ["--base", "hdd-7200-seek", "--nvm", "nvm", "--profiles", str(DEVICES)]
    done = invoke("recommend", folder, *options, "--queueing", "open", "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["profiles"][0]["rpm"] == 7200
    assert any("hdd-7200-seek seeks by distance" in text for text in result["assumptions"])


def test_a_disk_smaller_than_the_trace_is_told(tmp_path: Path) -> None:
    # GIVEN a request at 1 TB, WHEN it is charged to a disk of 320 GB
    result = recommended(tmp_path, [Request("fs", 1_953_125_000)], base="hdd-7200-seek")
    # THEN that is said
    assert any(
        "1 requests lie beyond the disk's capacity" in text for text in result["assumptions"]
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
    assert result["journal"] == {
        "touched_bytes": 0,
        "written_bytes": 0,
        "region_bytes": None,
        "touched_cycles": 0.0,
        "region_cycles": None,
    }
    assert not any("cyclic" in text for text in result["assumptions"])


def test_flash_that_writes_slower_than_it_reads_prefers_what_is_read(tmp_path: Path) -> None:
    # GIVEN a PCM device of 6.7 us a read and 128.3 us a write before flash of 108.0 and 37.1
    requests = [Request("fs", 16 * block, operation="read") for block in range(50)]
    requests += [Request("journal", 16_000 + 16 * block) for block in range(50)]
    # WHEN half of what the trace touched fits
    result = recommended(
        tmp_path, requests, base="ssd-emlc", nvm="ssd-pcm", capacities_bytes=(100 * BLOCK,)
    )
    # THEN what is read goes to PCM, and what is written stays
    assert result["answer"]["placement"] == "fs"
    saved_ns = result["answer"]["base_elapsed_ns"] - result["answer"]["elapsed_ns"]
    assert saved_ns == pytest.approx(50 * (108_000 - 6_700), abs=100)
    assert curve(tmp_path, "journal")[50] > curve(tmp_path, "journal")[0]
