-- question: Which whole number stands for no value where a column cannot be null?
-- grain: a macro; the smallest of 64 bits, as for the library (replayer/model/log_buckets.h)
-- reads: no table
create macro no_value() as (-9223372036854775807 - 1);
