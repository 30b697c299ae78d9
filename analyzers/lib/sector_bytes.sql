-- question: How many bytes has a sector?
-- grain: a macro without parameters
-- reads: no table
create macro sector_bytes() as 512;
