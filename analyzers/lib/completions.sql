-- question: Which completions did each replay log?
-- grain: one row per replay and request; a view over the files of all replays
-- reads: completion_files
create view completions as
select
    parse_path(completion_files.filename)[-2] as replay,
    completion_files.* exclude (filename)
from completion_files;
