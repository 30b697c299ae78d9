-- question: When did the kernel queue, issue and end the requests of each observed replay?
-- grain: one row per replay and request; a view over the files of all replays
-- reads: observed_files
create view observed as
select
    parse_path(observed_files.filename)[-2] as replay,
    observed_files.* exclude (filename)
from observed_files;
