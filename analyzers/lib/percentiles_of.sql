-- question: What are the extreme, mean and typical values of each kind of row?
-- grain: a macro that makes a table; one row per combination of the other columns of the source
-- reads: no table
--
-- The source is a step or a table with the column `value`, a whole number; nulls are not counted.
-- Minimum, mean and maximum are exact. A percentile is by nearest rank the largest value of its
-- log-linear bucket. Buckets of parts of a trace add up to those of the whole.
create macro percentiles_of(source, octave_bits) as table
    with value_buckets as (
        select
            * exclude (value),
            log_bucket(value, octave_bits) as bucket,
            count(*) as bucket_count,
            sum(value) as bucket_sum,
            min(value) as bucket_min,
            max(value) as bucket_max
        from query_table(source)
        where value is not null
        group by all
    ),

    without_number as (
        select * exclude (bucket)
        from value_buckets
    )

    select *
    from merged_percentiles_of(without_number, octave_bits);
