# Appends, updates and concurrent inserts of bench.sh. Sourced, not run: it uses bench.sh's variables and functions.
#
# Every kind of index is made anew for each run, and the table is left as it was. The kinds take turns, in another order
# each time, so that a slow minute of the machine meets them all, and none has its turn always after the same one.

# The kinds compared, without an index first; those of which there is a second setting, with both.
written_variants() {
    local variant
    printf 'none'
    for variant in $variants; do
        case $variant in
            brin_default | brin_tuned) ;;
            brin) printf ' brin brin_on' ;;
            skip) printf ' skip_off skip' ;;
            filters) printf ' filters_off filters' ;;
            *)    printf ' %s' "$variant" ;;
        esac
    done
}

# under VARIANT COMMAND…: runs a command while there is an index of this kind.
under() {
    local variant=$1; shift
    sql -c "$(create_index "$variant" events trace_id "$distinct")" >/dev/null
    "$@" "$variant"
    sql -c 'DROP INDEX IF EXISTS bench_index' 2>/dev/null
}

# Takes rows behind the first ones away: VACUUM cuts the table back to where it ended.
remove_new_rows() { sql -c "DELETE FROM events WHERE id > $rows" -c 'VACUUM (FREEZE) events'; }

append() {
    local variant=$1
    keep "$variant" append_s "$(sql -c "CALL bench.timed('INSERT INTO events SELECT * FROM staging')")"
    # The time to summarize what an append left unsummarized is measured beside it.
    local summarize
    case $variant in
        brin*) summarize=brin_summarize_new_values ;;
        skip* | filters*) summarize=skip_summarize ;;
        *) return 0 ;;
    esac
    keep "$variant" summarize_s "$(sql -c "CALL bench.timed(\$\$SELECT $summarize('bench_index')\$\$)")"
}

# The update is rolled back, so that the next one meets the same table.
update() {
    local statement="UPDATE events SET trace_id = md5('new ' || id)::uuid WHERE id <= $updated"
    keep "$1" update_s "$(sql -c "CALL bench.timed_and_undone(\$\$$statement\$\$)")"
    sql -c 'VACUUM (FREEZE) events'
}

# What a commit waits for the disk is left out: it hides what the index costs.
insert_by_clients() {
    keep "$1" insert_tps "$(PGOPTIONS='-c synchronous_commit=off' \
        "$bin/pgbench" -n -M prepared -c 8 -j 2 -T "$seconds_each" \
        -D rows="$rows" -f "$here/insert.pgbench" | sed -n 's/^tps = \([0-9.]*\).*/\1/p')"
}

# One turn of a kind. The btree that gets no row shows what the server itself takes for any index; its updates are not
# measured.
write_under() {
    local variant=$1
    under "$variant" append
    remove_new_rows
    case $variant in
        *_off | *_on | hash | bloom) return 0 ;;
    esac
    [ "$variant" = excluded ] || [ "$run" -gt "$rounds" ] || under "$variant" update
    under "$variant" insert_by_clients
    remove_new_rows
}

measure_writes() {
    local run variant
    step "$append rows to append"
    sql -c "CREATE UNLOGGED TABLE staging AS SELECT * FROM event_rows($rows + 1, $rows + $append)" \
        -c 'VACUUM (FREEZE, ANALYZE) staging' -c "SELECT pg_prewarm('staging')" >/dev/null
    done_step
    for run in $(seq "$append_rounds"); do
        remove_new_rows
        # shellcheck disable=SC2046 # words, not lines
        for variant in $(shuf -e excluded $(written_variants)); do
            # They are no rivals here, and slow: rounds enough for a median.
            case $variant in hash | bloom) [ "$run" -le "$rounds" ] || continue ;; esac
            step "writes under $(title "$variant"), $run of $append_rounds"
            write_under "$variant"
            done_step
        done
    done
    sql -c 'DROP TABLE staging'
}
