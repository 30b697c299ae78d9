"""A disk's seek curve: from three figures of its data sheet to the coefficients of a formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Stroke(Protocol):
    """What a data sheet says of a disk's seeks, in microseconds."""

    @property
    def seek_track_us(self) -> float | None: ...  # noqa: D102 - named in profiles.toml
    @property
    def seek_average_us(self) -> float | None: ...  # noqa: D102
    @property
    def seek_full_us(self) -> float | None: ...  # noqa: D102


@dataclass(frozen=True)
class SeekCurve:
    """Seek time in us over the distance x, a share of the full stroke above 0.

    track_us + root_us * sqrt(x) + linear_us * x
    """

    track_us: float
    root_us: float
    linear_us: float

    @property
    def is_rising(self) -> bool:
        """Whether a longer seek never takes less time."""
        return self.root_us >= 0 and self.root_us / 2 + self.linear_us >= 0


def seek_curve(disk: Stroke) -> SeekCurve:
    """Fit the curve to track-to-track, average and full-stroke seek (Lee & Katz, SIGMETRICS 1993).

    The distance of two places chosen at random has the density 2(1 - x), so that the mean of
    sqrt(x) is 8/15 and that of x 1/3. With the seek of no distance t, of the full stroke f and on
    average a, the two equations root + linear = f - t and 8/15 root + 1/3 linear = a - t give
    root = (15 a - 10 t - 5 f) / 3 and linear = (7 t - 15 a + 8 f) / 3.
    """
    track, average, full = disk.seek_track_us, disk.seek_average_us, disk.seek_full_us
    if track is None or average is None or full is None:
        raise ValueError("the device has no head that moves")
    root_us = (15 * average - 10 * track - 5 * full) / 3
    linear_us = (7 * track - 15 * average + 8 * full) / 3
    return SeekCurve(track, root_us, linear_us)
