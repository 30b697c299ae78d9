"""What recommendation.json says of whole units."""

from __future__ import annotations

from tracekit.metadata import Record
from tracekit.units import format_size


class PlacedUnit(Record):
    """A unit that the answer places; adjacent extents are one."""

    name: str
    device: str
    bytes: int
    saving_ns: int


class UnitPoint(Record):
    """What whole units reach at a capacity, in the order of the answer."""

    capacity_bytes: int
    units: int
    elapsed_ns: int
    gain_ratio: float


class UnitAnswer(Record, kw_only=True):
    """Which whole units to place at the headline's capacity; the table has every unit."""

    unit: str
    extent_bytes: int = 0
    is_default: bool = False
    capacity_bytes: int
    placed_count: int
    unit_count: int
    bytes: int
    taken_bytes: int = 0
    """Of the NVM, as it is carried out."""
    reason: str = ""
    """Why nothing is placed."""
    touched_bytes: int
    """Of the placed units."""
    outside_bytes: int
    """Touched bytes that are in no unit."""
    along_bytes: int = 0
    """Touched bytes beside those of the placed units that go along: of files and directories their
    metadata and journal, of a file system what else lies in it."""
    base_elapsed_ns: int
    elapsed_ns: int
    gain_ratio: float
    placed: list[PlacedUnit]
    """The first ones, by saving."""
    curve: list[UnitPoint]
    skipped_rows: int = 0
    """Rows of the table of files on devices that the trace does not have."""
    linked_files: int = 0
    """Files that cannot be moved whole, as they have a name elsewhere."""
    finer_bytes: int = 0
    """Smaller extents that save more; 0: none were tried, or they do not."""
    finer_gain_ratio: float = 0.0

    @property
    def title(self) -> str:
        """Return what a sentence calls the units."""
        if self.unit == "extent":
            return f"extents of {format_size(self.extent_bytes)}"
        return "directories" if self.unit == "directory" else f"{self.unit}s"
