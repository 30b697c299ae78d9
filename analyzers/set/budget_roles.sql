-- question: Which roles get how much of the NVM of a set?
-- grain: one row per role
-- reads: set_share_roles
-- column: role: role of what is placed, or blocks whatever their role
-- column: placed_bytes: NVM of all volumes
-- column: volume_count: volumes that get some
with budget_roles as (
    select
        role,
        sum(role_bytes)::bigint as placed_bytes,
        count(*) as volume_count
    from set_share_roles
    where role_bytes > 0
    group by role
)

select *
from budget_roles
order by placed_bytes desc, role asc
