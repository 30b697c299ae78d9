-- question: Which devices, roles and operations do the requests have?
-- grain: types whose values are these words; a number of a word is its code and 1, 0 for null
-- reads: requests
--
-- A type codes row by row: a join would not keep the order of the requests.
drop type if exists device_word;

drop type if exists role_word;

drop type if exists operation_word;

create type device_word as enum ( -- noqa: CV07
    select distinct device::varchar
    from requests
    where device is not null
);

create type role_word as enum ( -- noqa: CV07
    select distinct role::varchar
    from requests
    where role is not null
);

create type operation_word as enum ( -- noqa: CV07
    select distinct operation::varchar
    from requests
    where operation is not null
);
