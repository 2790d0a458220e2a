//! Set-returning functions whose SQL declaration does not have the columns that the library returns: an error with a
//! hint, and not a server that reads values of other types. All such functions of the extension are tried.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::session::Session;

/// A set-returning function of the library: its name in SQL, its symbol, and what is between its parentheses.
struct Function {
    name: String,
    symbol: String,
    arguments: Vec<String>,
    columns: Vec<String>,
}

/// Those of the extension that return rows of several columns.
fn functions(session: &mut Session) -> Vec<Function> {
    let rows = session.rows(
        "SELECT p.proname, p.prosrc,
                (SELECT string_agg(format_type(t, NULL), ';' ORDER BY n)
                 FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n)),
                (SELECT string_agg(quote_ident(name) || ' ' || format_type(t, NULL), ';' ORDER BY n)
                 FROM unnest(p.proallargtypes, p.proargmodes, p.proargnames) WITH ORDINALITY AS a (t, mode, name, n)
                 WHERE mode = 'o')
         FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang JOIN pg_depend AS d ON d.objid = p.oid
         WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_skip')
         AND d.refclassid = 'pg_extension'::regclass AND d.classid = 'pg_proc'::regclass
         AND l.lanname = 'c' AND p.proretset AND p.prorettype = 'record'::regtype
         ORDER BY p.proname",
    );
    let list = |text: &Option<String>| -> Vec<String> {
        text.iter().flat_map(|text| text.split(';')).map(str::to_owned).collect()
    };
    let word = |text: &Option<String>| text.clone().unwrap_or_default();
    let function = |row: &Vec<Option<String>>| Function {
        name: word(&row[0]),
        symbol: word(&row[1]),
        arguments: list(&row[2]),
        columns: list(&row[3]),
    };
    rows.iter().map(function).collect()
}

/// Declares the function once more, as `other`, with these result columns.
fn declare(session: &mut Session, function: &Function, columns: &[String]) {
    let outs = columns.iter().map(|column| format!("OUT {column}"));
    let arguments: Vec<String> = function.arguments.iter().cloned().chain(outs).collect();
    let returns = match columns {
        [one] => one.split_once(' ').map_or(String::new(), |(_, kind)| kind.to_owned()),
        _ => "record".to_owned(),
    };
    session.run(&format!(
        "DROP FUNCTION IF EXISTS other; CREATE FUNCTION other({}) RETURNS SETOF {returns}
             LANGUAGE c AS '$libdir/pg_skip', '{}'",
        arguments.join(", "),
        function.symbol
    ));
}

on_shared!(other_columns);
fn other_columns(database: &Database) {
    let mut session = database.session();
    let functions = functions(&mut session);
    assert!(functions.len() >= 9, "{} functions", functions.len());
    for function in &functions {
        let columns = &function.columns;
        let renamed: Vec<String> = columns.iter().map(|column| column.replacen(' ', "_ ", 1)).collect();
        let retyped: Vec<String> = columns
            .iter()
            .map(|column| format!("{} point", column.split(' ').next().unwrap_or_default()))
            .collect();
        let wrong = [
            [&columns[..1], &columns[2..]].concat(), // a library that has gained a column in the middle
            columns[1..].to_vec(),
            columns[..1].to_vec(),
            [columns, &["more bigint".to_owned()][..]].concat(),
            [&columns[..1], &renamed[1..]].concat(),
            [&columns[..1], &retyped[1..]].concat(),
        ];
        for columns in wrong {
            declare(&mut session, function, &columns);
            let nulls = vec!["NULL"; function.arguments.len()].join(", ");
            let error = session.error(&format!("SELECT * FROM other({nulls})"));
            let said = format!("{} with {columns:?}: {error:?}", function.name);
            assert_eq!(error.code().code(), "42P13", "{said}");
            assert!(error.detail().is_some_and(|detail| detail.contains("library returns")), "{said}");
            assert!(
                error.hint().is_some_and(|hint| hint.contains("ALTER EXTENSION pg_skip UPDATE")),
                "{said}"
            );
        }
    }
}

on_shared!(columns_that_come_last_may_be_missing);
fn columns_that_come_last_may_be_missing(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT generate_series(1, 100) AS i; CREATE INDEX t_skip ON t USING skip (i)",
    );
    let functions = functions(&mut session);
    for (name, arguments) in [("skip_index_info", "'t_skip'"), ("bloom_info", "(SELECT bloom_agg(i) FROM t)")]
    {
        let function = functions.iter().find(|function| function.name == name).expect(name);
        for count in [function.columns.len(), function.columns.len() - 1, 2] {
            declare(&mut session, function, &function.columns[..count]);
            let old = session.rows(&format!("SELECT * FROM other({arguments})"));
            let now = session.rows(&format!("SELECT * FROM {name}({arguments})"));
            assert_eq!(old.len(), now.len(), "{name}");
            assert_eq!(old[0], now[0][..count], "{name}");
        }
    }
}
