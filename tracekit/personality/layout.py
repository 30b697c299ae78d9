"""Where the files of a personality lie, how large they are, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.errors import InputError
from tracekit.personality.model import FileSet, Personality
from tracekit.plan.file_table import FileTable

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """The files of one set that one thread uses.

    `numbers` are those of the plan and `sizes` bytes, in the order in which the thread deletes and
    creates: a ring, of which the first `present` are there before the run.
    """

    files: FileSet
    numbers: Numbers
    sizes: Numbers
    present: int


def draw_sizes(files: FileSet, rng: np.random.Generator) -> Numbers:
    """Return the size of each file in bytes, at least 1."""
    if files.shape == 0:
        return np.full(files.count, files.mean_bytes, np.int64)
    drawn = rng.gamma(files.shape, files.mean_bytes / files.shape, files.count)
    return np.maximum(np.rint(drawn), 1).astype(np.int64)


def file_path(files: FileSet, number: int) -> str:
    """Return the path of a file: in no directory are more than `directory_width` entries."""
    width = files.directory_width
    directories = -(-files.count // width)
    leaf = number // width
    parts = [f"f{number:08d}"]
    while directories > 1:
        parts.append(f"d{leaf:06d}")
        directories = -(-directories // width) if width > 1 else 1
        leaf //= width
    return "/".join([files.name, *reversed(parts)])


def lay_out(personality: Personality, seed: int) -> tuple[FileTable, list[list[Share]]]:
    """Return the table of files, and for each thread its share of each set.

    Raises InputError for a set with fewer files than the threads need.
    """
    table = FileTable()
    shares: list[list[Share]] = [[] for _ in range(personality.threads)]
    for place, files in enumerate(personality.file_sets):
        rng = np.random.default_rng([seed, 1, place])
        sizes = draw_sizes(files, rng)
        order = np.arange(files.count) if files.is_shared else rng.permutation(files.count)
        parts = [order] if files.is_shared else np.array_split(order, personality.threads)
        present = [_present(personality, files, len(part)) for part in parts]
        there = np.zeros(files.count, bool)
        for part, count in zip(parts, present, strict=True):
            there[part[:count]] = True
        numbers = np.array(
            [
                table.add(
                    file_path(files, number),
                    size_bytes=int(size) if is_there else 0,
                    there=bool(is_there),
                )
                for number, (size, is_there) in enumerate(zip(sizes, there, strict=True))
            ]
        )
        for thread, own in enumerate(shares):
            at = 0 if files.is_shared else thread
            own.append(Share(files, numbers[parts[at]], sizes[parts[at]], present[at]))
    return table, shares


def _present(personality: Personality, files: FileSet, count: int) -> int:
    """Return how many of a part's files are there at the start."""
    created, deleted = personality.churn(files.name)
    least = max(deleted, 0 if created else 1)
    most = count - created
    if files.is_shared:
        return count
    if most < least or count == 0:
        needed = personality.threads * (least + created)
        raise InputError(
            f"{personality.threads} threads need at least {max(needed, 1)} files"
            f" '{files.name}', there are {files.count}",
            hint="use more files or fewer threads",
        )
    return min(max(round(count * files.present_ratio), least), most)
