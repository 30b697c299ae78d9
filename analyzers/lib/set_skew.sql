-- question: How skewed is each volume of a set?
-- grain: one row per volume, device and operation; a view over the files of all volumes
-- reads: set_skew_files
create view set_skew as
select
    parse_path(set_skew_files.filename, 'forward_slash')[-3] as volume,
    set_skew_files.* exclude (filename)
from set_skew_files;
