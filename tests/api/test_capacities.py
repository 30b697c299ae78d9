"""Sizes without a unit are refused, in every option; a number of the API is bytes."""

from pathlib import Path

import pytest

from tests.command_line import succeed, typed
from tracekit.api import values
from tracekit.errors import UsageError

LINES = "0,4096,4096,w,0.0\n0,8,4096,r,0.1\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small trace T, classified."""
    place = tmp_path_factory.mktemp("place")
    (place / "spc").write_text(LINES)
    succeed("import", place / "spc", "-o", place / "T")
    succeed("classify", place / "T")
    return place


@pytest.mark.parametrize(
    "command",
    [
        ("recommend", "T", "--capacity"),
        ("recommend", "T", "--max-capacity"),
        ("simulate", "tiers", "T", "--capacity"),
        ("simulate", "purchase", "T", "--capacity"),
        ("prove", "T", "--base", "hdd-7200", "--nvm", "dax-pcm", "--capacity"),
        ("run", "T", "--capacity"),
    ],
    ids=" ".join,
)
def test_a_capacity_without_its_unit_is_refused(
    command: tuple[str, ...], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a trace folder, THEN bytes are not taken for what may be meant in GiB
    monkeypatch.chdir(place)
    status, talk = typed(*command, "16384")
    assert status == 2
    assert f"{command[-1]} 16384: a size needs a unit" in talk
    assert "write 16384B, 16384KiB, 16384MiB or 16384GiB" in talk
    # AND no capacity that holds no block is none
    status, talk = typed(*command, "16B")
    assert status == 2
    assert f"{command[-1]} 16B: less than a block of 4096 bytes" in talk
    assert "write for example 16MiB" in talk


def test_a_block_and_a_number_of_bytes_are_taken() -> None:
    assert values.capacities("4096B,1MiB, 8192B") == (4096, 1 << 20, 8192)
    assert values.capacities((4096, "4KiB")) == (4096, 4096)
    assert values.capacities("0") == (0,)
    assert values.maybe_capacity("") is None
    assert values.maybe_capacity(1 << 20) == 1 << 20
    assert values.size_bytes(512, option="--page") == 512
    for wrong in ("1MiB,4095B", "1MiB,1048576", (4095,)):
        with pytest.raises(UsageError, match=r"--capacity (4095B|1048576): "):
            values.capacities(wrong)
