"""What the sweep does with requests that do not fit together, or cannot be."""

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.simulate.placement_traces import DISK, NVM, Request, swept, write_trace
from tracekit.devices import device_cost
from tracekit.errors import InputError


def test_an_unknown_carrier_is_counted(tmp_path: Path) -> None:
    # GIVEN a request merged into one that was issued before it was queued, and one never issued
    requests = [
        Request("fs", 0, queue_ns=0, issue_ns=5),
        Request("fs", 8, queue_ns=9, merged_into=0),
        Request("fs", 64, queue_ns=10),
    ]
    # WHEN they are charged as issued
    curves = swept(write_trace(tmp_path, requests), (DISK, NVM), is_issued=True)
    # THEN the first is charged on its own, the second left out, and both are counted
    assert (curves.totals.orphan_merges, curves.totals.not_issued) == (1, 1)
    assert sum(curves.totals.requests) == 2


def test_blocks_that_were_not_classified_stay_on_base(tmp_path: Path) -> None:
    # GIVEN requests to three blocks of which classify lists one
    write_trace(tmp_path, [Request("fs", 8)])
    blocks = (tmp_path / "blocks.parquet").read_bytes()
    write_trace(tmp_path, [Request("fs", 0, 24)])
    (tmp_path / "blocks.parquet").write_bytes(blocks)
    # WHEN the whole role is on NVM
    curves = swept(tmp_path, (DISK, NVM))
    # THEN two blocks are counted as missing and still cost the disk's time
    assert curves.totals.missing_blocks == 2
    disk, nvm = device_cost(DISK), device_cost(NVM)
    assert curves.base_total_ps + curves.change_ps["hottest", "fs"][-1] == (
        disk.latency_ps[1] + 16 * disk.sector_ps[1] + nvm.latency_ps[1] + 8 * nvm.sector_ps[1]
    )


@pytest.mark.parametrize(("sector", "sectors"), [(-8, 8), (1 << 57, 8), (0, 1 << 23)])
def test_impossible_requests_are_counted(sector: int, sectors: int, tmp_path: Path) -> None:
    # GIVEN a request that no disk has between two good ones
    good = [Request("fs", 0), Request("fs", 80)]
    write_trace(tmp_path, good)
    blocks = (tmp_path / "blocks.parquet").read_bytes()
    expected = swept(tmp_path, (DISK, NVM))
    write_trace(tmp_path, [good[0], Request("fs", sector, sectors, "discard"), good[1]])
    table = pq.read_table(tmp_path / "requests.parquet")
    writes = pa.array(["write"] * 3).dictionary_encode()
    place = table.schema.get_field_index("operation")
    pq.write_table(
        table.set_column(place, table.schema.field(place), writes), tmp_path / "requests.parquet"
    )
    (tmp_path / "blocks.parquet").write_bytes(blocks)
    # WHEN it is swept, THEN it is left out and counted
    found = swept(tmp_path, (DISK, NVM))
    assert found.totals.impossible == 1
    assert found.base_total_ps == expected.base_total_ps


def test_a_request_seen_twice_is_named(tmp_path: Path) -> None:
    # GIVEN two requests with the same id
    write_trace(tmp_path, [Request("fs", 0, issue_ns=9), Request("fs", 80, issue_ns=9)])
    file = tmp_path / "requests.parquet"
    table = pq.read_table(file)
    ids = pa.array([7, 7], pa.int64())
    pq.write_table(table.set_column(0, table.schema.field(0), ids), file)
    # WHEN they are charged as issued, THEN the error names the id
    with pytest.raises(InputError, match="request 7 appears twice"):
        swept(tmp_path, (DISK, NVM), is_issued=True)


def test_times_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    # GIVEN a device so slow that one request takes 58 days
    slow = dataclasses.replace(DISK, read_latency_us=5e12)
    requests = [Request("fs", 0, operation="read")]
    # WHEN it is charged, THEN the sum is refused instead of wrapping around
    with pytest.raises(InputError, match="request 1 brings the modelled time above 106 days"):
        swept(write_trace(tmp_path, requests * 2), (slow, NVM))
