-- question: How many bytes has a block, the unit of working sets and hotness?
-- grain: a macro without parameters
-- reads: no table
create macro block_bytes() as 4096;
