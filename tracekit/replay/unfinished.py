"""What a replay left whose program was killed, or could not write all of its completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit import store
from tracekit.errors import TracekitError
from tracekit.replay.completions import HEADER, write_completions
from tracekit.replay.reached import first_without_completion

ABOUT = "unfinished.json"
TABLE = "unfinished.parquet"
PLAN = "plan.bin"
SUFFIX = ".unfinished"


@dataclass(frozen=True)
class Begun:
    """A run: its plan and what is told of it, where its completions go, what it begins with.

    `first` and `from_ns` are the record and the time of the plan from which on it runs.
    """

    plan: Path
    records: Path
    compiled: Mapping[str, Any]
    first: int
    from_ns: int
    is_timed: bool


@contextmanager
def keeping_unfinished(place: Path, begun: Begun) -> Iterator[None]:
    """Keep the completions of a program that did not finish them in the folder `place`.

    `place` then holds the plan, from which another run can go on, unfinished.parquet and
    unfinished.json (outcome, error, completions, compiled, next: the first record of the plan that
    was not completed), or the program's own file where the disk has no room for a table. The error
    goes on, and names the folder.
    """
    try:
        yield
    except TracekitError as error:
        parts = [
            part
            for part in begun.records.parent.glob(f"{begun.records.name}.*.part")
            if part.stat().st_size > HEADER.itemsize
        ]
        if not parts:
            raise
        count = _keep(place, parts[0], begun, error=str(error))
        said = "what completed" if count is None else f"{count:,} completions"
        raise TracekitError(
            f"{error}; {said} kept in {place}", hint=f"go on with --resume {place.name}"
        ) from error


def _keep(place: Path, part: Path, begun: Begun, *, error: str) -> int | None:
    """Move the program's file to `place` and make a table of it; return its rows if it fits."""
    with store.new_folder(place, overwrite=True, marker=ABOUT) as folder:
        reached = first_without_completion(
            begun.plan, part, begin=begun.first, from_ns=begun.from_ns
        )
        moved = part.rename(folder / "completions.bin")
        begun.plan.rename(folder / PLAN)
        rows: int | None = None
        try:
            rows = write_completions(moved, folder / TABLE, is_timed=begun.is_timed)
            moved.unlink()
        except OSError:
            (folder / TABLE).unlink(missing_ok=True)
        about: dict[str, Any] = {"outcome": "unfinished", "error": error, "completions": rows}
        about |= {"next": reached, "compiled": dict(begun.compiled)}
        store.write_json(folder / ABOUT, about)
    return rows


def unfinished_of(replays: Path, name: str) -> Path | None:
    """Return the folder of what the replay `name` left unfinished, None when it left nothing."""
    places = (replays / name, replays / f"{name}{SUFFIX}")
    return next((place for place in places if (place / ABOUT).is_file()), None)
