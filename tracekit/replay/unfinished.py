"""What a replay left whose program was killed, or could not write all of its completions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracekit import store
from tracekit.errors import TracekitError
from tracekit.replay.completions import HEADER, write_completions

ABOUT = "unfinished.json"
TABLE = "unfinished.parquet"


@contextmanager
def keeping_unfinished(place: Path, records: Path, *, is_timed: bool) -> Iterator[None]:
    """Keep the completions of a program that did not finish them in the folder `place`.

    `records` is where the program would have put them; `place` then holds unfinished.parquet and
    unfinished.json (outcome, error, completions), or the program's own file where the disk has no
    room for a table. The error goes on, and names the folder.
    """
    try:
        yield
    except TracekitError as error:
        parts = [
            part
            for part in records.parent.glob(f"{records.name}.*.part")
            if part.stat().st_size > HEADER.itemsize
        ]
        if not parts:
            raise
        count = _keep(place, parts[0], error=str(error), is_timed=is_timed)
        said = "what completed" if count is None else f"{count:,} completions"
        raise TracekitError(f"{error}; {said} kept in {place}") from error


def _keep(place: Path, part: Path, *, error: str, is_timed: bool) -> int | None:
    """Move the program's file to `place` and make a table of it; return its rows if it fits."""
    with store.new_folder(place, overwrite=True, marker=ABOUT) as folder:
        moved = part.rename(folder / "completions.bin")
        rows: int | None = None
        try:
            rows = write_completions(moved, folder / TABLE, is_timed=is_timed)
            moved.unlink()
        except OSError:
            (folder / TABLE).unlink(missing_ok=True)
        about = {"outcome": "unfinished", "error": error, "completions": rows}
        store.write_json(folder / ABOUT, about)
    return rows
