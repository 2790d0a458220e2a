-- Prints the tables of docs/inside-benchmarks.md from what inside.sh measured.
\pset null ''

-- The median of what was measured, NULL where there is nothing.
CREATE FUNCTION bench.median_of(subject text, variant text, metric text) RETURNS float8
LANGUAGE sql STABLE
RETURN (SELECT bench.median(array_agg(value)) FROM bench.result AS r
        WHERE (r.subject, r.variant, r.metric) = (median_of.subject, median_of.variant, median_of.metric));

-- What stands in a table for each class, in order.
CREATE VIEW bench.class AS
SELECT row_number() OVER (ORDER BY min(place)) AS place, tab, class, tab || '.' || class AS subject
FROM bench.kind AS k
WHERE EXISTS (SELECT FROM bench.result AS r WHERE r.subject = k.tab || '.' || k.class)
GROUP BY tab, class;

\qecho '## Size, build and append'
\qecho
SELECT format('Appended were %s rows to `lines` and `documents`. "Times no index" is the time of the append divided by '
              'that without an index.', to_char(:append, 'FM999,999,999'));
\qecho
\qecho '| table | index | size | of the table''s | build | append | times no index |'
\qecho '|---|---|---|---|---|---|---|'
SELECT format('| %s | `%s` | %s | %s | %s | %s | %s |', tab, definition,
              bench.in_unit(bytes / 1048576, 'MB'),
              to_char(100 * bytes / bench.median_of(tab, 'none', 'table_bytes'), 'FM990.0') || ' %',
              bench.figure(subject, variant, 'build_s', 's'), bench.figure(subject, variant, 'append_s', 's'),
              to_char(append_s / bench.median_of(tab, 'none', 'append_s'), 'FM990.00'))
FROM bench.kind JOIN bench.class USING (tab, class),
     LATERAL (SELECT bench.median_of(subject, variant, 'bytes') AS bytes,
                     bench.median_of(subject, variant, 'append_s') AS append_s) AS figures
ORDER BY bench.kind.place;
\qecho
SELECT format('Without an index, the append to `%s` took %s.', tab, bench.figure(tab, 'none', 'append_s', 's'))
FROM (SELECT DISTINCT tab FROM bench.class WHERE tab <> 'changes') AS t;

\qecho
\qecho 'Where values have several keys, a background worker summarizes by default, on another processor. How long it'
\qecho 'took after the append above until it had summarized all but 64 of the new ranges; and the same append with'
\qecho '`autosummarize = on`, where the inserting session does that work:'
\qecho
\qecho '| table | index | then the worker | append with `on` | times no index |'
\qecho '|---|---|---|---|---|'
SELECT format('| %s | `%s` | %s | %s | %s |', tab, definition, bench.figure(subject, variant, 'caught_up_s', 's'),
              bench.figure(subject, variant, 'append_on_s', 's'), to_char(append_s / none_s, 'FM990.00'))
FROM bench.kind JOIN bench.class USING (tab, class),
     LATERAL (SELECT bench.median_of(subject, variant, 'append_on_s') AS append_s,
                     bench.median_of(tab, 'none', 'append_s') AS none_s) AS figures
WHERE append_s IS NOT NULL
ORDER BY bench.kind.place;

\qecho
\qecho 'With `autosummarize = off` inserts leave all work to VACUUM or `skip_summarize`. Until then every query reads'
\qecho 'the new rows. The same append, and `skip_summarize` right afterwards:'
\qecho
\qecho '| table | index | append | times no index | then `skip_summarize` | both, times no index |'
\qecho '|---|---|---|---|---|---|'
SELECT format('| %s | `%s` | %s | %s | %s | %s |', tab, definition,
              bench.figure(subject, variant, 'append_off_s', 's'), to_char(append_s / none_s, 'FM990.00'),
              bench.figure(subject, variant, 'summarize_s', 's'),
              to_char((append_s + summarize_s) / none_s, 'FM990.00'))
FROM bench.kind JOIN bench.class USING (tab, class),
     LATERAL (SELECT bench.median_of(subject, variant, 'append_off_s') AS append_s,
                     bench.median_of(subject, variant, 'summarize_s') AS summarize_s,
                     bench.median_of(tab, 'none', 'append_s') AS none_s) AS figures
WHERE append_s IS NOT NULL
ORDER BY bench.kind.place;

\qecho
\qecho '## Searches'
\qecho
\qecho '| table | searched for | index | time | no index | plan |'
\qecho '|---|---|---|---|---|---|'
SELECT format('| %s | %s, %s | %s | %s | %s | %s |', tab, class, kind, variant,
              bench.figure(subject, variant, kind || '_ms', 'ms'), bench.figure(subject, 'none', kind || '_ms', 'ms'),
              node)
FROM bench.choice JOIN bench.class USING (subject) JOIN bench.kind AS k USING (tab, class, variant)
ORDER BY bench.class.place, array_position('{present,absent,frequent,newest}'::text[], kind), k.place;

\qecho
\qecho '## Targets'
\qecho
\qecho '| skip, default options | target | measured | met |'
\qecho '|---|---|---|---|'
WITH peer (place, what, skip, peer, size) AS (VALUES
         (1, 'tags', 'lines.tags', 'lines.tags', 1.0 / 8),
         (2, 'jsonb', 'lines.attributes', 'lines.attributes', 1.0 / 8),
         (3, 'words, beside tsvector', 'lines.words', 'documents.lexemes', 1.0 / 8),
         (4, 'tsvector', 'documents.lexemes', 'documents.lexemes', 1.0 / 8),
         (5, 'fragments, beside pg_trgm', 'lines.fragments', 'lines.fragments', 1.0 / 4),
         (6, 'fragments of real paths, beside pg_trgm', 'changes.fragments', 'changes.fragments', 1.0 / 4)),
     -- Each target is a ratio, or a number of milliseconds, that must not be exceeded.
     target (place, what, unit, bound, measured) AS (
         SELECT place, what || ': size of GIN''s', '', size,
                bench.median_of(skip, 'skip', 'bytes') / bench.median_of(peer, 'GIN', 'bytes') FROM peer
         UNION ALL SELECT 10 + place, what || ': build time of GIN''s', '', 1.0 / 10,
                bench.median_of(skip, 'skip', 'build_s') / bench.median_of(peer, 'GIN', 'build_s')
                FROM peer WHERE place <= 4
         UNION ALL SELECT 20 + place, class || ': append, times no index', '', 1.2,
                bench.median_of(subject, 'skip', 'append_s') / bench.median_of(tab, 'none', 'append_s') FROM bench.class
         UNION ALL SELECT 40 + place, tab || ', ' || class || ', present: for a second of a sequential scan', 'ms', 5,
                1000 * bench.median_of(subject, 'skip', 'present_ms') / bench.median_of(subject, 'none', 'present_ms')
                -- A time range has some hundred rows, and a path of a project has many changes: neither is rare.
                FROM bench.class WHERE tab <> 'changes' AND class <> 'times'
         UNION ALL SELECT 60 + place, tab || ', ' || class || ', absent: for a second of a sequential scan', 'ms', 5,
                1000 * bench.median_of(subject, 'skip', 'absent_ms') / bench.median_of(subject, 'none', 'absent_ms')
                FROM bench.class
         UNION ALL SELECT 80, 'the newest 50 rows', 'ms', 1, bench.median_of('lines.times', 'skip', 'newest_ms'))
SELECT format('| %s | %s | %s | %s |', what,
              CASE WHEN unit <> '' THEN 'at most ' || bound || ' ' || unit
                   WHEN bound < 0.3 THEN 'at most 1/' || round(1 / bound)
                   ELSE 'at most ' || trim_scale(round(bound::numeric, 2)) END,
              CASE WHEN unit <> '' THEN bench.in_unit(measured, unit)
                   WHEN bound < 0.3 AND measured < 1 THEN '1/' || to_char(1 / measured, 'FM9990.0')
                   ELSE to_char(measured, 'FM990.00') END,
              CASE WHEN measured <= bound THEN 'met' ELSE '**missed**' END)
FROM target
WHERE measured IS NOT NULL
ORDER BY place;
