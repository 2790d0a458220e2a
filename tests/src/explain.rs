//! What EXPLAIN says of Skip Index Scans.
use crate::session::{Row, Session, lines};
use std::collections::HashMap;

/// The properties of one Skip Index Scan of a plan.
#[derive(Debug)]
pub struct Node(HashMap<String, String>);

impl Node {
    /// A property that must be there.
    #[track_caller]
    pub fn text(&self, property: &str) -> &str {
        self.0.get(property).unwrap_or_else(|| panic!("no {property:?} in {self:?}"))
    }

    /// A property that must be there and a whole number.
    #[track_caller]
    pub fn number(&self, property: &str) -> u64 {
        let text = self.text(property);
        text.parse().unwrap_or_else(|_| panic!("{property:?} is {text:?}, no whole number, in {self:?}"))
    }

    /// The rows that came out, over all loops.
    #[track_caller]
    pub fn rows(&self) -> f64 {
        // Rows are an average over the loops, from PostgreSQL 18 on with decimals.
        let number = |property| self.text(property).parse::<f64>().expect("a number");
        number("Actual Rows") * number("Actual Loops")
    }

    /// Whether the property is there.
    pub fn has(&self, property: &str) -> bool {
        self.0.contains_key(property)
    }
}

/// The Skip Index Scans in the plan of a statement, from top to bottom; `options` are EXPLAIN's.
#[track_caller]
pub fn skip_scans(session: &mut Session, options: &str, statement: &str) -> Vec<Node> {
    let plan = lines(&session.rows(&format!("EXPLAIN ({options} FORMAT json) {statement}")));
    let rows = session.rows(&format!(
        "SELECT n, key, value
         FROM jsonb_path_query($plan${plan}$plan$, 'strict $.** ? (@.\"Custom Plan Provider\" == \"Skip Index Scan\")')
            WITH ORDINALITY p (node, n), jsonb_each_text(node)"
    ));
    let mut nodes: Vec<HashMap<String, String>> = Vec::new();
    for row in rows {
        let mut row: Row = row;
        let (value, key) = (row.pop().flatten(), row.pop().flatten());
        let number: usize = row.pop().flatten().and_then(|n| n.parse().ok()).expect("a number");
        nodes.resize_with(number.max(nodes.len()), HashMap::new);
        nodes[number - 1].insert(key.expect("a key"), value.unwrap_or_default());
    }
    nodes.into_iter().map(Node).collect()
}

/// The only Skip Index Scan of a statement's plan.
#[track_caller]
pub fn skip_scan(session: &mut Session, options: &str, statement: &str) -> Node {
    let mut nodes = skip_scans(session, options, statement);
    assert_eq!(nodes.len(), 1, "one Skip Index Scan expected in the plan of {statement}: {nodes:?}");
    nodes.remove(0)
}

/// The only Skip Index Scan of a statement's plan, executed; timings left out.
#[track_caller]
pub fn executed(session: &mut Session, statement: &str) -> Node {
    skip_scan(session, "ANALYZE, BUFFERS, TIMING off, SUMMARY off,", statement)
}
