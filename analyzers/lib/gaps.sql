-- question: How long is it from each request of a role to its next?
-- grain: a view; one row per request as queued, but the first of each role
-- reads: requests
-- column: role: role of both requests
-- column: gap_ns: time from one queue event to the next
create view gaps as
with roles as (
    select * from gaps_of('fs')
    union all
    select * from gaps_of('journal')
    union all
    select * from gaps_of('swap')
    union all
    select * from gaps_of('other')
    union all
    select * from gaps_of('unknown')
)

select
    role,
    gap_ns
from roles
where gap_ns is not null;
