"""A trace folder with the test devices, and a trace like study A's OLTP."""

from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import fields

from tests.simulate.placement_models import Request, write_trace
from tests.traces import rows_of
from tracekit.model.answer import Answer
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.store import TraceFolder

DEVICES = Path(__file__).with_name("devices.toml")
BLOCK = 4096
US = 1000


def recommended(folder: Path, requests: list[Request], **changes: Any) -> dict[str, Any]:
    """Write a trace, run the stage on it with the test devices, and return its result."""
    write_trace(folder, requests, **changes.pop("info", {}))
    options = {"base": "disk", "nvm": "nvm", "profiles": DEVICES, "level": "queued", **changes}
    result: dict[str, Any] = to_builtins(
        recommend(TraceFolder(folder), RecommendOptions(**options))
    )
    return result


def answer_with(**values: Any) -> Answer:
    """Return an answer with these values, all others nothing."""
    names = [field.name for field in fields(Answer)]
    empty = {name: "base" if name in ("placement", "runner_up") else 0 for name in names}
    return Answer(**empty | values)


def curve(folder: Path, placement: str, coverage: str = "hottest") -> dict[int, int]:
    """Read a curve back from the table: elapsed us by capacity in blocks."""
    return {
        row["capacity_bytes"] // BLOCK: row["elapsed_ns"] // US
        for row in rows_of(folder / "simulations" / "placement.parquet")
        if (row["placement"], row["coverage"]) == (placement, coverage)
    }


def oltp() -> list[Request]:
    """Like study A's OLTP: a small hot part in a cold file system, and a cyclic journal.

    File system: 10 blocks of 100 writes, 400 of one. Journal: 300 blocks of 8 writes. Blocks are
    written in strides, so that no request continues the one before it.
    """
    hot = [Request("fs", 16 * block) for _ in range(100) for block in range(10)]
    cold = [Request("fs", 16 * block) for block in range(10, 410)]
    journal = [Request("journal", 1 << 20 | 16 * block) for _ in range(8) for block in range(300)]
    return hot + cold + journal
