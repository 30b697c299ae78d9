"""A personality as the program holds it: checked, with all parameters filled in."""

from __future__ import annotations

from dataclasses import dataclass, field

ACTIONS = (
    "create",
    "open",
    "close",
    "read_file",
    "write_file",
    "append",
    "read",
    "write",
    "fsync",
    "fdatasync",
    "stat",
    "delete",
)
"""What an operation does; `read_file` and `write_file` go through the whole file."""
ON_HANDLE = ("close", "read_file", "write_file", "append", "read", "write", "fsync", "fdatasync")
MOVES_DATA = ("read_file", "write_file", "append", "read", "write")
HANDLES = 8


@dataclass(frozen=True)
class FileSet:
    """Files of one kind. Sizes follow a gamma distribution of mean and shape; shape 0: all equal.

    A shared set is used by all threads, who create and delete nothing in it; of another one each
    thread has its own part. `present_ratio` of the files are there before the run.
    """

    name: str
    count: int
    mean_bytes: int
    shape: float
    directory_width: int
    present_ratio: float
    is_shared: bool


@dataclass(frozen=True)
class Operation:
    """One entry of the flow that each thread repeats.

    `size_bytes` is of one call; of an append that `is_random` the most, drawn evenly from 1 on.
    `files` of an append names a shared set that stays open all the time.
    """

    action: str
    files: str | None = None
    handle: int = 1
    size_bytes: int = 0
    is_random: bool = False
    is_direct: bool = False
    is_sync: bool = False
    label: str = ""


@dataclass(frozen=True)
class Personality:
    """A name, its file sets, and what each of `threads` threads does again and again."""

    name: str
    about: str
    threads: int
    file_sets: tuple[FileSet, ...]
    flow: tuple[Operation, ...]
    parameters: dict[str, int | float] = field(default_factory=dict)
    definition: str = ""
    """Digest of its files and operations, before parameters are put in."""

    def file_set(self, name: str) -> FileSet:
        """Return the file set of that name, which must be there."""
        return next(one for one in self.file_sets if one.name == name)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the steps, each once, in the order of the flow."""
        return tuple(dict.fromkeys(operation.label for operation in self.flow))

    def churn(self, files: str) -> tuple[int, int]:
        """Return how many files of a set one turn of the flow creates and deletes."""
        return (
            sum(one.action == "create" and one.files == files for one in self.flow),
            sum(one.action == "delete" and one.files == files for one in self.flow),
        )
