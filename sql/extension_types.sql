-- Operator classes for the types of PostgreSQL's own extensions. They are created on request, because those extensions
-- may be installed later than this one, and dropped earlier.
--
-- A superuser calls the function that creates them. So it must not use an object of another user that has an expected
-- name: it uses only types, operators and functions that belong to the extension in question, or to the server.

CREATE FUNCTION skip_create_operator_classes()
    RETURNS SETOF text
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    skip CONSTANT text := (SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace
                           WHERE extname = 'pg_skip');
    missing record;
BEGIN
    FOR missing IN
        WITH wanted (extension, type, class, is_default, function, members) AS (
            VALUES ('citext', 'citext', 'citext_skip_ops', true, 'citext_hash_extended',
                       'OPERATOR 1 %1$s.=, FUNCTION 1 %1$s.citext_hash_extended(%1$s.citext, bigint),
                        FUNCTION 2 %2$s.skip_opclass_options(internal)'),
                   -- Equality, LIKE and regular expressions, whatever the case.
                   ('citext', 'citext', 'citext_ngram_skip_ops', false, NULL,
                       'OPERATOR 28 %1$s.=, OPERATOR 21 %1$s.~~, OPERATOR 22 %1$s.~~*, OPERATOR 23 %1$s.~,
                        OPERATOR 24 %1$s.~*,
                        FUNCTION 2 %2$s.skip_text_ngram_options(internal),
                        FUNCTION 3 %2$s.skip_text_ngram_keys(internal)'),
                   ('citext', 'citext', 'citext_token_skip_ops', false, NULL,
                       'OPERATOR 28 %1$s.=, OPERATOR 21 %1$s.~~, OPERATOR 22 %1$s.~~*, OPERATOR 23 %1$s.~,
                        OPERATOR 24 %1$s.~*,
                        FUNCTION 2 %2$s.skip_text_token_options(internal),
                        FUNCTION 3 %2$s.skip_text_token_keys(internal)'),
                   ('hstore', 'hstore', 'hstore_skip_ops', true, 'hstore_hash_extended',
                       'OPERATOR 1 %1$s.=, FUNCTION 1 %1$s.hstore_hash_extended(%1$s.hstore, bigint),
                        FUNCTION 2 %2$s.skip_opclass_options(internal)'),
                   -- Since PostgreSQL 17.
                   ('ltree', 'ltree', 'ltree_skip_ops', true, 'hash_ltree_extended',
                       'OPERATOR 1 %1$s.=, FUNCTION 1 %1$s.hash_ltree_extended(%1$s.ltree, bigint),
                        FUNCTION 2 %2$s.skip_opclass_options(internal)')
            UNION ALL
            -- The types of isn are numbers of 8 bytes. isn has no hash function of 64 bits for them.
            SELECT 'isn', type, type || '_skip_ops', true, NULL,
                'OPERATOR 1 %1$s.=, FUNCTION 1 %2$s.skip_hash_' || type || '(%1$s.' || type || ', bigint),
                 FUNCTION 2 %2$s.skip_opclass_options(internal)'
            FROM unnest(ARRAY['ean13', 'isbn13', 'ismn13', 'issn13', 'isbn', 'ismn', 'issn', 'upc']) AS type
        )
        SELECT skip || '.' || w.class AS name,
            quote_ident(n.nspname) || '.' || w.type AS type,
            CASE w.extension WHEN 'isn' THEN skip || '.skip_hash_' || w.type END AS hash,
            format('CREATE OPERATOR CLASS %2$s.' || w.class || CASE WHEN w.is_default THEN ' DEFAULT' ELSE '' END
                || ' FOR TYPE %1$s.' || w.type || ' USING skip AS ' || w.members,
                quote_ident(n.nspname), skip) AS statement
        FROM wanted w
        JOIN pg_extension e ON e.extname = w.extension
        JOIN pg_namespace n ON n.oid = e.extnamespace
        JOIN pg_type t ON t.typname = w.type AND t.typnamespace = n.oid
        JOIN pg_depend of_type ON of_type.classid = 'pg_type'::regclass AND of_type.objid = t.oid
            AND of_type.refclassid = 'pg_extension'::regclass AND of_type.refobjid = e.oid AND of_type.deptype = 'e'
        WHERE (w.function IS NULL OR EXISTS (
            SELECT FROM pg_depend d
            WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass
            AND d.refobjid = e.oid AND d.deptype = 'e'
            AND d.objid = to_regprocedure(format('%1$I.%2$s(%1$I.%3$s, bigint)', n.nspname, w.function, w.type))))
        AND NOT EXISTS (
            SELECT FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
            WHERE a.amname = 'skip' AND c.opcintype = t.oid
            AND (c.opcname = w.class OR c.opcdefault AND w.is_default))
        ORDER BY w.extension, w.class
    LOOP
        BEGIN
            -- A function that is there already may only be one of the server's own, whose owner may replace it anyway.
            IF missing.hash IS NOT NULL AND NOT EXISTS (
                SELECT FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang JOIN pg_roles o ON o.oid = p.proowner
                WHERE p.oid = to_regprocedure(missing.hash || '(' || missing.type || ', bigint)')
                AND l.lanname = 'internal' AND p.prosrc = 'hashint8extended' AND o.rolsuper)
            THEN
                EXECUTE format('CREATE FUNCTION %s(%s, bigint) RETURNS bigint LANGUAGE internal
                                IMMUTABLE STRICT PARALLEL SAFE AS ''hashint8extended''', missing.hash, missing.type);
                -- So DROP EXTENSION drops it, as it drops the operator classes.
                EXECUTE format('ALTER FUNCTION %s(%s, bigint) DEPENDS ON EXTENSION pg_skip',
                               missing.hash, missing.type);
            END IF;
            EXECUTE missing.statement;
            RETURN NEXT missing.name;
        EXCEPTION WHEN duplicate_function OR duplicate_object OR unique_violation THEN
            RAISE WARNING 'could not create operator class %', missing.name USING
                ERRCODE = SQLSTATE,
                DETAIL = SQLERRM,
                HINT = 'Drop what is in its way: a function, or an operator family without classes.';
        END;
    END LOOP;
END
$body$;
REVOKE ALL ON FUNCTION skip_create_operator_classes() FROM PUBLIC;
COMMENT ON FUNCTION skip_create_operator_classes() IS
    'creates the operator classes for the types of citext, hstore, isn and ltree, as far as these extensions are in '
    'the database and the classes are not; returns the names of those that it created; only a superuser can create '
    'operator classes';
