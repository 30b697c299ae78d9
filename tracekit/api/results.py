"""What the stages answer: a headline, the answer as JSON has it, tables, and a figure."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

from tracekit.api.relation import Relation, html_text
from tracekit.errors import BudgetError, PartialError, StoppedError, UnclearError
from tracekit.escapes import escape, joined, shell_word

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tracekit.api.tables import Tables
    from tracekit.gate import Gate


class Table(property):
    """A table of the trace as an attribute of an answer, documented by what its rows are."""

    def __init__(self, name: str, rows: str) -> None:
        super().__init__(lambda result: result.trace.table(name), doc=rows)

    @overload
    def __get__(self, result: None, kind: type, /) -> Table: ...
    @overload
    def __get__(self, result: Any, kind: type | None = None, /) -> Relation: ...
    def __get__(self, result: Any, kind: Any = None, /) -> Any:
        return super().__get__(result, kind)


@dataclass(frozen=True, repr=False)
class Result:
    """An answer about a trace; its tables are lazy and read what the trace folder holds now.

    `summary` is what the command prints with `--json`.
    """

    trace: Tables
    summary: Mapping[str, Any]
    section: ClassVar[str] = ""
    """The section of the report whose figures `plot` draws."""
    main: ClassVar[str] = ""
    """The table that a notebook shows."""

    @property
    def headline(self) -> str:
        """The answer in a few sentences, one a line."""
        return joined(self.summary.get("headline", ()))

    @property
    def text(self) -> str:
        """What the command prints."""
        return self.headline

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to doubt about the answer, each with advice."""
        return tuple(warning_line(one) for one in self.summary.get("warnings", ()))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not in the answer, and why."""
        return ()

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures that `plot` can draw."""
        return self.trace.figures(self.section)

    def plot(self, figure: str | None = None) -> Axes:
        """Draw a figure of the report, the first of `figures` unless one is named."""
        return self.trace.plot(figure, section=self.section)

    def check(self) -> None:
        """Raise PartialError or BudgetError if the work was not done in full or not well enough."""

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {escape(str(self.trace.path))}\n{self.headline}"

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{html_text(line)}</p>" for line in self.headline.splitlines())
        table = self._table()
        shown = "" if table is None else table._repr_html_()
        return f"<div><strong>{type(self).__name__}</strong>{lines}{shown}</div>"

    def _table(self) -> Relation | None:
        return self.trace.table(self.main) if self.main else None


HOW_TO = "tracekit recommend --script FILE writes the commands that carry it out"


def answer_text(result: Result, how_to: str = HOW_TO) -> str:
    """Return the rows of a recommendation as text, and how to do what there is to do."""
    from tracekit.model import answer_rows

    rows = result.summary["rows"]
    lines = answer_rows.answer_text(rows)
    return joined([*lines, "", how_to] if how_to else lines) if rows else result.headline


def warning_line(warning: Any) -> str:
    """Return a warning with its advice on one line."""
    if isinstance(warning, str):
        return warning
    return f"{warning['message']}; {warning['advice']}"


def impossible_line(count: int) -> str:
    """Return how many requests are left out because they cannot be."""
    return f"requests left out, impossible: {count:,}"


class Classification(Result):
    """Roles of requests, and which blocks are hot."""

    main = "working_set"

    @property
    def headline(self) -> str:
        """How many requests each role has."""
        counts = self.summary["classification"]["requests"]
        found = ", ".join(f"{role} {count:,}" for role, count in counts.items() if count)
        return f"requests by role: {found or 'none'}"

    blocks = Table("blocks", "Each block with its role, touches and temperature.")
    working_set = Table("working_set", "Blocks touched in each window, by role.")
    volumes = Table("volumes", "Reads and writes of each device, and how many are random.")
    intervals = Table("intervals", "Times between accesses of a block, and between requests.")


class Analysis(Result):
    """The findings of the SQL analyses, as `analysis["totals"]`, and checks that failed."""

    @property
    def headline(self) -> str:
        """How many tables were made."""
        return escape(f"{len(self.summary['findings'])} tables: {', '.join(self.keys())}")

    def keys(self) -> list[str]:
        """Return the names of the findings."""
        return [finding["table"] for finding in self.summary["findings"]]

    def __getitem__(self, name: str) -> Relation:
        return self.trace.findings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    @property
    def warnings(self) -> tuple[str, ...]:
        """The checks of the data that failed, and what an earlier version's tables leave out."""
        from tracekit.store import command_line

        left_out = ", ".join(self.summary["left_out"])
        again = f"left out: {left_out}; run: {command_line('classify', self.trace.path)}"
        failed = (
            f"{one['name']} fails for {one['failing_count']:,} rows: {one['question']}"
            for one in self.summary["failures"]
        )
        return (*failed, *([again] if left_out else []))

    def _table(self) -> Relation | None:
        return self["totals"] if "totals" in self.keys() else None


@dataclass(frozen=True, repr=False)
class Recommendation(Result):
    """Where a small NVM should go, at each capacity; `file` is the script that was written."""

    file: Path | None = None
    section: ClassVar[str] = "capacity"
    main: ClassVar[str] = "placement"

    @property
    def answer(self) -> Mapping[str, Any]:
        """The placement of the headline."""
        answer: Mapping[str, Any] = self.summary["answer"]
        return answer

    @property
    def caches(self) -> Sequence[Mapping[str, Any]]:
        """What caches of the same capacity would take; see `simulate.rivals` for more."""
        caches: Sequence[Mapping[str, Any]] = self.summary["caches"]
        return caches

    @property
    def text(self) -> str:
        """The answer as a short table, and what to do next."""
        if not self._is_placed:
            return answer_text(self, "")
        if self.file is None:
            return answer_text(self)
        return answer_text(
            self, f"sh {shell_word(str(self.file))} prints the commands, and what to set"
        )

    @property
    def _is_placed(self) -> bool:
        """Whether roles, units or single blocks save time on NVM."""
        units, best = self.summary["units"], self.summary["best_placement"]
        placed = self.answer["placement"] != "base" if units is None else units["placed_count"] > 0
        return bool(placed or (best is not None and best["answer"]["gain_ratio"] > 0))

    curve = Table("placement", "Elapsed time by placement and NVM capacity.")
    units = Table("units", "Whole units, such as files or extents, and which of them to place.")

    @property
    def script(self) -> str:
        """The shell script that carries it out, and takes it back; by itself it only prints."""
        from msgspec import convert

        from tracekit.model import answer, carry_out

        found = convert(self.summary, answer.Recommendation)
        return carry_out.script(self.trace.folder, found)


@dataclass(frozen=True, repr=False)
class CacheSimulation(Result):
    """What a cache of any size would hit."""

    section = "cache"
    main = "cache_policies"

    @property
    def notes(self) -> tuple[str, ...]:
        """Curves, policies and requests that are left out."""
        left_out, volumes = self.summary["left_out"], self.summary["volumes"]
        named = ", ".join(volumes["named"])
        lines = (
            (
                volumes["others"],
                f"curves by volume: {named}; {volumes['others']:,} others together",
            ),
            (
                left_out["volumes"],
                f"curves by volume left out, a sample has none: {left_out['volumes']:,} devices",
            ),
            (
                left_out["policies"],
                f"policies left out, too many references: {', '.join(left_out['policies'])}",
            ),
            (
                left_out["small_sizes"],
                f"{left_out['small_sizes']:,} of the policies' sizes left out: the sample has too"
                " few pages for such caches",
            ),
            (left_out["impossible"], impossible_line(left_out["impossible"])),
        )
        return tuple(line for count, line in lines if count)

    curve = Table("cache_curve", "Miss ratio by size, role and operation.")
    policies = Table("cache_policies", "Miss ratio by policy and size.")
    plane = Table("cache_plane", "Latency of each pair of sizes of two levels.")
    sensitivity = Table("cache_sensitivity", "What other devices would change.")


class TierSimulation(Result):
    """Which mix of storage tiers gives most for its price."""

    section = "tiers"
    main = "tiers_key"
    mixes = Table("tiers", "IOPS and price of every mix.")
    key = Table("tiers_key", "The mixes worth comparing.")
    extents = Table("tiers_extents", "The extents that were touched.")
    skew = Table("tiers_skew", "Share of the traffic by number of extents.")
    windows = Table("tiers_windows", "Extents moved in each window of dynamic tiering.")
    sensitivity = Table("tiers_sensitivity", "What other devices would change.")


class BufferSimulation(Result):
    """What row buffers of a byte-addressable memory would hit."""

    section = "buffer"
    main = "buffer"

    rates = Table("buffer", "Hit rate by level, size and number of buffers.")


class Sensitivity(Result):
    """Whether the recommendation holds on other devices, at other hours and capacities."""

    section = "sensitivity"
    main = "sensitivity"
    changes = Table("sensitivity", "The best placement under each change.")


class Endurance(Result):
    """How long NVM of each placement lasts, and what it costs."""

    section = "endurance"
    main = "endurance"
    wear = Table("endurance", "Writes of a page by role and by placement.")


class Purchase(Result):
    """Which device to buy, or that none is worth it."""

    @property
    def chosen(self) -> str | None:
        """The profile of the device to buy; None: buy none."""
        name: str | None = self.summary["chosen"]
        return name

    @property
    def offers(self) -> Sequence[Mapping[str, Any]]:
        """What each device gains, costs and bears, with the verdict."""
        offers: Sequence[Mapping[str, Any]] = self.summary["offers"]
        return offers


class Rivals(Result):
    """What caches of the placement's capacity would take."""

    section = "rivals"
    main = "rivals"
    caches = Table("rivals", "Time and traffic of each cache.")

    @property
    def notes(self) -> tuple[str, ...]:
        """Caches that the capacity is too small for."""
        too_small = ", ".join(self.summary["too_small"])
        return (f"caches left out, the capacity is too small: {too_small}",) if too_small else ()


@dataclass(frozen=True, repr=False)
class Replay(Result):
    """A run of the trace on a target; `compare` takes it in place of its name."""

    is_partial: bool
    section = "replay"

    @property
    def name(self) -> str:
        """Name of the results in the trace folder."""
        return str(self.summary["name"])

    @property
    def path(self) -> Path:
        """Folder of the results."""
        return self.trace.path / "replays" / self.name

    @property
    def headline(self) -> str:
        """What was done, how punctually, and how long requests took."""
        from tracekit.replay.words import describe, describe_files

        return (describe_files if self.is_of_files else describe)(dict(self.summary))

    @property
    def is_of_files(self) -> bool:
        """Whether file operations were replayed, and not requests."""
        return "directory" in self.summary

    @property
    def latency(self) -> Relation:
        """Times of requests by measure, role and operation: late, service and response."""
        return self._mine(self.trace.computed("replay/replayed"))

    @property
    def distribution(self) -> Relation:
        """Cumulative shares of those times."""
        return self._mine(self.trace.computed("replay/replayed_distribution"))

    @property
    def completions(self) -> Relation:
        """One row a request, or a file operation, that ended."""
        return self._mine(
            self.trace.table("file_completions" if self.is_of_files else "completions")
        )

    def plot(self, figure: str | None = None) -> Axes:
        """Draw a figure of this replay: by default the distribution of its service times."""
        mine = [name for name in self.figures if name.startswith(f"replay-{self.name}-")]
        served = f"replay-{self.name}-service"
        return super().plot(figure or (served if served in mine else next(iter(mine), None)))

    def check(self) -> None:
        """Raise PartialError if it did not end, BudgetError if it was not punctual enough.

        With a certificate its verdict decides; UnclearError if that cannot tell.
        """
        counts, outcome = self.summary.get("counts", {}), self.summary["outcome"]
        if self.is_partial and self.is_of_files:
            is_whole, is_interrupted = outcome == "finished", outcome == "interrupted"
            raise PartialError(
                ("" if is_whole else f"the replay is not complete: {outcome}, ")
                + f"{counts['failed']:,} operations did not end as in the trace;"
                f" what was done is in {self.path}",
                hint="file operations cannot be continued: replay again" * is_interrupted,
            )
        result = self.summary.get("certificate")
        if self.is_partial and (outcome != "finished" or result is None):
            raise PartialError(
                f"the replay is not complete: {outcome}, {counts['failed']:,}"
                f" requests failed; what was done is in {self.path}"
            )
        from tracekit.replay.summary import missed

        if over := missed(self.summary.get("budget") or ()):
            raise BudgetError(f"{self.name} missed its timing budget: {over}")
        if result and result["verdict"] != "pass":
            kind = BudgetError if result["verdict"] == "fail" else UnclearError
            why = result["doubts"] or [
                f"{one['measure']} {one['verdict']}"
                for one in result["measures"]
                if one["verdict"] != "pass"
            ]
            raise kind(f"{self.name}, certificate: {result['verdict']}: {', '.join(why)}")

    def _mine(self, relation: Relation) -> Relation:
        from tracekit.query import rows_of

        return Relation(rows_of(relation._relation, "replay", value=self.name), self.trace)

    def _table(self) -> Relation | None:
        return None if self.is_of_files or self.summary["outcome"] == "dry_run" else self.latency


class Verification(Result):
    """Whether the prediction of the model held in a replay."""

    section = "verification"
    main = "verification"

    @property
    def is_held(self) -> bool | None:
        """Whether the gain is within the tolerance; None where nobody can tell."""
        held: bool | None = self.summary["is_held"]
        return held

    @property
    def verdict(self) -> str:
        """`held`, `did not hold` or `cannot tell`."""
        return str(self.summary["verdict"])

    replays = Table("verification", "Predicted and measured time of each repeat.")

    def check(self) -> None:
        """Raise BudgetError if the prediction did not hold, UnclearError if nobody can tell."""
        if self.is_held is None:
            raise UnclearError(
                f"cannot tell whether the prediction holds: {self.summary['reason']}"
            )
        if not self.is_held:
            raise BudgetError("the model's prediction did not hold")


class Proof(Verification):
    """Whether a prediction held for two targets that were measured before; its folder is a trace's.

    `summary` has the steps and devices of the round beside what a verification has.
    """


class Change(Result):
    """What traces or replays are after a change, against those before it."""

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `same` or `cannot tell`, the worst of all measures."""
        return str(self.summary["verdict"])

    @property
    def text(self) -> str:
        """The verdict on each measure, and a table."""
        from tracekit.gate import table

        return f"{self.headline}\n\n{joined(table(self._gate))}"

    @property
    def markdown(self) -> str:
        """The same for the page of a change."""
        from tracekit.gate import markdown

        return "\n".join(markdown(self._gate))

    @property
    def _gate(self) -> Gate:
        from msgspec import convert

        from tracekit.gate import Gate

        return convert(self.summary, Gate)

    def check(self) -> None:
        """Raise BudgetError for a gate with something worse, UnclearError if nobody can tell."""
        if not self.summary["is_gated"]:
            return
        if self.verdict == "worse":
            raise BudgetError(self.headline.splitlines()[0])
        if self.verdict == "cannot tell":
            raise UnclearError("cannot tell whether a measure of the gate is worse")


class Comparison(Result):
    """Replays side by side."""

    section = "comparison"
    main = "comparison"

    @property
    def text(self) -> str:
        """The answer, a table of all times, and what a gate says."""
        from tracekit.compare import table

        parts = [self.headline, joined(table(self.summary["rows"]))]
        return "\n\n".join([*parts, *(change.text for change in self.changes)])

    @property
    def changes(self) -> tuple[Change, ...]:
        """What the gate says of each name but the first; empty without one."""
        return tuple(Change(self.trace, one) for one in self.summary.get("gates", ()))

    @property
    def markdown(self) -> str:
        """The gate's tables for the page of a change."""
        return "\n\n".join(change.markdown for change in self.changes)

    def check(self) -> None:
        """Raise BudgetError or UnclearError for what the gate says, of the worst of all names."""
        for change in sorted(self.changes, key=lambda one: one.verdict != "worse"):
            change.check()

    rows = Table(
        "comparison",
        "Times by name, measure, role and operation, with ratio and confidence interval.",
    )


class Fit(Result):
    """A work profile made of a trace, and how well it matches."""

    section = "fidelity"
    main = "fidelity"

    @property
    def profile(self) -> Path:
        """The profile, a TOML file."""
        return Path(self.summary["profile"])

    @property
    def text(self) -> str:
        """The streams that were found, the answer, and where the profile is."""
        streams, left_out = self.summary["streams"], self.summary["left_out"]
        noun = "stream" if len(streams) == 1 else "streams"
        lines = [f"{self.summary['requests']:,} requests, {len(streams)} {noun}"]
        lines += [f"  left out, {why}: {count:,}" for why, count in left_out.items()]
        for stream in streams:
            name = stream["process"] or "-"
            lines.append(f"  {stream['role']:<8} {name:<16} {stream['requests']:>12,} requests")
        return "\n".join([joined(lines), self.headline, escape(str(self.profile))])

    def check(self) -> None:
        """Raise BudgetError if the profile answers a question in another way than its trace."""
        wrong = [one["about"] for one in self.summary["questions"] if not one["is_same"]]
        if wrong:
            raise BudgetError(f"the profile cannot stand for its trace {', nor '.join(wrong)}")

    fidelity = Table(
        "fidelity", "What the trace and the profile's requests have, by role and measure."
    )


class Export(Result):
    """Files of another tool's format."""

    @property
    def headline(self) -> str:
        """What is in the files, and what the format cannot hold."""
        from tracekit.writers.export import lines

        return joined(lines(dict(self.summary)))


class Report(Result):
    """The page, and which stages would add to it."""

    @property
    def path(self) -> Path:
        """The HTML file."""
        return Path(self.summary["report"])

    @property
    def headline(self) -> str:
        """Where the page is."""
        return escape(self.summary["report"])

    @property
    def notes(self) -> tuple[str, ...]:
        """Which sections are missing, and the commands that make them."""
        return tuple(
            f"not in it yet: {', '.join(titles)}; run: {command}"
            for command, titles in self.summary["missing"].items()
        )


class DeviceStudy(Result):
    """What a device does, and the profile fitted to it."""

    section = "device"
    main = "device_fit"
    steps = Table("device_steps", "Latency and IOPS of each step.")
    fit = Table("device_fit", "The parameters of the fitted profile.")

    def check(self) -> None:
        """Raise PartialError if requests failed."""
        if failed := self.summary["failed"]:
            raise PartialError(f"{failed:,} requests failed; the others are in {self.trace.path}")


@dataclass(frozen=True)
class Listing:
    """What there is to choose from: a list, or some of it in full."""

    summary: Mapping[str, Any]
    text: str

    def __repr__(self) -> str:
        return self.text


class DeviceProfiles(Listing):
    """Device profiles: a list, one in full, or several side by side."""


class Formats(Listing):
    """Formats of other tools' traces, and those of format files."""


class Personalities(Listing):
    """Personalities and work profiles: a list, or the definitions of some."""


class Counters(Result):
    """Hardware and software events of a command beside its throughput."""

    section = "counters"
    main = "counter_statistics"
    counts = Table("counters", "What each run counted.")
    statistics = Table(
        "counter_statistics", "Each event's mean and its correlation with the throughput."
    )


class Sweep(Result):
    """Runs of personalities on directories."""

    section = "file_runs"

    @property
    def headline(self) -> str:
        """How many runs were made, and the rate of each point with its spread."""
        from tracekit.sweep import summary

        made, kept = self.summary["made"], self.summary["kept"]
        first = f"{made} run{'' if made == 1 else 's'} made, {kept} there before, {self.trace.path}"
        points = self.summary["points"]
        found = summary.headline(self.trace.folder, self.summary) if points else []
        return joined([first, *found])

    runs = Table("file_runs", "Rate and latency of each run and step.")

    def check(self) -> None:
        """Raise PartialError when runs are missing, StoppedError after a signal."""
        missing, stopped_by = self.summary["missing"], self.summary["stopped_by"]
        if not (missing or stopped_by):
            return
        count = len(missing)
        first, *more = missing[0].split("\n") if missing else [""]
        told = f"{count} {'run is' if count == 1 else 'runs are'} missing: {first}"
        hint = "what was done is kept; the same command goes on"
        if stopped_by:
            code = 128 + signal.Signals[stopped_by]
            told, hint = (told, hint) if missing else ("all runs are kept", "")
            places = " and ".join(self.summary["left_behind"])
            removes = f"the next run there removes {places} first" if places else ""
            hint = "; ".join(filter(None, [hint, removes]))
            raise StoppedError(f"stopped by {stopped_by}; {told}", exit_code=code, hint=hint)
        raise PartialError(told, *more, hint=hint)


@dataclass(frozen=True, repr=False)
class Bench(Result):
    """Runs of a work profile on a target."""

    replays: tuple[Replay, ...]
    section = "replay"

    @property
    def headline(self) -> str:
        """What each run did, and where all that came of it is."""
        runs = "\n".join(one.headline for one in self.replays)
        return f"{runs}\n\n{escape(str(self.summary['report'] or self.trace.path))}"

    def check(self) -> None:
        """Raise PartialError if a run did not end."""
        if any(one.is_partial for one in self.replays):
            raise PartialError(
                f"the run is not complete; what was done is in {self.trace.path / 'replays'}"
            )


class Run(Result):
    """A trace taken through all stages."""

    @property
    def text(self) -> str:
        """The answer as a short table, and what to do next."""
        return answer_text(self)

    @property
    def report(self) -> Path:
        """The HTML file."""
        return Path(self.summary["report"])

    def check(self) -> None:
        """Raise PartialError for what is not complete."""
        if self.summary["unfinished"]:
            raise PartialError("; ".join(self.summary["unfinished"]))
