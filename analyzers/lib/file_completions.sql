-- question: Which file operations did each replay log?
-- grain: one row per replay and operation; a view over the files of all replays
-- reads: file_completion_files
create view file_completions as
select
    parse_path(file_completion_files.filename)[-2] as replay,
    file_completion_files.* exclude (filename)
from file_completion_files;
