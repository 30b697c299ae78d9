-- question: In which order did the requests of an import arrive?
-- grain: one row per request, in order of time, and of the file where times are equal
-- reads: arrivals
with placed as (
    select *
    from arrivals
)

select *
from placed
order by arrival_ns, file_row
