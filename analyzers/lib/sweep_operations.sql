-- question: Which operations did each run of a sweep make?
-- grain: one row per run and operation; a view over the files of all runs that kept theirs
-- reads: sweep_operation_files
create view sweep_operations as
select
    parse_filename(sweep_operation_files.filename, true) as run_id,
    sweep_operation_files.* exclude (filename)
from sweep_operation_files;
