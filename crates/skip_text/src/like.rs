//! `LIKE` patterns: `%` is any text, `_` any one character, an escape character makes the next one literal.
//!
//! As PostgreSQL has them (`like_match.c`): the escape makes whatever follows literal, also an ordinary character; a
//! pattern that ends with the escape is an error when the match gets there, so it demands nothing. `ESCAPE 'x'` is
//! rewritten by the server to the backslash (`like_escape`), so patterns that the planner sees have that; other escape
//! characters are understood here too.
//!
//! Under ICU and libc, `ILIKE` lowers the pattern as a whole before it is read. No letter becomes `%`, `_` or `\`, nor
//! the reverse, so reading it first comes to the same.

use crate::folding;
use crate::template::LONGEST_TEMPLATE;
use crate::{Encoding, KeyCase, Matching, Symbol, Template};

/// What a pattern says. None: nothing (it is not valid, or not in the encoding).
pub fn template(
    pattern: &[u8],
    escape: Option<char>,
    keys: KeyCase,
    matching: Matching,
    encoding: Encoding,
) -> Option<Template> {
    if encoding == Encoding::Bytes && escape.is_some_and(|escape| !escape.is_ascii()) {
        return None; // characters of several bytes are not told apart
    }
    let mut template = Template(vec![Symbol::Start]);
    let mut chars = encoding.chars(pattern)?;
    while let Some(c) = chars.next() {
        if template.0.len() > LONGEST_TEMPLATE {
            template.push(Symbol::Gap);
            return Some(template);
        }
        let literal = match c {
            c if Some(c) == escape => chars.next()?,
            '%' | '_' => {
                template.push(Symbol::Gap);
                continue;
            }
            c => c,
        };
        folding::symbol(literal, keys, matching, encoding)
            .into_iter()
            .for_each(|symbol| template.push(symbol));
    }
    template.push(Symbol::End);
    Some(template)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Symbol::{Char, End, Gap, Start};

    fn exact(pattern: &str, escape: Option<char>) -> Option<Vec<Symbol>> {
        template(pattern.as_bytes(), escape, KeyCase::AsIs, Matching::Exact, Encoding::Utf8)
            .map(|found| found.0)
    }

    #[test]
    fn patterns() {
        let backslash = Some('\\');
        assert_eq!(exact("", backslash).unwrap(), [Start, End]);
        assert_eq!(exact("%", backslash).unwrap(), [Start, Gap, End]);
        assert_eq!(exact("a%_%b", backslash).unwrap(), [Start, Char('a'), Gap, Char('b'), End]);
        assert_eq!(
            exact(r"\%\_\\\a", backslash).unwrap(),
            [Start, Char('%'), Char('_'), Char('\\'), Char('a'), End]
        );
        assert_eq!(exact(r"\ä", backslash).unwrap(), [Start, Char('ä'), End]);
        assert_eq!(exact(r"a\", backslash), None);
        assert_eq!(exact(r"a\", None).unwrap(), [Start, Char('a'), Char('\\'), End]);
        assert_eq!(exact(r"\%", None).unwrap(), [Start, Char('\\'), Gap, End]);
        assert_eq!(exact("aé%éé", Some('é')).unwrap(), [Start, Char('a'), Char('%'), Char('é'), End]);
        assert_eq!(exact("%%%", Some('%')), None);
        assert_eq!(exact("%%", Some('%')).unwrap(), [Start, Char('%'), End]);
        assert_eq!(
            template(b"a\xFF", backslash, KeyCase::AsIs, Matching::Exact, Encoding::Utf8),
            None,
            "not valid UTF-8"
        );
    }

    #[test]
    fn ignoring_case() {
        let folded = |pattern: &str, keys| {
            template(pattern.as_bytes(), Some('\\'), keys, Matching::IgnoreCase, Encoding::Utf8).unwrap().0
        };
        assert_eq!(
            folded("%Ma\\ß4", KeyCase::Folded),
            [Start, Gap, Char('m'), Char('a'), Gap, Char('4'), End]
        );
        assert_eq!(folded("a1b22", KeyCase::AsIs), [Start, Gap, Char('1'), Gap, Char('2'), Char('2'), End]);
        assert_eq!(folded("I\u{307}x", KeyCase::Folded), [Start, Char('i'), Char('x'), End]);
    }
}
