"""Requests that follow the last one of their stream, as fitted profiles have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.generate.profiles import ARRIVAL, HEAD, READS, profile, requests


def test_requests_that_follow_go_on_resume_or_jump(tmp_path: Path) -> None:
    following = READS.replace('"random"', '"following"\ngoes_on = [0.25, 0.75]\nresumes = [0, 0.4]')
    found = requests(profile(tmp_path, HEAD.replace("64MiB", "4GiB") + ARRIVAL + following), 50_000)
    # GIVEN the end of the last run and of the one before it, kept by hand
    counts = np.zeros((2, 3))
    last, before, went_on = -1, -1, 0
    for sector in found["sector"].tolist():
        how = 0 if sector == last else 1 if sector == before else 2
        counts[went_on, how] += 1
        if how:
            before = last
        last, went_on = sector + 8, int(how == 0)
    # THEN requests go on, resume and jump as often as asked
    shares = counts / counts.sum(axis=1, keepdims=True)
    assert shares[0].tolist() == pytest.approx([0.25, 0.75 * 0.4, 0.75 * 0.6], abs=0.01)
    assert shares[1].tolist() == pytest.approx([0.75, 0.25 * 0.4, 0.25 * 0.6], abs=0.01)


def test_kinds_that_follow_resume_where_their_own_last_request_ended(tmp_path: Path) -> None:
    following = READS.replace('"random"', '"following"\ngoes_on = [0, 0]\nresumes = [1, 0]')
    both = following.replace("share = 1", "share = 0.5")
    text = HEAD.replace("64MiB", "4GiB") + ARRIVAL + both + both.replace('"read"', '"write"')
    found = requests(profile(tmp_path, text), 1000)
    for code in (0, 1):
        own = found["sector"][found["operation"] == code].astype(np.int64)
        assert set(np.diff(own).tolist()) == {8}


def test_what_goes_on_beyond_the_end_begins_again(tmp_path: Path) -> None:
    following = READS.replace('"random"', '"following"\ngoes_on = [1, 1]').replace("4KiB", "16MiB")
    found = requests(profile(tmp_path, HEAD + ARRIVAL + following), 40)
    steps = np.diff(found["sector"].astype(np.int64) // 32768) % 4
    assert set(steps[found["sector"][:-1] % 32768 == 0].tolist()) <= {0, 1}
    assert (found["sector"] == 0).sum() >= 9


def test_streams_of_one_region_share_the_places_they_used(tmp_path: Path) -> None:
    stream = """[[stream]]
arrival = { process = "constant", mean = "1ms" }
[[stream.request]]
share = 1
operation = "read"
access = "following"
goes_on = [0, 0]
size = "4KiB"
reuse = { share = SHARE, distance = 1 }
"""
    text = HEAD + stream.replace("SHARE", "0") + stream.replace("SHARE", "1")
    found = requests(profile(tmp_path, text), 1000)
    # THEN the second stream, which uses the last place again, goes where the first one went
    assert found["target"][:4].tolist() == [0, 1, 0, 1]
    assert found["sector"][0::2].tolist() == found["sector"][1::2].tolist()
    assert len(set(found["sector"].tolist())) > 490
