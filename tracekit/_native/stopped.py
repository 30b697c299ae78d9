"""Where and why a native reader cannot read on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar

Kind = TypeVar("Kind", bound=IntEnum)


@dataclass(frozen=True)
class Place(Generic[Kind]):
    """Where and why an input cannot be read on; the native header tells what the numbers mean."""

    kind: Kind
    file: int
    """Index of the input."""
    offset: int
    value: int
    other: int = 0


Where = TypeVar("Where", bound=Place[Any])


class StoppedError(Exception, Generic[Where]):
    """The reader stopped; `place` says where. The caller knows the file's name."""

    def __init__(self, place: Where) -> None:
        super().__init__(place)
        self.place = place
