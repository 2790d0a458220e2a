-- Skip indexes on all columns of every new table, for half of the tables of each class that a column can have.
CREATE SCHEMA skip_suite;
CREATE EXTENSION pg_skip SCHEMA skip_suite;
GRANT USAGE ON SCHEMA skip_suite TO public;

-- The operator classes for values of a type, or of the type that its values are taken for; empty for the default one.
CREATE FUNCTION skip_suite.classes(of_type oid, with_others boolean) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, skip_suite AS $$
    SELECT DISTINCT CASE WHEN opcdefault THEN '' ELSE quote_ident(opcname) END
    FROM pg_opclass JOIN pg_am ON pg_am.oid = opcmethod JOIN pg_type AS input ON input.oid = opcintype
        JOIN pg_type AS value ON value.oid = of_type
    WHERE amname = 'skip' AND (opcdefault OR with_others)
      AND (opcintype IN (value.oid, value.typbasetype) OR input.typtype = 'p'
           OR EXISTS (SELECT FROM pg_cast
                      WHERE castsource = value.oid AND casttarget = opcintype AND castmethod = 'b'))
    ORDER BY 1
$$;

-- Ranges are of one block, because the tables are small. Layouts take turns. Half of the tables have indexes of the
-- default classes only: the type of a column with an index of a class that is named cannot be changed.
CREATE FUNCTION skip_suite.index_all(indexed regclass) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, skip_suite AS $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT format('zskip_%s_%s_%s', indexed::oid, attnum, class) AS index, quote_ident(attname) AS name, class,
               (ARRAY['', ', layout = filters', ', layout = map'])[attnum % 3 + 1] AS layout
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid,
            skip_suite.classes(atttypid, hashtext(relname::text) % 2 = 0) AS class
        WHERE attrelid = indexed AND attnum > 0 AND NOT attisdropped AND attgenerated <> 'v' AND relkind = 'r'
          AND relnamespace <> 'pg_catalog'::regnamespace
    LOOP
        BEGIN
            EXECUTE format('CREATE INDEX %I ON %s USING skip (%s %s) WITH (pages_per_range = 1%s)',
                           found.index, indexed, found.name, found.class, found.layout);
        EXCEPTION
            -- Some types have no hash function, some columns a collation that a class refuses.
            WHEN internal_error OR data_corrupted OR index_corrupted THEN RAISE;
            WHEN OTHERS THEN NULL;
        END;
    END LOOP;
END $$;

CREATE FUNCTION skip_suite.index_new_tables() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
    new_table oid;
BEGIN
    FOR new_table IN SELECT DISTINCT objid FROM pg_catalog.pg_event_trigger_ddl_commands() WHERE object_type = 'table'
    LOOP
        PERFORM skip_suite.index_all(new_table::regclass);
    END LOOP;
END $$;
CREATE EVENT TRIGGER zskip ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO')
    EXECUTE FUNCTION skip_suite.index_new_tables();

-- The indexes of which ranges can be summarized. One test deletes the row of a table in pg_class: the index is left.
CREATE VIEW skip_suite.indexes AS
SELECT i.oid, pg_stat_get_numscans(i.oid) AS scans
FROM pg_class AS i JOIN pg_am ON pg_am.oid = i.relam JOIN pg_index ON indexrelid = i.oid
    JOIN pg_class AS t ON t.oid = indrelid
WHERE amname = 'skip' AND i.relkind = 'i' AND i.relpersistence <> 't';
