-- question: When is each volume of a set active?
-- grain: one row per volume, device and window; a view over the files of all volumes
-- reads: set_activity_files
create view set_activity as
select
    parse_path(set_activity_files.filename, 'forward_slash')[-3] as volume,
    set_activity_files.* exclude (filename)
from set_activity_files;
