-- question: Which tables and views can a user of this database read?
-- grain: one row per view, in the order of the alphabet
-- reads: no table
-- column: view_name: name of the view
with own as (
    select view_name
    from duckdb_views()
    where
        not internal
        and view_name not in (
            'completion_files',
            'file_completion_files',
            'request_times',
            'request_gaps',
            'request_jumps',
            'request_runs',
            'replay_measures',
            'replay_windows',
            'replay_lengths',
            'replay_outcomes'
        )
)

select *
from own
order by view_name
