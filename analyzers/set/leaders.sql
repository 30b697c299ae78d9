-- question: Which volumes of a set matter most: by NVM, by requests, by response times?
-- grain: one row per ranking and place in it
-- reads: volume_measures
-- parameter: place_count (places, 1 to 1000, default 10): of each ranking
-- column: ranking: the column of volume_measures by which volumes are ranked
-- column: place: from 1 on, the largest value first
-- column: volume: volume of the set
-- column: measured: its value
with valued as (
    select
        volume,
        saved_s_an_hour_a_gib,
        request_count::double as request_count,
        response_p99_ns::double as response_p99_ns
    from volume_measures
),

long as (
    unpivot valued
    on saved_s_an_hour_a_gib, request_count, response_p99_ns
    into name ranking value measured
),

leaders as (
    select
        ranking,
        row_number() over (partition by ranking order by measured desc, volume asc) as place,
        volume,
        measured
    from long
    where measured > 0
)

select *
from leaders
where place <= $place_count
order by ranking, place
