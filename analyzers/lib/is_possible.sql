-- question: Is this a place and a length that a disk can have?
-- grain: a macro of a sector and a length in bytes: up to 4 GiB, below 512 PiB
-- reads: no table
create macro is_possible(sector, length_bytes) as (
    length_bytes between 1 and 4294967296
    and sector between 0 and 1125899906842624
);
