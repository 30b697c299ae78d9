-- question: How are the values of each kind of row distributed?
-- grain: a macro that makes a table; one row per combination of the other columns of the source
-- and log-linear bucket of its values
-- reads: no table
--
-- The source is a step or a table with the column `value`, a whole number; nulls are not counted.
-- `low` and `high` are the smallest value of the bucket and of the next one.
create macro distribution_of(source, octave_bits) as table
    with value_buckets as (
        select
            * exclude (value),
            log_bucket(value, octave_bits) as bucket,
            count(*) as bucket_count,
            min(value) as bucket_min
        from query_table(source)
        where value is not null
        group by all
    ),

    without_number as (
        select * exclude (bucket)
        from value_buckets
    )

    select *
    from merged_distribution_of(without_number, octave_bits);
