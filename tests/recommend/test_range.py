"""Every set of roles, and the gain as a range."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from tests.recommend.traces import BLOCK, DEVICES, US, curve, recommended
from tests.simulate.placement_traces import Request
from tracekit.profiles import load_profiles
from tracekit.recommend.gain_range import scaled


def small() -> list[Request]:
    """Return a hot and a cold part of a file system, and a journal: 50 blocks in all."""
    hot = [Request("fs", 16 * block) for _ in range(50) for block in range(5)]
    cold = [Request("fs", 16 * block) for block in range(5, 30)]
    return hot + cold + [Request("journal", 1 << 20 | 16 * n) for _ in range(9) for n in range(20)]


def test_every_set_of_roles_has_its_best_split(tmp_path: Path) -> None:
    # GIVEN a trace of three roles, small enough that every division can be tried
    random = np.random.default_rng(4)
    requests = [
        Request(role, 800 * n + 8 * int(random.zipf(1.5) % 9), 8, queue_ns=0)
        for _ in range(60)
        for n, role in enumerate(("fs", "journal", "swap"))
    ]
    recommended(tmp_path, requests)
    alone = {role: curve(tmp_path, role) for role in ("fs", "journal", "swap")}
    base = curve(tmp_path, "base", "none")[0]
    for first, second in itertools.combinations(alone, 2):
        for capacity, found in curve(tmp_path, f"{first}+{second}").items():
            # THEN its curve is the best sum of both roles' savings
            best = min(
                alone[first][one] + alone[second][other] - base
                for one, other in itertools.product(alone[first], alone[second])
                if one + other <= capacity
            )
            assert found == pytest.approx(best, abs=3)


def test_the_range_is_that_of_faster_and_slower_devices(tmp_path: Path) -> None:
    # GIVEN a base device only ten times as slow as the NVM
    requests = small()
    result = recommended(
        tmp_path / "t", requests, base="nvm", nvm="nvm2", profiles=_scaled(tmp_path, 0.1)
    )
    answer, found = result["answer"], result["gain_range"]
    # WHEN the same shares are charged on NVM that takes half and twice as long
    shares = {"fs": answer["fs_bytes"] // BLOCK, "journal": answer["journal_bytes"] // BLOCK}
    for factor, key in ((0.05, "high_ratio"), (0.2, "low_ratio")):
        place = tmp_path / str(factor)
        other = recommended(
            place, requests, base="nvm", nvm="nvm2", profiles=_scaled(tmp_path, factor)
        )
        base_us = other["answer"]["base_elapsed_ns"] / US
        kept_us = base_us + sum(
            curve(place, role)[blocks] - base_us for role, blocks in shares.items() if blocks
        )
        # THEN the ends of the range are those gains
        assert found[key] == pytest.approx(1 - kept_us / base_us, abs=1e-3)
    assert found["low_ratio"] < answer["gain_ratio"] < found["high_ratio"]


def _scaled(place: Path, factor: float) -> Path:
    """Write a device file with the NVM, and as nvm2 one that takes `factor` times as long."""
    nvm = load_profiles(DEVICES)["nvm"]
    file = place / f"scaled-{factor}.toml"
    text = ""
    for name, profile in (("nvm", nvm), ("nvm2", scaled(nvm, factor))):
        values = {k: v for k, v in asdict(profile).items() if v is not None and k != "name"}
        text += f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items())
    file.write_text(text)
    return file
