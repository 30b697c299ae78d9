-- question: How far apart are the volumes of a set?
-- grain: one row per measure
-- reads: volume_values
-- column: measure: a column of volume_measures
-- column: volume_count: volumes of which it is known
-- column: least, p10, p25, median, p75, p90, most: of these volumes, nearest rank
with spread as (
    select
        measure,
        count(*) as volume_count,
        min(measured) as least,
        quantile_disc(measured, 0.1) as p10,
        quantile_disc(measured, 0.25) as p25,
        quantile_disc(measured, 0.5) as median,
        quantile_disc(measured, 0.75) as p75,
        quantile_disc(measured, 0.9) as p90,
        max(measured) as most
    from volume_values
    group by measure
)

select *
from spread
order by measure
