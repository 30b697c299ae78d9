"""The tables of all volumes of a set in one database, a column `volume` before their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from tracekit import query
from tracekit.arrow import open_table, read_whole
from tracekit.errors import InputError, TracekitError
from tracekit.fleet.by_time import offsets_of
from tracekit.fleet.catalogue import TraceSet
from tracekit.fleet.groups import RESULT as GROUPS
from tracekit.fleet.groups import Groups
from tracekit.fleet.placement import RESULT as PLACEMENT
from tracekit.fleet.placement import FleetPlacement
from tracekit.metadata import read_object, validate
from tracekit.store import INFO_NAME, TraceFolder, command_line

Kind = TypeVar("Kind", FleetPlacement, Groups)
MEMORY_MIB = 256
MOST_WINDOWS = 240
MINUTE_NS = 60 * 10**9
OF_VOLUMES = {
    "set_totals": "volume/volume_totals",
    "set_skew": "volume/skew",
    "set_sequentiality": "workload/sequentiality",
    "set_distribution": "latency/distribution",
    "set_activity": "volume/activity",
}
"""The findings of each volume that are read, by the name of their view."""
NEEDED = (
    *(f"findings/{name.rpartition('/')[2]}.parquet" for name in OF_VOLUMES.values()),
    "recommendation.json",
)
VOLUMES = pa.schema(
    [
        ("volume", pa.string()),
        ("request_count", pa.int64()),
        ("duration_ns", pa.int64()),
        ("offset_ns", pa.int64()),
    ]
)
SHARES = pa.schema(
    [
        ("volume", pa.string()),
        ("capacity_bytes", pa.int64()),
        ("placement", pa.string()),
        ("saved_s_an_hour", pa.float64()),
        ("saved_s_an_hour_a_gib", pa.float64()),
        ("saved_ratio", pa.float64()),
        ("doubled_bytes", pa.int64()),
    ]
)
SHARE_ROLES = pa.schema(
    [("volume", pa.string()), ("role", pa.string()), ("role_bytes", pa.int64())]
)
MADE = ("set_volumes", "set_shares", "set_share_roles", "volume_measures", "volume_values")
"""The tables that are made for the database."""


class SetTables:
    """The findings of all volumes, the division of an NVM, and groups, as they are now.

    A volume that is missing or damaged, or has not all findings, is left out of the findings and
    named; memory is bounded, as no table of requests is read.
    """

    def __init__(self, traces: TraceSet) -> None:
        self.traces = traces
        self.unusable: dict[str, str] = {}
        """Volumes that are missing or damaged, and why."""
        self.unanalyzed: dict[str, str] = {}
        """Other volumes without all findings, and why."""
        self.folders: dict[str, TraceFolder] = {}
        for volume, folder in traces.folders(INFO_NAME, *NEEDED):
            if isinstance(folder, InputError):
                self.unusable[volume.name] = str(folder)
            else:
                self.folders[volume.name] = folder
        self.placement = self._result(PLACEMENT, FleetPlacement, "recommend")
        self.groups = self._result(GROUPS, Groups, "set groups")
        offsets = offsets_of({name: one.info for name, one in self.folders.items()})
        self.is_aligned = offsets is not None
        """Whether the times of all volumes are of one clock; else all begin at 0."""
        self.offsets = offsets or dict.fromkeys(self.folders, 0)
        ends = (
            self.offsets[name] + one.info.clock.duration_ns for name, one in self.folders.items()
        )
        self.duration_ns = max(ends, default=0)
        minutes = max(1, -(-self.duration_ns // (MINUTE_NS * MOST_WINDOWS)))
        self.window_s = minutes * 60
        """Of the activity of the set: at most 240 windows."""
        self._connect()

    @property
    def analyzed(self) -> list[str]:
        """The volumes with all findings."""
        return [name for name in self.folders if name not in self.unanalyzed]

    def run(self, name: str, **parameters: int) -> Any:
        """Return the result of a query of `analyzers/set` as an Arrow table."""
        return query.run(self._connection, name, **parameters)

    def _result(self, name: str, kind: type[Kind], command: str) -> Kind | None:
        file = self.traces.path / name
        if not file.is_file():
            return None
        hint = f"make it again: {command_line(command, self.traces.path)}"
        return validate(read_object(file, hint=hint), kind, file=file, hint=hint)

    def _connect(self) -> None:
        """Make the database; volumes whose findings cannot be read are left out."""
        files: dict[str, dict[str, Path]] = {}
        for name, folder in self.folders.items():
            try:
                files[name] = _findings(folder)
            except InputError as error:
                self.unanalyzed[name] = self.traces.shown(str(error))
        try:
            self._fill(files)
        except TracekitError:
            damaged = {name: why for name in files if (why := _why_damaged(files[name]))}
            if not damaged:
                raise
            self.unanalyzed |= damaged
            self._fill({name: one for name, one in files.items() if name not in damaged})

    def _fill(self, files: Mapping[str, Mapping[str, Path]]) -> None:
        """Make the views and tables, and run what reads all pages of the findings."""
        self._connection = query.empty(near=self.traces.path, memory_mib=MEMORY_MIB)
        for name, table in self._made():
            query.add_table(self._connection, name, table=table)
        self.measures = self.activity = None
        if files:
            for view in OF_VOLUMES:
                paths = (one[view] for one in files.values())
                query.add_view(self._connection, f"{view}_files", *paths)
            self.measures = self.run("set/volume_measures")
            query.add_table(self._connection, "volume_measures", table=self.measures)
            self.activity = self.run("set/activity_of_set", window_s=self.window_s)

    def _made(self) -> Any:
        counts = {one.name: one.requests for one in self.traces.volumes}
        volumes = [
            {
                "volume": name,
                "request_count": counts[name],
                "duration_ns": folder.info.clock.duration_ns,
                "offset_ns": self.offsets[name],
            }
            for name, folder in self.folders.items()
        ]
        shares = [
            {"volume": one.trace, **{name: getattr(one, name) for name in SHARES.names[1:]}}
            for one in (self.placement.shares if self.placement else ())
            if one.trace in self.folders
        ]
        roles = [
            {"volume": one.trace, "role": role, "role_bytes": size}
            for one in (self.placement.shares if self.placement else ())
            for role, size in one.role_bytes.items()
        ]
        yield "set_volumes", pa.Table.from_pylist(volumes, VOLUMES)
        yield "set_shares", pa.Table.from_pylist(shares, SHARES)
        yield "set_share_roles", pa.Table.from_pylist(roles, SHARE_ROLES)


def _findings(folder: TraceFolder) -> dict[str, Path]:
    """Return the findings of a volume; InputError where one is missing or of an older version."""
    found = {}
    for view, name in OF_VOLUMES.items():
        source = query.read(name)
        file = folder.require(f"findings/{source.table}", made_by="analyze")
        hint = f"run: {command_line('analyze', folder.path)}"
        open_table(file, [*source.columns], hint=hint).close()
        found[view] = file
    return found


def _why_damaged(files: Mapping[str, Path]) -> str | None:
    try:
        for file in files.values():
            read_whole(file)
    except TracekitError as error:
        return str(error)
    return None
