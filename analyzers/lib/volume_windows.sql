-- question: How much does each device read and write in windows of a given length?
-- grain: a macro that makes a table; one row per device and window with requests
-- reads: requests
--
-- Reads and writes as they count for blocks: those with data and a place that can be, and as reads
-- those whose operation the format does not say. The window of requests without a time is null.
create macro volume_windows(length_ns) as table
    with traffic as (
        select
            requests.device,
            requests.operation,
            coalesce(requests.queue_ns, requests.issue_ns, requests.complete_ns)
            // length_ns as window_number,
            count(*) as request_count,
            sum(requests.length_bytes)::bigint as request_bytes,
            min(coalesce(requests.queue_ns, requests.issue_ns, requests.complete_ns)) as first_ns,
            max(coalesce(requests.queue_ns, requests.issue_ns, requests.complete_ns)) as last_ns
        from requests
        where is_possible(requests.sector, requests.length_bytes)
        group by all
    ),

    known as (
        select
            *,
            coalesce(traffic.operation, 'read') as kind
        from traffic
    )

    select
        known.device,
        known.window_number,
        coalesce(sum(known.request_count) filter (where known.kind = 'read'), 0)::bigint
            as read_count,
        coalesce(sum(known.request_count) filter (where known.kind = 'write'), 0)::bigint
            as write_count,
        coalesce(sum(known.request_bytes) filter (where known.kind = 'read'), 0)::bigint
            as read_bytes,
        coalesce(sum(known.request_bytes) filter (where known.kind = 'write'), 0)::bigint
            as write_bytes,
        min(known.first_ns) as first_ns,
        max(known.last_ns) as last_ns
    from known
    where known.kind in ('read', 'write')
    group by known.device, known.window_number;
