-- question: What are the extreme, mean and typical values of each kind of row?
-- grain: a macro that makes a table; one row per combination of the other columns of the source
-- reads: no table
--
-- The source is a step or a table with the column `value`, a whole number; nulls are not counted.
-- Minimum, mean and maximum are exact. A percentile is by nearest rank the largest value of its
-- log-linear bucket. Buckets of parts of a trace add up to those of the whole.
create macro percentiles_of(source, octave_bits) as table
    with buckets as (
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

    ranked as (
        select
            *,
            sum(bucket_count) over (kind order by bucket) as upto_count,
            sum(bucket_count) over kind as total_count
        from buckets
        window kind as (
            partition by row(*columns(
                * exclude (bucket, bucket_count, bucket_sum, bucket_min, bucket_max)
            ))
        )
    )

    select
        * exclude (
            bucket, bucket_count, bucket_sum, bucket_min, bucket_max, upto_count, total_count
        ),
        sum(bucket_count)::bigint as value_count,
        min(bucket_min) as value_min,
        sum(bucket_sum) / sum(bucket_count) as value_avg,
        min(bucket_max) filter (where upto_count >= 0.5 * total_count) as value_p50,
        min(bucket_max) filter (where upto_count >= 0.9 * total_count) as value_p90,
        min(bucket_max) filter (where upto_count >= 0.99 * total_count) as value_p99,
        min(bucket_max) filter (where upto_count >= 0.999 * total_count) as value_p999,
        max(bucket_max) as value_max
    from ranked
    group by all;
