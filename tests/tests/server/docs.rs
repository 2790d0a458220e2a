//! The documentation's examples run: each file's SQL blocks, in order, in one session of a fresh database.
//!
//! A block is left out by writing `sql ignore` at its head. psql runs the blocks, with all other lines blank, so that
//! it names the documentation's own lines when it fails. A result that the documentation shows as a table must be among
//! those that psql prints, to the letter. A plan must be among those that PostgreSQL 15 makes with default options, but
//! for costs, times and chance; the documentation may leave lines out.
use crate::registry::on_shared;
use crate::shared::{Database, server};
use pg_skip_tests::server::{has_default_layout, install};
use std::fs;
use std::path::{Path, PathBuf};

on_shared!(examples_run);
fn examples_run(database: &Database) {
    let (mut problems, mut tables_shown, mut plans_shown) = (Vec::new(), 0, 0);
    let are_plans_as_shown = install().version < 16 && has_default_layout();
    for (number, file) in files().into_iter().enumerate() {
        let text = fs::read_to_string(&file).expect("a documentation file");
        let Some(script) = script(&text) else { continue };
        // Where the examples make the extension themselves they must find a database without it.
        let makes_it = script.to_lowercase().contains("create extension pg_skip")
            || script.to_lowercase().contains("create extension if not exists pg_skip");
        let template = if makes_it { "template0" } else { "skip_template" };
        let name = format!("{}_{number}", database.name);
        database.session().run(&format!("CREATE DATABASE {name} TEMPLATE {template}"));
        let path = server().data().join(file.file_name().expect("a name")).with_extension("md.sql");
        fs::write(&path, script).expect("a script");
        let mut psql = server().client("psql");
        psql.args(["-X", "-q", "-P", "footer=off", "-v", "ON_ERROR_STOP=1", "-f"]).arg(&path).arg(&name);
        let output = psql.output().expect("psql");
        if !output.status.success() {
            problems.push(format!("{}:\n{}", file.display(), String::from_utf8_lossy(&output.stderr)));
        }
        let printed = trimmed(&String::from_utf8_lossy(&output.stdout));
        let shown = tables(&text);
        let others = shown.iter().filter(|table| !printed.contains(*table));
        problems.extend(others.map(|table| format!("{}: no longer so:\n{table}", file.display())));
        tables_shown += shown.len();
        let shown = plans(&text);
        let others = shown.iter().filter(|plan| are_plans_as_shown && !is_printed(plan, &printed));
        problems.extend(others.map(|plan| format!("{}: no longer so:\n{}", file.display(), plan.join("\n"))));
        plans_shown += shown.len();
    }
    assert!(tables_shown > 5, "only {tables_shown} tables are shown");
    assert!(plans_shown > 5, "only {plans_shown} plans are shown");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// README.md and docs/*.md of the workspace.
fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let docs =
        fs::read_dir(root.join("docs")).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    let mut files: Vec<PathBuf> = docs.unwrap_or_default();
    files.push(root.join("README.md"));
    files.retain(|file| file.extension().is_some_and(|end| end == "md") && file.exists());
    files.sort();
    files
}

/// The text with all but its SQL blocks blanked; None if it has none.
pub(crate) fn script(text: &str) -> Option<String> {
    let (mut script, mut inside, mut any) = (String::new(), false, false);
    for line in text.lines() {
        let fence = line.trim_start();
        if inside && fence.starts_with("```") {
            inside = false;
        } else if !inside && fence.starts_with("```sql") {
            inside = fence.trim_end() == "```sql";
            any |= inside;
        } else if inside {
            script.push_str(line);
        }
        script.push('\n');
    }
    any.then_some(script)
}

/// Without blanks at the ends of lines.
fn trimmed(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The lines of blocks without a language, without blanks at their ends; a fence is an empty line.
fn plain_blocks(text: &str) -> String {
    let (mut inside, mut plain) = (None, String::new());
    for line in text.lines() {
        match line.trim_start().strip_prefix("```") {
            Some(language) => {
                inside = if inside.is_some() { None } else { Some(language) };
                plain.push('\n');
            }
            None if inside == Some("") => plain.push_str(&format!("{}\n", line.trim_end())),
            None => {}
        }
    }
    plain
}

/// The results that are shown as psql's tables: blocks without a language, in paragraphs whose second line is dashes.
fn tables(text: &str) -> Vec<String> {
    let mut tables = Vec::new();
    for paragraph in plain_blocks(text).split("\n\n") {
        let dashes = paragraph.trim_start_matches('\n').lines().nth(1).unwrap_or_default();
        if dashes.contains("---") && dashes.chars().all(|c| "-+".contains(c)) {
            tables.push(format!("{}\n", paragraph.trim_matches('\n')));
        }
    }
    tables
}

/// The plans that are shown, as lines that do not differ between two runs.
fn plans(text: &str) -> Vec<Vec<String>> {
    let plain = plain_blocks(text);
    let paragraphs = plain.split("\n\n").map(|paragraph| paragraph.trim_matches('\n'));
    let of_plans = paragraphs.filter(|paragraph| {
        let has_figures = |line: &str| line.contains(" (cost=") || line.contains(" (actual ");
        paragraph.lines().next().is_some_and(|line| has_figures(line) && !line.contains('|'))
    });
    of_plans.map(|paragraph| paragraph.lines().map(steady).collect()).collect()
}

/// A line of a plan without what differs between two runs: costs and times; and what depends on chance, as the hashes
/// of an index have a seed of its own: index pages, and ranges that are read in vain.
fn steady(line: &str) -> String {
    for key in ["Ranges Expected: ", "Rows Removed by Index Recheck: ", "Index Pages Read: "] {
        if let Some((before, _)) = line.split_once(key) {
            return format!("{before}{key}…");
        }
    }
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if let (Some((before, _)), [ranges, _, scanned, in_vain, _]) = (line.split_once("Ranges: "), &numbers[..])
    {
        return format!("{before}{} of {ranges} ranges", scanned - in_vain);
    }
    let Some(at) = line.find(" (cost=").or_else(|| line.find(" (actual ")) else { return line.into() };
    let (node, figures) = (line[..at].trim_end(), &line[at..]);
    let actual = figures.split_once("(actual ").and_then(|(_, actual)| actual.split_once("rows="));
    // With a fraction from 18 on.
    let rows = actual.and_then(|(_, rows)| rows.split(' ').next()?.parse::<f64>().ok());
    rows.map_or(node.into(), |rows| format!("{node} rows={rows}"))
}

/// Whether the lines of a plan are printed in this order, with at most three other lines between two of them.
fn is_printed(plan: &[String], printed: &str) -> bool {
    let lines: Vec<String> = printed.lines().map(steady).collect();
    let begins = |&at: &usize| Some(&lines[at]) == plan.first();
    (0..lines.len()).filter(begins).any(|begin| {
        let mut at = begin;
        plan[1..].iter().all(|line| {
            let next = lines[at + 1..].iter().take(4).position(|next| next == line);
            at += next.map_or(0, |further| further + 1);
            next.is_some()
        })
    })
}
