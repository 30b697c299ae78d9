-- question: What does each measure say of each volume of a set?
-- grain: a view; one row per volume and measure that is known of it
-- reads: volume_measures
create view volume_values as
unpivot (
    select
        volume,
        footprint_bytes::double as footprint_bytes,
        request_count::double as request_count,
        burstiness::double as burstiness,
        write_ratio::double as write_ratio,
        sequential_ratio::double as sequential_ratio,
        read_top_10_ratio::double as read_top_10_ratio,
        write_top_10_ratio::double as write_top_10_ratio,
        response_p99_ns::double as response_p99_ns
    from volume_measures
)
on columns(* exclude volume)
into name measure value measured;
