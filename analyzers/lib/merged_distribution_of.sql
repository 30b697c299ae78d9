-- question: How are the values of each kind of row distributed, by buckets of them?
-- grain: a macro that makes a table; one row per combination of the other columns of the source
-- and log-linear bucket
-- reads: no table
--
-- The source is a step or a table with the columns bucket_count and bucket_min of log-linear
-- buckets, as fine as those of the result or finer. `low` and `high` are the smallest value of the
-- bucket and of the next one.
create macro merged_distribution_of(source, octave_bits) as table
    with buckets as (
        select
            * exclude (bucket_count, bucket_min),
            log_bucket(bucket_min, octave_bits) as bucket,
            sum(bucket_count)::bigint as value_count
        from query_table(source)
        group by all
    )

    select
        * exclude (bucket, value_count),
        log_bucket_low(bucket, octave_bits) as low,
        log_bucket_low(bucket + 1, octave_bits) as high,
        value_count,
        sum(value_count) over (kind order by bucket) / sum(value_count) over kind as smaller_ratio
    from buckets
    window kind as (partition by row(*columns(* exclude (bucket, value_count))));
