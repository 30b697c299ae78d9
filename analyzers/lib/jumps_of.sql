-- question: How far does each request of a stream jump from the end of the one before it?
-- grain: a macro that makes a table; one row per read or write with data, as queued
-- reads: requests
--
-- The streams are those of numbered_streams. The first request of a stream jumps by null.
create macro jumps_of(streams) as table
    select
        streams.stream_number,
        streams.request_count,
        row_number() over by_stream as place,
        requests.sector
        - lag(requests.sector + requests.length_bytes // sector_bytes()) over by_stream
            as jump_sectors
    from requests
    inner join query_table(streams) as streams
        on
            requests.device = streams.device
            and requests.role = streams.role
            and coalesce(requests.operation, 'unknown') = streams.operation
    where requests.length_bytes > 0
    window by_stream as (partition by streams.stream_number order by requests.request_id);
