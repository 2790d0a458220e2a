//! What stands in every matching value: characters in a row, with gaps between.
//!
//! A query that needs several things one after the other is a [`Template`]: `LIKE 'ab%c'` is start, `a`, `b`, gap, `c`,
//! end. Its certain runs of characters are [`Literal`]s, of which keys are cut. The characters are those of the value
//! after its case is folded as the index has it ([`crate::folding::fold_text`]).

use crate::demand::MOST_KEYS;
use crate::{Demand, Encoding};

/// The most characters of a text or LIKE pattern that are read; the rest counts as a gap. No more than [`MOST_KEYS`]
/// keys of a query are looked up, and the first part mostly has so many.
pub(crate) const LONGEST_TEMPLATE: usize = 1 << 16;

/// One step of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// The value begins here.
    Start,
    /// The value ends here.
    End,
    /// Any text may stand here, also none.
    Gap,
    /// This character stands here.
    Char(char),
}

/// Steps in a row. What is before the first and after the last is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(pub Vec<Symbol>);

/// A text that stands in every matching value, after its case is folded as the index has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// The characters, in the encoding of the database.
    pub text: Vec<u8>,
    /// The value begins with it.
    pub at_start: bool,
    /// The value ends with it.
    pub at_end: bool,
}

impl Template {
    /// Adds a step. Gaps in a row are one.
    pub fn push(&mut self, symbol: Symbol) {
        if symbol != Symbol::Gap || self.0.last() != Some(&Symbol::Gap) {
            self.0.push(symbol);
        }
    }

    /// Adds the steps of another template.
    pub fn append(&mut self, other: &Template) {
        other.0.iter().for_each(|&symbol| self.push(symbol));
    }

    /// The literals that stand in every value of this template.
    ///
    /// A start after characters, or characters after an end, mean that no value matches; they are taken as gaps.
    pub fn literals(&self, encoding: Encoding) -> Vec<Literal> {
        let none = || Literal { text: Vec::new(), at_start: false, at_end: false };
        let mut literals = Vec::new();
        let mut current = none();
        // A literal without characters says something only if the value is empty.
        let mut finish = |literal: Literal| {
            if !literal.text.is_empty() || (literal.at_start && literal.at_end) {
                literals.push(literal);
            }
        };
        for &symbol in &self.0 {
            match symbol {
                Symbol::Char(c) => {
                    if current.at_end {
                        finish(std::mem::replace(&mut current, none()));
                    }
                    encoding.push(&mut current.text, c);
                }
                Symbol::Start => {
                    if !current.text.is_empty() {
                        finish(std::mem::replace(&mut current, none()));
                    }
                    current.at_start = true;
                }
                Symbol::End => current.at_end = true,
                Symbol::Gap => finish(std::mem::replace(&mut current, none())),
            }
        }
        finish(current);
        literals
    }

    /// All of those literals, or the first of very many.
    pub fn demand(&self, encoding: Encoding) -> Demand<Literal> {
        Demand::all(self.literals(encoding).into_iter().take(MOST_KEYS).map(Demand::Key))
    }
}

#[cfg(test)]
mod tests {
    use super::Symbol::{End, Gap, Start};
    use super::*;

    fn literals(symbols: &[Symbol]) -> Vec<(String, bool, bool)> {
        let mut template = Template::default();
        symbols.iter().for_each(|&symbol| template.push(symbol));
        let found = template.literals(Encoding::Utf8).into_iter();
        found.map(|one| (String::from_utf8(one.text).unwrap(), one.at_start, one.at_end)).collect()
    }

    #[test]
    fn runs_between_gaps() {
        let (a, b) = (Symbol::Char('a'), Symbol::Char('ä'));
        let one = |text: &str, at_start, at_end| (text.to_owned(), at_start, at_end);
        assert_eq!(literals(&[a, b, Gap, Gap, a]), [one("aä", false, false), one("a", false, false)]);
        assert_eq!(literals(&[Start, a, Gap, b, End]), [one("a", true, false), one("ä", false, true)]);
        assert_eq!(literals(&[Start, a, b, End]), [one("aä", true, true)]);
        assert_eq!(literals(&[Start, End]), [one("", true, true)]);
        assert_eq!(literals(&[Start, Gap, End]), []);
        assert_eq!(literals(&[Start, Start, a, End, End]), [one("a", true, true)]);
        assert_eq!(literals(&[]), []);
        // What no value matches: still nothing that is not certain.
        assert_eq!(literals(&[a, Start, b]), [one("a", false, false), one("ä", true, false)]);
        assert_eq!(literals(&[a, End, b]), [one("a", false, true), one("ä", false, false)]);
    }
}
