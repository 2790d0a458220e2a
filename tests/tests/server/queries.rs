//! docs/queries.md, line by line: whether the index that a line names is used, and skips block ranges.
//!
//! A line with "no" must have a plan without a Skip Index Scan that skips anything. If its last column begins with
//! code, that is a rewritten condition, for which some index must skip ranges.
use crate::docs::script;
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::explain::{Node, skip_scans};
use pg_skip_tests::session::Session;
use std::fs;
use std::path::Path;

/// A line of the page's tables.
struct Line {
    condition: String,
    /// What the middle column says: an index, or None for "no".
    index: Option<String>,
    rewritten: Option<String>,
}

on_shared!(each_line_is_so);
fn each_line_is_so(database: &Database) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/queries.md");
    let page = fs::read_to_string(page).expect("the page");
    let mut session = database.session();
    session.run(&script(&page).expect("SQL on the page"));
    session.run("SET enable_seqscan = off; SET enable_bitmapscan = off; SET timezone = 'UTC'");
    let lines = lines(&page);
    assert!(lines.len() > 90, "only {} lines found", lines.len());
    let mut problems = Vec::new();
    for line in &lines {
        let skipping = skipping(&mut session, &line.condition);
        let is_so = match &line.index {
            Some(index) => skipping.iter().any(|names| names.contains(&format!("\"{index}\""))),
            None => skipping.is_empty(),
        };
        if !is_so {
            let said = line.index.as_deref().unwrap_or("no");
            problems.push(format!(
                "{}: the page says {said}, ranges are skipped by {skipping:?}",
                line.condition
            ));
        }
        if let Some(rewritten) = &line.rewritten
            && self::skipping(&mut session, rewritten).is_empty()
        {
            problems.push(format!("{rewritten}: is to help, but skips nothing"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The indexes of each scan of the plan that skips ranges, or does not come to them. A condition is one on the page's
/// table.
fn skipping(session: &mut Session, condition: &str) -> Vec<String> {
    let is_whole = ["SELECT ", "UPDATE ", "DELETE "].iter().any(|verb| condition.starts_with(verb));
    let statement =
        if is_whole { condition.to_owned() } else { format!("SELECT * FROM requests WHERE {condition}") };
    session.run("BEGIN");
    let scans = skip_scans(session, "ANALYZE, TIMING off,", &statement);
    session.run("ROLLBACK");
    let is_read_in_part = |scan: &&Node| {
        scan.number("Ranges Skipped") > 0 || scan.has("Order By") && scan.number("Ranges Never Read") > 0
    };
    let skips = scans.iter().filter(is_read_in_part);
    skips.map(|scan| scan.text("Skip Indexes").to_owned()).collect()
}

/// The lines of the tables with the columns "Condition" and "Index".
fn lines(page: &str) -> Vec<Line> {
    let (mut lines, mut inside) = (Vec::new(), false);
    for line in page.lines() {
        inside = line.starts_with("| Condition | Index |") || (inside && line.starts_with('|'));
        if !inside || !line.starts_with("| `") {
            continue;
        }
        let line = line.replace("\\|", "\u{1}");
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
        let [_, condition, index, helps, _] = &cells[..] else { panic!("not three columns: {line}") };
        let condition = code(condition).unwrap_or_else(|| panic!("no code: {line}"));
        assert!(index == "no" || index.starts_with('`'), "{line}");
        let index = code(index);
        let rewritten = if index.is_none() { code(helps) } else { None };
        // The name of an operator class is no condition.
        let rewritten = rewritten.filter(|code| code.contains(' '));
        lines.push(Line { condition, index, rewritten });
    }
    lines
}

/// The code that a cell begins with.
fn code(cell: &str) -> Option<String> {
    let (code, _) = cell.strip_prefix('`')?.split_once('`')?;
    Some(code.to_owned())
}
