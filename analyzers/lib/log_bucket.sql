-- question: In which log-linear bucket is a whole number, with 2^bits buckets an octave?
-- grain: a macro; values below 2^(bits + 1) have a bucket of their own
-- reads: no table
--
-- Histograms of these buckets merge by addition. log2 of a double may round 2^k - 1 up to k for
-- large k; both shifts then lead to the same bucket number, so the result stays exact.
create macro log_bucket(value, bits) as (
    case
        when value < (1::bigint << bits) then value
        else
            ((floor(log2(value))::bigint - bits) << bits)
            + (value >> (floor(log2(value))::bigint - bits))
    end
)::bigint;
