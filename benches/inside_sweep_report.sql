-- Prints the tables of docs/inside-sweep.md from what inside_sweep.sh measured.
\pset null ''
SELECT format(E'\n## %s\n\n| layout | pages_per_range | rate | size | of the table''s | build |%s\n'
              '|---|---|---|---|---|---|%s\n%s',
              subject,
              (SELECT string_agg(format(' %s: in vain, a million | %s: time |', what, what), '' ORDER BY what)
               FROM (SELECT DISTINCT what FROM bench.sweep_search JOIN bench.sweep AS b USING (place)
                     WHERE b.subject = s.subject) AS w),
              (SELECT string_agg('---|---|', '')
               FROM (SELECT DISTINCT what FROM bench.sweep_search JOIN bench.sweep AS b USING (place)
                     WHERE b.subject = s.subject) AS w),
              string_agg(format('| %s | %s | %s | %s | %s %% | %s |%s',
                                CASE layout WHEN 'default' THEN 'default: ' || chosen ELSE layout END, pages, rate,
                                bench.in_unit(bytes / 1048576, 'MB'), to_char(100 * part, 'FM990.0'),
                                bench.in_unit(build_s, 's'),
                                (SELECT string_agg(format(' %s | %s |', bench.number(vain), bench.in_unit(ms, 'ms')),
                                                   '' ORDER BY what)
                                 FROM bench.sweep_search AS found WHERE found.place = s.place)),
                         E'\n' ORDER BY layout <> 'default', layout, pages::integer, rate::float8))
FROM (SELECT place, subject, layout, nullif(pages, '') AS pages, nullif(rate, '') AS rate, chosen, build_s, bytes, part
      FROM bench.sweep) AS s
GROUP BY subject
ORDER BY min(place);
