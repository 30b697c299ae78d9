"""Capacities without a unit: bytes, and refused where they hold no block."""

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
    # GIVEN a trace folder, THEN 16 is not taken for no capacity at all
    monkeypatch.chdir(place)
    status, talk = typed(*command, "16")
    assert status == 2
    assert f"{command[-1]} 16: less than a block of 4096 bytes" in talk
    assert "write for example 16MiB" in talk


def test_a_block_and_a_number_of_bytes_are_taken() -> None:
    assert values.capacities("4096,1MiB, 8192") == (4096, 1 << 20, 8192)
    assert values.capacities((4096, "4KiB")) == (4096, 4096)
    assert values.maybe_capacity("") is None
    assert values.maybe_capacity(1 << 20) == 1 << 20
    with pytest.raises(UsageError, match="--capacity 4095"):
        values.capacities("1MiB,4095")
