"""Texts of the events of disk drivers: how large their blocks are, and what such a text leaves out.

Places are logical blocks, whose size no event says. What reads the lines is
`replayer/read/text_driver.h`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tracekit import metadata
from tracekit._native.decode import LAYERS, DecodeStats, Text
from tracekit.errors import InputError
from tracekit.layout import Layout
from tracekit.units import SECTOR_BYTES

NAMES = {Text.NVME: "nvme", Text.UFS: "ufs", Text.SCSI: "scsi"}
LARGE_BYTES = 4096
BLOCKS = LARGE_BYTES // SECTOR_BYTES
"""Whole 4 KiB are so many blocks, were they as small as they can be."""
MOST_FINE = 0.5
FEWEST_PLACES = 4
UFS_PLACE = re.compile(rb"ufshcd_command: .* LBA: ([0-9]{1,18}),")
NVME_DISK = re.compile(rb"nvme_setup_cmd: .*disk=([^ ,]+)")


@dataclass(frozen=True)
class Block:
    """The logical block of a driver's commands."""

    size_bytes: int = SECTOR_BYTES
    evidence: str = ""
    """Empty: it is assumed."""
    is_stated: bool = False
    """By the user or by the layout: no text speaks against it."""


ASSUMED = Block()


def block_of(kind: Text, head: bytes, *, given: int | None, layout: Layout) -> Block:
    """Return the block of a text that begins with `head`; `given` are the user's bytes.

    Blocks of UFS are 4,096 bytes by its standard, and its places were sectors of 512 bytes up to
    Linux 5.13: some are no multiples of 8 where they are blocks.
    """
    if given is not None:
        return Block(given, "given by the user", is_stated=True)
    if kind == Text.UFS:
        places = [int(place) for place in UFS_PLACE.findall(head)]
        if len(places) >= FEWEST_PLACES and not any(place % BLOCKS for place in places):
            return Block(SECTOR_BYTES, f"all places are multiples of {BLOCKS}, as sectors are")
        return Block(LARGE_BYTES, f"some places are no multiples of {BLOCKS}")
    named = {name.decode("utf-8", "replace") for name in NVME_DISK.findall(head)}
    sizes = {disk.logical_sector_bytes for disk in layout.devices if disk.device in named} - {None}
    if len(sizes) != 1:
        return ASSUMED
    return Block(sizes.pop() or SECTOR_BYTES, "the layout", is_stated=True)


def reject_block(stats: DecodeStats, block: Block, *, kind: Text, file: str) -> None:
    """Raise InputError where the commands speak against blocks of 512 bytes that nobody gave."""
    if block.size_bytes != SECTOR_BYTES or block.is_stated:
        return
    if stats.fine_commands > (0 if kind == Text.UFS else MOST_FINE * stats.commands):
        raise InputError(
            f"{file}: {stats.fine_commands:,} of {stats.commands:,} commands are no whole 4 KiB, if"
            " a logical block is 512 bytes, which the text does not say",
            hint="give the size of a logical block: --page 4096B, or --page 512B if it is so",
        )


def inferences(stats: DecodeStats, block: Block, *, kind: Text) -> list[metadata.Inference]:
    """Return what was taken for granted of a text of the kernel's events."""
    others = in_words(dict(zip(LAYERS, stats.others, strict=True)))
    found = []
    if kind in NAMES:
        whole = stats.commands - stats.fine_commands
        said = f"assumed: {whole:,} of {stats.commands:,} commands are whole 4 KiB then"
        found.append(("logical block", f"{block.size_bytes:,} bytes", block.evidence or said))
    if others:
        read = f"events of {NAMES.get(kind, 'block')} are read"
        found.append(("passed over", f"events of {others}", read))
    return metadata.inferences_of(found, stage="import")


def doubts(stats: DecodeStats, block: Block, *, kind: Text) -> list[tuple[str, object, str]]:
    """Return the warnings of such a text: code, whether it applies, message."""
    of_requests = dict(zip(LAYERS[: len(NAMES) + 1], stats.others, strict=False))
    others = in_words(of_requests) if kind in NAMES else ""
    assumed = f"assumed: logical blocks of {block.size_bytes:,} bytes, which the text does not say"
    unplaced = f"{stats.unplaced:,} commands do not say their place, as discards, and are left out"
    return [
        ("assumed_values", kind in NAMES and not block.evidence, assumed),
        ("unplaced_commands", stats.unplaced, unplaced),
        ("other_layers", others, f"events of {others} are passed over"),
    ]


def in_words(others: Mapping[str, int]) -> str:
    """Return which layers or sorts have how many events."""
    return ", ".join(f"{name} ({count:,})" for name, count in others.items() if count)
