"""The what-if questions of a trace: tiers, caches, row buffers, sensitivity and endurance."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tracekit import choices
from tracekit.api import results, values
from tracekit.api.tables import Tables, writes
from tracekit.api.values import Duration, Numbers, PathLike, Size, Sizes, Texts
from tracekit.asked import keeps_words
from tracekit.errors import UsageError
from tracekit.progress import row_progress, step_progress
from tracekit.units import size_text


@dataclass(frozen=True)
class Simulate:
    """What tiers, caches or row buffers would gain, and whether the recommendation holds."""

    trace: Tables

    def locked(self, *, shared: bool = False) -> AbstractContextManager[None]:
        """Hold the trace folder's lock."""
        return self.trace.locked(shared=shared)

    @keeps_words
    @writes
    def tiers(
        self,
        *,
        extent: Size = "1GiB",
        tiers: Texts = "",
        step: int = 1,
        what_if: PathLike | None = None,
        dynamic: bool = False,
        window: Duration = "2h",
        migration: float = 41.0,
        charge_migration: bool = False,
        amount: choices.Amount = "bytes",
        rounding: choices.Rounding = "largest-remainder",
        capacity: Size = "",
        profiles: PathLike | None = None,
        vary: Texts | None = None,
        migration_cost: float = 1.0,
        promotion_cost: float = 1.0,
        demotion_cost: float = 1.0,
        move_by: choices.MoveBy = "latency",
    ) -> results.TierSimulation:
        """Say which mix of storage tiers gives most IOPS for its price, with the first and without.

        `migration` is MiB/s, `step` percent of the capacity between mixes.
        """
        from tracekit.model.tier_study import TierOptions, parse_vary
        from tracekit.model.tiers import simulate_tiers

        choices.check_choice(amount, choices.Amount, option="--amount")
        choices.check_choice(rounding, choices.Rounding, option="--rounding")
        choices.check_choice(move_by, choices.MoveBy, option="--move-by")
        options = values.chosen(
            TierOptions,
            locals(),
            extent_bytes=values.size_bytes(extent, option="--extent"),
            tiers=tuple(values.parts(tiers)),
            step_percent=step,
            capacity_bytes=values.maybe_capacity(capacity),
            is_dynamic=dynamic,
            window_s=values.seconds(window, option="--window") or 0.0,
            migration_mib_s=migration,
            charges_migration=charge_migration,
            moves_by=move_by,
            vary=parse_vary(values.texts(vary)),
        )
        with step_progress("simulate tiers") as on_step:
            simulate_tiers(self.trace.folder, options, on_step=on_step)
        return results.TierSimulation(self.trace, self.trace.kept("simulations/tiers.json"))

    @keeps_words
    @writes
    def cache(
        self,
        *,
        page: Size = "4KiB",
        sizes: Sizes = "",
        policy: choices.Policy | Sequence[choices.Policy] | str = "",
        write: choices.WritePolicy = "through",
        write_miss: choices.WriteMiss = "allocate",
        levels: choices.Levels = "exclusive",
        level_policy: str = "",
        level_write: choices.WritePolicy = "through",
        volumes: int = 4,
        sample_rate: float | None = None,
        samples: int | None = None,
        pcm: str = "ssd-pcm",
        flash: str = "ssd-emlc",
        base: str = "network-storage",
        profiles: PathLike | None = None,
        vary: Texts | None = None,
    ) -> results.CacheSimulation:
        """Give the miss ratio of every cache size, of policies, and of PCM above flash."""
        from tracekit.model.cache import CacheOptions, parse_policies, simulate_cache
        from tracekit.model.cache_plane import parse_changes

        choices.check_choice(write, choices.WritePolicy, option="--write")
        choices.check_choice(write_miss, choices.WriteMiss, option="--write-miss")
        choices.check_choice(levels, choices.Levels, option="--levels")
        choices.check_choice(level_write, choices.WritePolicy, option="--level-write")
        options = values.chosen(
            CacheOptions,
            locals(),
            page_bytes=values.size_bytes(page, option="--page"),
            sizes_bytes=values.sizes_bytes(sizes, option="--sizes"),
            policies=tuple(dict.fromkeys(values.parts(policy))) or choices.words(choices.Policy),
            writes=write,
            writes_allocate=write_miss == "allocate",
            level_policies=parse_policies(level_policy),
            level_writes=level_write,
            sample_pages=samples,
            changes=parse_changes(values.texts(vary)),
        )
        with row_progress("read requests") as on_rows, step_progress("simulate") as on_step:
            simulate_cache(self.trace.folder, options, on_rows=on_rows, on_step=on_step)
        return results.CacheSimulation(self.trace, self.trace.kept("simulations/cache.json"))

    @keeps_words
    @writes
    def buffer(
        self,
        *,
        sizes: Sizes = "32B,64B,128B,256B,512B,1KiB,2KiB,4KiB",
        buffers: Numbers = "1,2,4,8,16",
        caches: str = "",
        access: Size = "64B",
        instruction_ns: float = 0.42,
        hit_ns: float = 12.5,
        read_ns: float = 55.0,
        write_ns: float = 150.0,
        dram_ns: float = 25.0,
        what_if: PathLike | None = None,
    ) -> results.BufferSimulation:
        """Say how often row buffers of a memory would hit, of a trace of memory accesses."""
        from tracekit.model.buffer import BufferOptions, simulate_buffer
        from tracekit.model.what_if import Times

        options = BufferOptions(
            tuple(sorted(set(values.sizes_bytes(sizes, option="--sizes")))),
            tuple(sorted(set(values.numbers(buffers, option="--buffers")))),
            values.size_bytes(access, option="--access"),
            caches,
            instruction_ns,
            Times(hit_ns, read_ns, write_ns, dram_ns),
            values.maybe_path(what_if),
        )
        with row_progress("read accesses") as on_rows:
            simulate_buffer(self.trace.folder, options, on_rows=on_rows)
        return results.BufferSimulation(self.trace, self.trace.kept("simulations/buffer.json"))

    @keeps_words
    @writes
    def sensitivity(
        self,
        *,
        placement: Size = "answer",
        factors: float | str | Sequence[float] = "0.5,2",
        windows: int | str | None = None,
    ) -> results.Sensitivity:
        """Say whether the recommendation holds: other devices, each window, other capacities."""
        from tracekit.model.sensitivity import SensitivityOptions, simulate_sensitivity

        options = SensitivityOptions(
            placement=size_text(placement),
            factors=tuple(sorted({_factor(text) for text in values.parts(factors)})),
            windows=None if windows is None else str(windows),
        )
        with step_progress("simulate") as on_step:
            simulate_sensitivity(self.trace.folder, options, on_step=on_step)
        return results.Sensitivity(self.trace, self.trace.kept("simulations/sensitivity.json"))

    @keeps_words
    @writes
    def endurance(
        self,
        *,
        placement: Size = "answer",
        device: str = "",
        write_amplification: float = 1.0,
        what_if: PathLike | None = None,
        profiles: PathLike | None = None,
    ) -> results.Endurance:
        """Say how often pages are written, how long NVM of each placement lasts, and its price."""
        from tracekit.model.endurance import EnduranceOptions, simulate_endurance

        options = EnduranceOptions(
            size_text(placement),
            device,
            values.maybe_path(profiles),
            values.maybe_path(what_if),
            write_amplification,
        )
        with step_progress("simulate endurance") as on_step:
            simulate_endurance(self.trace.folder, options, on_step=on_step)
        return results.Endurance(self.trace, self.trace.kept("simulations/endurance.json"))

    @keeps_words
    @writes
    def purchase(
        self,
        *,
        nvm: Texts = "",
        budget: float | None = None,
        growth: float = 1.0,
        capacity: Size = "",
        share: Texts | None = None,
        profiles: PathLike | None = None,
    ) -> results.Purchase:
        """Say which device to buy, or none: gain, price and lifetime; how traces share one NVM.

        `share` are other trace folders; `growth` is the factor of the load a year.
        """
        from tracekit.model.purchase import PurchaseOptions, simulate_purchase

        options = PurchaseOptions(
            tuple(values.parts(nvm)),
            budget,
            growth,
            values.maybe_capacity(capacity),
            values.maybe_path(profiles),
            tuple(Path(one) for one in values.texts(share)),
        )
        with step_progress("simulate purchase") as on_step:
            simulate_purchase(self.trace.folder, options, on_step=on_step)
        return results.Purchase(self.trace, self.trace.kept("simulations/purchase.json"))

    @keeps_words
    @writes
    def rivals(self, *, placement: Size = "answer") -> results.Rivals:
        """Say whether a cache beats the recommended placement: dm-cache, bcache, ZFS and others."""
        from tracekit.model.cache_rivals import simulate_rivals

        with row_progress("read requests") as on_rows:
            simulate_rivals(self.trace.folder, placement=size_text(placement), on_rows=on_rows)
        return results.Rivals(self.trace, self.trace.kept("simulations/rivals.json"))


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"--factors: '{text}' is not a number", hint="for example --factors 0.5,2"
        ) from None
