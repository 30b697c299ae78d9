-- question: Which kinds of requests does a trace have?
-- grain: a table; one row per combination of what the analyses tell requests apart by
-- reads: requests
-- column: device, role, operation, is_preflush: of the requests
-- column: has_data, has_transfer: they have bytes; the time of their last byte is known
-- column: device_code, role_code, operation_code, flag_code: numbers from 0 for the same, as in
-- rows_to_count
create or replace macro flag_code(is_preflush, length_bytes, transfer_ns) as (
    coalesce(is_preflush, false)::integer
    + coalesce(length_bytes > 0, false)::integer * 2
    + (transfer_ns is not null)::integer * 4
);

create or replace temp table kinds_of_requests as
with kinds as (
    select distinct
        device,
        role,
        operation,
        flag_code(is_preflush, length_bytes, transfer_ns) as flag_code
    from requests
)

select
    device::varchar as device,
    role::varchar as role,
    operation::varchar as operation,
    flag_code & 1 > 0 as is_preflush,
    flag_code & 2 > 0 as has_data,
    flag_code & 4 > 0 as has_transfer,
    coalesce(enum_code(device::device_word)::integer + 1, 0) as device_code,
    coalesce(enum_code(role::role_word)::integer + 1, 0) as role_code,
    coalesce(enum_code(operation::operation_word)::integer + 1, 0) as operation_code,
    flag_code
from kinds
order by device, role, operation, flag_code;
