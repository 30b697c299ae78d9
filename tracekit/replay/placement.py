"""The recommended placement, as a replay takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.contract import read_object
from tracekit.errors import InputError, UsageError
from tracekit.plan.placed import Placed, place
from tracekit.schema import BLOCK_BYTES
from tracekit.simulate.block_orders import read_blocks
from tracekit.sizes import format_size, parse_size
from tracekit.store import TraceFolder, command_line

ANSWER = "answer"
PLACED_BYTES = {"fs": "fs_bytes", "journal": "journal_bytes", "swap": "swap_bytes"}


def read_recommendation(folder: TraceFolder) -> Mapping[str, Any]:
    """Return recommendation.json; raise InputError when `recommend` has not run."""
    file = folder.path / "recommendation.json"
    hint = f"run: {command_line('recommend', folder.path)}"
    if not file.is_file():
        raise InputError(f"{folder.path} has no recommendation yet", hint=hint)
    found = read_object(file, hint=hint)
    if "answer" not in found or "answers" not in found or "coverage" not in found:
        raise InputError(f"{file} holds no recommendation", hint=hint)
    return found


def choose_answer(advice: Mapping[str, Any], wanted: str) -> Mapping[str, Any]:
    """Return the answer of the headline (`answer`) or at the capacity that is named."""
    if wanted == ANSWER:
        headline: Mapping[str, Any] = advice["answer"]
        return headline
    size = parse_size(wanted, option="--placement")
    for answer in (advice["answer"], *advice["answers"]):
        if answer["capacity_bytes"] == size:
            found: Mapping[str, Any] = answer
            return found
    known = sorted({answer["capacity_bytes"] for answer in advice["answers"]})
    raise UsageError(
        f"--placement {wanted}: there is no answer for this capacity",
        hint=f"run recommend --capacity {wanted}, or choose one of:"
        f" {', '.join(format_size(one) for one in known[:12])}",
    )


def place_answer(folder: TraceFolder, wanted: str) -> tuple[Placed, Mapping[str, Any]]:
    """Return the blocks of a recommended placement, and the answer that chose them."""
    advice = read_recommendation(folder)
    answer = choose_answer(advice, wanted)
    blocks = {role: answer[key] // BLOCK_BYTES for role, key in PLACED_BYTES.items()}
    if not any(blocks.values()):
        raise UsageError(
            f"--placement {wanted}: the answer is to leave everything on the base device",
            hint="replay without --placement",
        )
    touched = read_blocks(folder.require("blocks", made_by="classify"))
    return place(touched, advice["coverage"], blocks=blocks), answer
