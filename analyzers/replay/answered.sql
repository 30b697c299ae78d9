-- question: How long did the requests of each replay wait to be answered, pieces taken together?
-- grain: one row per replay and role; requests all of whose pieces were done
-- reads: requests, completions
-- column: replay: name of the replay
-- column: role: of the requests
-- column: request_count: requests of the trace, one on several targets counted once
-- column: piece_count: what was submitted for them
-- column: response_avg_ns: from intended to the completion of the last piece; exact
-- column: service_ns: from submission to completion, all pieces of all requests
with requests_done as (
    select
        completions.replay,
        requests.role,
        requests.request_id,
        count(*) as pieces,
        max(completions.complete_ns) - min(completions.intended_ns) as response_ns,
        sum(completions.complete_ns - completions.submit_ns) as service_ns
    from completions inner join requests on completions.request_id = requests.request_id
    group by completions.replay, requests.role, requests.request_id
    having bool_and(completions.status = 'done')
),

answered as (
    select
        replay,
        role,
        count(*) as request_count,
        sum(pieces)::bigint as piece_count,
        sum(response_ns) / count(*) as response_avg_ns,
        sum(service_ns)::bigint as service_ns
    from requests_done
    group by replay, role
)

select *
from answered
order by replay, role
