-- question: What is each volume of a set like?
-- grain: one row per volume and device; a view over the files of all volumes
-- reads: set_totals_files
create view set_totals as
select
    parse_path(set_totals_files.filename, 'forward_slash')[-3] as volume,
    set_totals_files.* exclude (filename)
from set_totals_files;
