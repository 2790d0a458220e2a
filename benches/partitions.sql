-- A table of :partitions partitions with :rows rows each: what planning costs for each partition.
CREATE TABLE partitions (id bigint NOT NULL, trace_id uuid NOT NULL) PARTITION BY RANGE (id);
SELECT format('CREATE TABLE partition_%s PARTITION OF partitions FOR VALUES FROM (%s) TO (%s)',
              i, i * :rows, (i + 1) * :rows)
FROM generate_series(0, :partitions - 1) AS i
\gexec
INSERT INTO partitions SELECT i, md5('trace ' || i)::uuid FROM generate_series(0, :partitions * :rows - 1) AS i;
VACUUM ANALYZE partitions;
