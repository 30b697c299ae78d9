-- question: Which is the smallest value of a log-linear bucket?
-- grain: a macro, the inverse of log_bucket
-- reads: no table
create macro log_bucket_low(bucket, bits) as (
    case
        when bucket < (2::bigint << bits) then bucket
        else (bucket - (((bucket >> bits) - 1) << bits)) << ((bucket >> bits) - 1)
    end
)::bigint;
