# Lookups in which a btree, skip and skip with filters take turns, for bench.sh. Sourced, not run.

# Those of the kinds that are measured in turns, the one that the others are compared with first.
in_turns=
for variant in btree skip filters; do [[ " $variants " != *" $variant "* ]] || in_turns+=" $variant"; done

is_in_turns() { [[ "$in_turns skip_bitmap " == *" $1 "* ]]; }

# A table with the same rows for each kind, with its index, all in shared buffers.
make_tables_of_turns() {
    local variant
    sql -f "$here/turns.sql"
    for variant in $in_turns; do
        step "a table of its own: $(title "$variant")"
        # A scan that joins another one does not begin with the first row.
        PGOPTIONS='-c synchronize_seqscans=off' sql \
            -c "CREATE TABLE events_$variant (LIKE events)" -c "INSERT INTO events_$variant SELECT * FROM events" \
            -c "$(create_index "$variant" "events_$variant" trace_id "$distinct" |
                sed "s/bench_index/turn_$variant/")" \
            -c "VACUUM (FREEZE, ANALYZE) events_$variant" \
            -c "SELECT pg_prewarm('events_$variant'), pg_prewarm('turn_$variant')" >/dev/null
        done_step
    done
}

take_turns() {
    local kinds=${in_turns# }
    [ -n "$kinds" ] || return 0
    kinds=${kinds/skip/skip skip_bitmap}
    step "lookups in turns, round $run of $runs"
    sql -c "CALL bench.measure_in_turns('$subject', '{${kinds// /,}}', $turns)"
    done_step
}

drop_tables_of_turns() {
    local variant
    for variant in $in_turns; do sql -c "DROP TABLE events_$variant"; done
}
