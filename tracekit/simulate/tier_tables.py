"""The tables of `tracekit simulate tiers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracekit.native.tiering import TIER_VALUES
from tracekit.schema import ROLES, SECTOR_BYTES
from tracekit.schema.tiers import (
    TIERS,
    TIERS_EXTENTS,
    TIERS_KEY,
    TIERS_SENSITIVITY,
    TIERS_SKEW,
    TIERS_WINDOWS,
)
from tracekit.simulate.mixes import dynamic_latency_us
from tracekit.simulate.tier_answer import mix_text
from tracekit.simulate.tier_study import Study, migration, moving, placement

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAMES = (
    "tiers",
    "tiers_key",
    "tiers_extents",
    "tiers_skew",
    "tiers_sensitivity",
    "tiers_windows",
)
SKEW_POINTS = 200


def tables(study: Study, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Arrow tables by name; tiers_windows only of dynamic tiering."""
    made = {
        "tiers": _mixes(study),
        "tiers_key": _key(result),
        "tiers_extents": _extents(study, result["configurations"]["static"]["best"]["index"]),
        "tiers_skew": _skew(study),
        "tiers_sensitivity": _sensitivity(study),
    }
    if study.dynamic is not None:
        made["tiers_windows"] = _windows(study, result["configurations"]["dynamic"])
    return made


def _table(schema: Any, columns: Sequence[Any]) -> Any:
    import pyarrow as pa

    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _lists(values: NDArray[Any]) -> Any:
    """Return an Arrow column with the rows of a matrix as lists."""
    import numpy as np
    import pyarrow as pa

    rows, width = values.shape
    offsets = pa.array(np.arange(0, rows * width + 1, width, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(values).ravel()))


def _mixes(study: Study) -> Any:
    static, dynamic = study.static, study.dynamic
    moved: list[Any] = [[None] * len(study.mixes.shares)] * 4
    if dynamic is not None:
        extent_bytes = study.options.extent_bytes
        moved = [
            dynamic.outcome.latency_us * 1e3,
            dynamic.outcome.iops_per_price,
            dynamic.records[:, -2] * extent_bytes,
            dynamic.records[:, -1] * extent_bytes,
        ]
    return _table(
        TIERS,
        [
            _lists(study.mixes.ratios()),
            _lists(study.shares["extents"]),
            static.price_per_gb,
            static.latency_us * 1e3,
            static.iops,
            static.iops_per_price,
            *moved,
        ],
    )


def _key(result: Mapping[str, Any]) -> Any:
    import pyarrow as pa

    rows = [
        {"configuration": name, "method": method}
        | {key: value for key, value in one.items() if key in TIERS_KEY.names}
        | {"share_ratio": list(one["share_ratio"].values())}
        for method, named in result["configurations"].items()
        for name, one in named.items()
    ]
    return pa.Table.from_pylist(rows, TIERS_KEY)


def _extents(study: Study, mix: int) -> Any:
    import numpy as np

    extents = study.extents
    sectors = study.options.extent_bytes // SECTOR_BYTES
    names = np.array([tier.name for tier in study.tiers], object)
    devices = np.array(extents.devices, object)
    return _table(
        TIERS_EXTENTS,
        [
            devices[extents.device],
            extents.number,
            extents.number * sectors,
            extents.reads,
            extents.writes,
            names[placement(study, mix)],
        ],
    )


def _skew(study: Study) -> Any:
    import pyarrow as pa

    extents = study.extents
    curves = {("all", "read"): extents.reads, ("all", "write"): extents.writes}
    for number, role in enumerate(ROLES):
        is_own = (extents.role_reads[number] > 0) | (extents.role_writes[number] > 0)
        if is_own.any():
            curves[role, "read"] = extents.role_reads[number][is_own]
            curves[role, "write"] = extents.role_writes[number][is_own]
    rows = [
        {"role": role, "operation": operation, **point}
        for (role, operation), amounts in curves.items()
        for point in _curve(amounts)
    ]
    return pa.Table.from_pylist(rows, TIERS_SKEW)


def _curve(amounts: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Return about SKEW_POINTS points of the share that the busiest extents take; none of 0."""
    import numpy as np

    total = int(amounts.sum())
    if not total:
        return []
    taken = np.sort(amounts)[::-1].cumsum()
    count = len(amounts)
    places = np.unique(np.linspace(1, count, min(count, SKEW_POINTS)).round().astype(int))
    return [
        {
            "extent_count": place,
            "capacity_ratio": place / count,
            "traffic_ratio": int(taken[place - 1]) / total,
        }
        for place in places.tolist()
    ]


def _sensitivity(study: Study) -> Any:
    import pyarrow as pa

    ratios = study.mixes.ratios()
    rows = [
        {
            "tier": change.vary.tier,
            "parameter": change.vary.parameter,
            "factor": change.vary.factor,
            "value": change.value,
            "method": change.method,
            "mix": mix_text(study.tiers, study.mixes, index=change.with_first),
            "share_ratio": ratios[change.with_first].tolist(),
            "iops_per_price": some,
            "without_iops_per_price": none,
            "gain_ratio": some / none - 1,
            "promoted_bytes": change.moved_bytes and change.moved_bytes[0],
            "demoted_bytes": change.moved_bytes and change.moved_bytes[1],
        }
        for change in study.changes
        for some, none in [change.iops_per_price]
    ]
    return pa.Table.from_pylist(rows, TIERS_SENSITIVITY)


def _windows(study: Study, configurations: Mapping[str, Any]) -> Any:
    """Return the windows of the best dynamic mix, and of the best without the first tier."""
    import pyarrow as pa

    chosen = {name: one["index"] for name, one in configurations.items() if "best" in name}
    with migration(study) as model:
        parts = [
            _one_mix(study, name, model.windows(study.mixes.places[index]))
            for name, index in chosen.items()
        ]
    return pa.concat_tables(parts)


def _one_mix(study: Study, name: str, records: NDArray[np.int64]) -> Any:
    width = TIER_VALUES * len(study.tiers)
    latency_us = dynamic_latency_us(study.tiers, records, moving=moving(study.options, study.tiers))
    moved_bytes = records[:, -2:] * study.options.extent_bytes
    return _table(
        TIERS_WINDOWS,
        [
            [name] * len(records),
            study.extents.window_numbers * study.options.window_ns,
            _lists(records[:, 0:width:TIER_VALUES]),
            _lists(records[:, 1:width:TIER_VALUES]),
            latency_us * 1e3,
            moved_bytes[:, 0],
            moved_bytes[:, 1],
        ],
    )
