-- question: Which replays are there, and how did their requests end?
-- grain: types whose values are these words; a number of a word is its code and 1, 0 for null
-- reads: completions
drop type if exists replay_word;

drop type if exists status_word;

create type replay_word as enum ( -- noqa: CV07
    select distinct replay
    from completions
    where replay is not null
);

create type status_word as enum ( -- noqa: CV07
    select distinct status::varchar
    from completions
    where status is not null
);
