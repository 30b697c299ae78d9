-- question: Which kind of request is it, as a journal asks for them?
-- grain: a macro; one text for a request
-- reads: no table
--
-- A write without data that flushes is a flush. One with both flags is a journal's commit: to the
-- device it is a flush, its data and a flush, and one request all the same.
create macro request_kind(operation, length_bytes, is_fua, is_preflush) as (
    case
        when operation not in ('write', 'flush') then operation
        when length_bytes = 0 and (operation = 'flush' or is_preflush) then 'flush'
        when is_fua and is_preflush then 'preflush FUA write'
        when is_fua then 'FUA write'
        when is_preflush then 'preflush write'
        else 'write'
    end
);
