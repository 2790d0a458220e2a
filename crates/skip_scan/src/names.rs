//! Lists of index names, as the settings `force_indexes` and `ignore_indexes` hold them.

use crate::shard::shard_of;

/// Index names, each perhaps with a schema before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexNames {
    /// The parts of each name: `[name]`, `[schema, name]`, or more, which name no index.
    names: Vec<Vec<String>>,
}

impl IndexNames {
    /// Reads a list such as `a, s.b, "C"."d"`. Names are separated by commas, and their parts by dots; parts without
    /// quotes are folded to lower case, as SQL does it, but ASCII letters only. None if the text is no such list.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Some(Self::default());
        }
        let mut names = vec![Vec::new()];
        loop {
            let (part, behind) = split_identifier(rest)?;
            names.last_mut()?.push(part);
            let behind = behind.trim_start();
            rest = match behind.chars().next() {
                None => return Some(Self { names }),
                Some('.') => behind[1..].trim_start(),
                Some(',') => {
                    names.push(Vec::new());
                    behind[1..].trim_start()
                }
                Some(_) => return None,
            };
        }
    }

    /// Whether the list has no names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names, each in its parts.
    pub fn iter(&self) -> impl Iterator<Item = &[String]> {
        self.names.iter().map(Vec::as_slice)
    }

    /// Whether an index is in the list, or the index that it is a shard of. `table` gives the name of the index's table
    /// and is only called where that matters. A name without a schema means any schema.
    pub fn names_index(&self, schema: &str, index: &str, table: impl FnOnce() -> Option<String>) -> bool {
        self.has(schema, index)
            || table().is_some_and(|table| shard_of(index, &table).is_some_and(|of| self.has(schema, of)))
    }

    fn has(&self, schema: &str, index: &str) -> bool {
        self.iter().any(|parts| match parts {
            [only] => only == index,
            [first, second] => first == schema && second == index,
            _ => false,
        })
    }
}

/// The identifier that a text begins with, and what is behind it.
fn split_identifier(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        return split_quoted(quoted);
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_ascii_lowercase(), &text[end..]))
}

/// The identifier whose opening quote is before `text`, and what is behind its closing one. Two quotes are one of the
/// identifier's.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != '"' {
            name.push(c);
        } else if chars.next_if(|&(_, next)| next == '"').is_some() {
            name.push('"');
        } else {
            return (!name.is_empty()).then_some((name, &text[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<Vec<Vec<String>>> {
        IndexNames::parse(text).map(|list| list.iter().map(<[String]>::to_vec).collect())
    }

    fn lists(text: &str, schema: &str, index: &str, table: &str) -> bool {
        IndexNames::parse(text).is_some_and(|list| list.names_index(schema, index, || Some(table.into())))
    }

    #[test]
    fn names_are_read_as_sql_reads_identifiers() {
        let expected = |names: &[&[&str]]| {
            Some(names.iter().map(|parts| parts.iter().map(|&part| part.into()).collect()).collect())
        };
        assert_eq!(parts(""), expected(&[]));
        assert_eq!(parts(" \t"), expected(&[]));
        assert_eq!(parts("A_1"), expected(&[&["a_1"]]));
        assert_eq!(parts(" a , s . b "), expected(&[&["a"], &["s", "b"]]));
        assert_eq!(parts(r#" "A,b"."c.""d" "#), expected(&[&["A,b", "c.\"d"]]));
        assert_eq!(parts(r#" "A,b"."c.""d"" "#), None, "the last quote is part of the name");
        assert_eq!(parts("Äb,x$y"), expected(&[&["Äb"], &["x$y"]]), "ASCII is folded, other letters are not");
        assert_eq!(parts("a.b.c"), expected(&[&["a", "b", "c"]]));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in
            [",", ".", "a,", "a.", ",a", "a,,b", "a..b", "a b", "a;b", "\"\"", "\"", "\"a\"b", "a-b", "'a'"]
        {
            assert_eq!(parts(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_without_a_schema_is_of_any() {
        assert!(lists("i", "s", "i", "t") && lists("x, s.i", "s", "i", "t"));
        assert!(
            !lists("s.i", "other", "i", "t") && !lists("d.s.i", "s", "i", "t") && !lists("", "s", "i", "t")
        );
        assert!(!lists("i", "s", "I", "t") && lists("\"I\"", "s", "I", "t"));
    }

    #[test]
    fn an_index_names_its_shards() {
        assert!(lists("events_skip", "s", "events_skip_102040", "events_102040"));
        assert!(lists("s.events_skip", "s", "events_skip_102040", "events_102040"));
        assert!(!lists("o.events_skip", "s", "events_skip_102040", "events_102040"));
        assert!(!lists("events_skip", "s", "events_skip_102040", "events"));
        let list = IndexNames::parse("events_skip").unwrap_or_default();
        assert!(!list.names_index("s", "events_skip_102040", || None), "its table is gone");
    }
}
