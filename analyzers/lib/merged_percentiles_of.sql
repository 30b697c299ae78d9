-- question: What are the extreme, mean and typical values of each kind of row, by buckets of them?
-- grain: a macro that makes a table; one row per combination of the other columns of the source
-- reads: no table
--
-- The source is a step or a table with the columns of a log-linear bucket: bucket_count,
-- bucket_sum, bucket_min, bucket_max. Its buckets are as fine as those of the result or finer;
-- several rows may be of one bucket. Minimum, mean and maximum are exact. A percentile is by
-- nearest rank the largest value of its bucket.
create macro merged_percentiles_of(source, octave_bits) as table
    with buckets as (
        select
            * exclude (bucket_count, bucket_sum, bucket_min, bucket_max),
            log_bucket(bucket_min, octave_bits) as bucket,
            sum(bucket_count)::bigint as bucket_count,
            sum(bucket_sum)::hugeint as bucket_sum,
            min(bucket_min) as bucket_min,
            max(bucket_max) as bucket_max
        from query_table(source)
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
