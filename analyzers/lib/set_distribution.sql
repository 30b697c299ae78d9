-- question: How are the times in each volume of a set distributed?
-- grain: one row per volume, step, role, operation and bucket; a view over the files of all volumes
-- reads: set_distribution_files
create view set_distribution as
select
    parse_path(set_distribution_files.filename, 'forward_slash')[-3] as volume,
    set_distribution_files.* exclude (filename)
from set_distribution_files;
