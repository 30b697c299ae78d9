"""Every importer with damaged input: an error that says where, or wrong lines that are counted.

Seeded changes of a sample of each format. Nothing may end in a traceback, hang, or leave a folder
behind; what is imported holds as many requests as it says.
"""

import lzma
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.import_ import damages
from tests.import_.examples import BIOSNOOP, FIO2, FIO3, RECORDED, TEXTS, oracle, vscsi
from tests.import_.importer import Importer
from tests.import_.octf import described, done, io
from tracekit.errors import TracekitError
from tracekit.store import TraceFolder

ROUNDS = 16
OCTF = described(5, 1, device=1, name="sda", sectors=9) + b"".join(
    io(10 * n, 2 * n, number=n) + done(10 * n + 5, 2 * n + 1, number=n) for n in range(1, 90)
)


def samples() -> dict[str, bytes]:
    found = {name: (text * 20).encode() for name, (text, _) in TEXTS.items()}
    found["vscsi1"] = vscsi((0x28, 4096, n * 8, n * 50) for n in range(90))
    found["oracleGeneral"] = oracle((n // 9, n * 8, 4096, -1) for n in range(90))
    found["octf"] = OCTF
    found |= {"fio2": FIO2.encode(), "fio3": FIO3.encode(), "biosnoop": BIOSNOOP.encode()}
    for name in ("perf", "ftrace", "blk", "blk_classic"):
        found[name] = lzma.decompress((RECORDED / f"{name}.txt.xz").read_bytes())[:6000]
    return found


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return the data with some bytes changed, cut out, doubled, or moved."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 2, 8, 40))):
        if not made:
            break
        at, size = chance.randrange(len(made)), chance.choice((1, 1, 2, 7, 60))
        piece = bytes(made[at : at + size])
        match chance.randrange(6):
            case 0:
                made[at : at + size] = chance.randbytes(len(piece))
            case 1:
                del made[at : at + size]
            case 2:
                made[at:at] = piece * chance.choice((1, 30))
            case 3:
                to = chance.randrange(len(made))
                made[to:to] = piece
            case 4:
                made[at : at + 1] = chance.choice(
                    (b"\n", b"\0", b"-", b"9" * 25, b"\xff\xfe", b",")
                )
            case _:
                del made[at:]
    return bytes(made)


def outcome(read: Importer, content: bytes, **options: Any) -> TraceFolder | TracekitError:
    try:
        return read(content, **options)
    except TracekitError as error:
        return error


@pytest.mark.parametrize("given", [True, False], ids=["named", "found"])
@pytest.mark.parametrize("name", samples())
def test_damage_is_reported(read: Importer, name: str, given: bool) -> None:
    chance = random.Random(f"{name} {given}")  # noqa: S311 - a fixed sequence, no secret
    data = samples()[name]
    form = name.partition("_")[0] if given else None
    for number in range(ROUNDS):
        # GIVEN a damaged file
        content, most = damaged(data, chance), chance.choice((0.0, 0.01, 1.0))
        # WHEN it is imported THEN either the error names the file, what is wrong, and what to do
        folder = outcome(read, content, form=form, most_bad_ratio=most)
        if isinstance(folder, TracekitError):
            assert str(folder), number
            assert folder.hint, (number, str(folder))
            assert not read.output.exists()
            continue
        # OR the trace is whole, and the wrong lines are counted
        counts = folder.content["counts"]
        assert pq.read_metadata(folder.table("requests")).num_rows == counts["requests"] > 0
        assert counts["bad_lines"] <= most * (counts["records"] + 1)
        assert len(counts["bad_examples"]) == min(counts["bad_lines"], 5)
        shutil.rmtree(read.output)


@pytest.mark.parametrize("text", [*damages.texts()], ids=lambda text: text.name)
def test_no_damage_is_silent(text: damages.Text, tmp_path: Path) -> None:
    # GIVEN a trace damaged in each of the ways in which files are in practice, which change it
    found = {damage: outcome for damage, _, outcome in damages.run(text, 1, tmp_path)}
    assert len(found) >= len(damages.OF_ALL)
    # THEN each that can be seen is refused or told, and the harmless ones change nothing
    assert [damage for damage, one in found.items() if one == damages.SILENT] == []
    assert all(found[damage] == damages.AS_BEFORE for damage in ("blank lines", "a line of a log"))
