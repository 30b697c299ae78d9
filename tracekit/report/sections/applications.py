"""Which of the four applications of study A the trace is like: its Figs. 3, 4 and 6 in words.

The study captured gnuplot, an OLTP benchmark, a video player and a web browser on a disk with three
roles. Video player and browser have the same shape there, so three shapes remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.formatting import sentences
from tracekit.report.inputs import Inputs
from tracekit.report.section import Parts, section
from tracekit.units import SECTOR_BYTES

STUDIED = ("fs", "journal", "swap")
HOT_TOUCHES = 1.5
"""A role is hot if its bar of different sectors (Fig. 4) is no more than two thirds of its bar of
all sectors (Fig. 3): each is touched that often on average. The study compares them by eye."""
TRAITS = {
    "busiest": "most requests (Fig. 3)",
    "hot": "hot sectors (Fig. 4 beside Fig. 3)",
    "small": "best single use of a little NVM (Fig. 6)",
    "large": "best single use of much NVM (Fig. 6)",
}


@dataclass(frozen=True)
class Shape:
    """How an application uses the three roles; `hot` has the roles in their order."""

    busiest: str
    hot: tuple[str, ...]
    small: str
    large: str


STUDY = {
    "graph drawing": Shape("swap", (), "swap", "swap"),
    "OLTP": Shape("journal", ("fs",), "fs", "journal"),
    "video and browser": Shape("fs", (), "fs", "fs"),
}


@section("Beside the study's four applications")
def applications(inputs: Inputs) -> Parts | None:
    """Compare shapes; nothing without the three roles, without traffic or before `recommend`."""
    evidence, advice = inputs.finding("traffic/totals"), inputs.recommendation
    if evidence is None or advice is None or advice.get("queueing") == "open":
        return None
    table = counted(evidence.table)
    flips = [flip for flip in advice["single_role_flips"] if flip["to"] in STUDIED]
    if table.empty or not flips:
        return None
    found = shape(table, flips[0]["to"], large=flips[-1]["to"])
    return {
        "traits": TRAITS,
        "words": words(table, found, capacity_bytes=flips[-1]["capacity_bytes"]),
        "study": {name: titles(known) for name, known in STUDY.items()},
        "agrees": {name: agreement(found, known) for name, known in STUDY.items()},
        "sentences": describe(table, found),
    }


def counted(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the studied roles with traffic, with their shares.

    Added are `request_share` (of all reads and writes), `total_share` (of all sectors read and
    written) and `touches` (how often one of its sectors is read or written on average).
    """
    chosen = table[table["role"].isin(STUDIED) & (table["total_sectors"] > 0)]
    requests = chosen["read_count"] + chosen["write_count"]
    return chosen.assign(
        request_share=requests / requests.sum(),
        total_share=chosen["total_sectors"] / chosen["total_sectors"].sum(),
        touches=chosen["total_sectors"] / chosen["distinct_sectors"],
    ).set_index("role")


def shape(table: pd.DataFrame, small: str, *, large: str) -> Shape:
    """Return the trace's shape; `small` and `large` are the best single roles of Fig. 6."""
    hot = tuple(fmt.in_order(table.index[table["touches"] >= HOT_TOUCHES]))
    return Shape(str(table["request_share"].idxmax()), hot, small, large)


def agreement(found: Shape, known: Shape) -> dict[str, bool]:
    """Describe of each trait whether two shapes share it."""
    return {trait: getattr(found, trait) == getattr(known, trait) for trait in TRAITS}


def titles(known: Shape) -> dict[str, str]:
    """Return the traits of a shape as they are shown."""
    return {
        "busiest": fmt.role_title(known.busiest),
        "hot": fmt.listing([fmt.role_title(role) for role in known.hot]) or "none",
        "small": fmt.role_title(known.small),
        "large": fmt.role_title(known.large),
    }


def words(table: pd.DataFrame, found: Shape, *, capacity_bytes: int) -> dict[str, str]:
    """Return the traits of this trace with their figures."""
    shown = titles(found)
    requests = fmt.share(table.loc[found.busiest, "request_share"])
    shown["busiest"] += f": {requests} of reads and writes"
    if found.hot:
        hot = table.loc[list(found.hot)].reset_index()
        text = "{role:role}: a sector is touched {touches:.2f} times"
        shown["hot"] = fmt.listing(sentences(text, hot))
    if found.small != found.large:
        shown["large"] += f", from {fmt.data(capacity_bytes)}"
    return shown


def describe(table: pd.DataFrame, found: Shape) -> list[str]:
    """Describe which application is nearest, and where and why the trace differs from it."""
    counts = {name: sum(agreement(found, known).values()) for name, known in STUDY.items()}
    most = max(counts.values())
    nearest = [name for name, count in counts.items() if count == most]
    if most == len(TRAITS):
        return [f"In all {most} traits this trace is like {nearest[0]} in the study."]
    if most == 0:
        return ["This trace is like none of the study's applications."]
    if len(nearest) == 1:
        return [
            f"This trace is most like {nearest[0]} in the study: {most} of {len(TRAITS)} traits.",
            *differences(table, found, known=STUDY[nearest[0]]),
        ]
    quoted = {name: f"\u201c{name}\u201d" for name in nearest}
    names = fmt.listing(list(quoted.values()))
    return [
        f"This trace is equally like {names}: {most} of {len(TRAITS)} traits each.",
        *(
            f"Beside {title}: {' '.join(differences(table, found, known=STUDY[name]))}"
            for name, title in quoted.items()
        ),
    ]


def differences(table: pd.DataFrame, found: Shape, *, known: Shape) -> list[str]:
    """Describe of each trait that differs what the trace's own numbers tell about it."""
    same = agreement(found, known)
    texts = []
    if not same["busiest"]:
        share = fmt.share(table["total_share"].get(known.busiest, 0.0))
        there, here = (fmt.role_title(one.busiest) for one in (known, found))
        texts.append(
            f"There the {there} has most requests, here the {here}; of all sectors the {there} has"
            f" {share} here."
        )
        texts += _sizes(table, (known.busiest, found.busiest))
    for trait, amount in (("small", "little"), ("large", "much")):
        if not same[trait]:
            role = getattr(known, trait)
            distinct_bytes = SECTOR_BYTES * int(table["distinct_sectors"].get(role, 0))
            texts.append(
                f"There {amount} NVM serves best as {fmt.role_title(role)}, which has only"
                f" {fmt.data(distinct_bytes)} of different sectors here."
            )
    if not same["hot"]:
        texts.append(_hot_difference(table, found, known=known))
    return texts


def _sizes(table: pd.DataFrame, compared: Sequence[str]) -> list[str]:
    """Describe how long the requests of the roles are, which makes requests and sectors differ."""
    there = table.loc[[role for role in compared if role in table.index]]
    requests = there["read_count"] + there["write_count"]
    if len(there) < len(compared) or not (requests > 0).all():
        return []
    means = (SECTOR_BYTES * there["total_sectors"] / requests).round().reset_index(name="mean")
    texts = sentences("{mean:data} in the {role:role}", means)
    return [f"A request has {fmt.listing(texts)} on average."]


def _hot_difference(table: pd.DataFrame, found: Shape, *, known: Shape) -> str:
    """Describe which roles have hot sectors in the study and here, and how often."""
    in_order = table["touches"][list(fmt.in_order(table.index))].reset_index(name="count")
    texts = sentences("{count:.2f} times in the {role:role}", in_order)
    there, here = ("none" if not one.hot else f"the {titles(one)['hot']}" for one in (known, found))
    return (
        f"There the role with hot sectors is {there}, here {here}: a sector is"
        f" touched {fmt.listing(texts)} on average. A role is hot from {HOT_TOUCHES} times on."
    )
