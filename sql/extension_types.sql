-- Operator classes for the types of PostgreSQL's own extensions, made on request: those extensions may come later than
-- this one, and may go before it.
--
-- Each statement names the schema of its extension, {ext}, and that of this one, {skip}. So it does not matter what is
-- in the search_path of the caller.

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
        WITH hashed (extension, type, function) AS (
            VALUES ('citext', 'citext', 'citext_hash_extended'),
                   ('hstore', 'hstore', 'hstore_hash_extended'),
                   -- Since PostgreSQL 17.
                   ('ltree', 'ltree', 'hash_ltree_extended')
        ), cut (class, options, keys) AS (
            VALUES ('citext_ngram_skip_ops', 'skip_text_ngram_options', 'skip_text_ngram_keys'),
                   ('citext_token_skip_ops', 'skip_text_token_options', 'skip_text_token_keys')
        ), numbers (type) AS (
            VALUES ('ean13'), ('isbn13'), ('ismn13'), ('issn13'), ('isbn'), ('ismn'), ('issn'), ('upc')
        ), wanted (extension, type, class, function, statement) AS (
            SELECT extension, type, type || '_skip_ops', function,
                format('CREATE OPERATOR CLASS {skip}.%1$I DEFAULT FOR TYPE {ext}.%2$I USING skip AS
                        OPERATOR 1 {ext}.=, FUNCTION 1 {ext}.%3$I({ext}.%2$I, bigint),
                        FUNCTION 2 {skip}.skip_opclass_options(internal)', type || '_skip_ops', type, function)
            FROM hashed
            UNION ALL
            -- Equality, LIKE and regular expressions, whatever the case.
            SELECT 'citext', 'citext', class, NULL,
                format('CREATE OPERATOR CLASS {skip}.%1$I FOR TYPE {ext}.citext USING skip AS
                        OPERATOR 28 {ext}.=, OPERATOR 22 {ext}.~~, OPERATOR 24 {ext}.~,
                        FUNCTION 2 {skip}.%2$I(internal), FUNCTION 3 {skip}.%3$I(internal)', class, options, keys)
            FROM cut
            UNION ALL
            -- The types of isn are numbers of 8 bytes. isn has no hash function of 64 bits for them.
            SELECT 'isn', type, type || '_skip_ops', NULL,
                format('CREATE OR REPLACE FUNCTION {skip}.%1$I({ext}.%2$I, bigint) RETURNS bigint
                            LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS ''hashint8extended'';
                        CREATE OPERATOR CLASS {skip}.%3$I DEFAULT FOR TYPE {ext}.%2$I USING skip AS
                        OPERATOR 1 {ext}.=, FUNCTION 1 {skip}.%1$I({ext}.%2$I, bigint),
                        FUNCTION 2 {skip}.skip_opclass_options(internal)',
                       'skip_hash_' || type, type, type || '_skip_ops')
            FROM numbers
        )
        SELECT format('%s.%I', skip, w.class) AS name,
            replace(replace(w.statement, '{ext}', quote_ident(n.nspname)), '{skip}', skip) AS statement
        FROM wanted w
        JOIN pg_extension e ON e.extname = w.extension
        JOIN pg_namespace n ON n.oid = e.extnamespace
        JOIN pg_type t ON t.typname = w.type AND t.typnamespace = n.oid
        WHERE (w.function IS NULL OR to_regprocedure(
                format('%I.%I(%I.%I, bigint)', n.nspname, w.function, n.nspname, w.type)) IS NOT NULL)
        AND NOT EXISTS (
            SELECT FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
            WHERE a.amname = 'skip' AND c.opcintype = t.oid
            AND (c.opcname = w.class OR c.opcdefault AND w.statement LIKE '% DEFAULT FOR TYPE %'))
        ORDER BY w.extension, w.class
    LOOP
        EXECUTE missing.statement;
        RETURN NEXT missing.name;
    END LOOP;
END
$body$;
REVOKE ALL ON FUNCTION skip_create_operator_classes() FROM PUBLIC;
COMMENT ON FUNCTION skip_create_operator_classes() IS
    'creates the operator classes for the types of citext, hstore, isn and ltree, as far as these extensions are in '
    'the database and the classes are not; returns the names of those that it created; only a superuser can create '
    'operator classes';
