-- question: How sequential is each volume of a set?
-- grain: one row per volume, device, role and operation; a view over the files of all volumes
-- reads: set_sequentiality_files
create view set_sequentiality as
select
    parse_path(set_sequentiality_files.filename, 'forward_slash')[-3] as volume,
    set_sequentiality_files.* exclude (filename)
from set_sequentiality_files;
