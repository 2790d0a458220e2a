//! PostgreSQL's regular expressions: what stands in every value that matches.
//!
//! Why a parser of our own: crates for other dialects read some patterns otherwise than PostgreSQL (`\m`, `\y`, `\A`,
//! `\Z`, `\B` a backslash, `\1`, `[[.hyphen.]]`, `[[:<:]]`, `(?=`, `***=`, `(?q)`, `\x` with any number of digits, a
//! comment between an atom and its quantifier), and every such difference could lose rows. What is needed is small: the
//! sequence, the alternatives and the quantifiers. So this parser follows `regc_lex.c` and `regcomp.c` of PostgreSQL 15
//! to 18 token by token for advanced regular expressions, and gives up (the pattern then demands nothing) at whatever
//! it does not know: errors, `(?b)` and `(?e)`, what depends on the locale's character types.
//!
//! | construct | taken as |
//! |---|---|
//! | a character, also by escape | itself, or a gap if case is ignored and it is not certain |
//! | `.`, `\d` and the like, `[^…]`, brackets with ranges or classes | a gap |
//! | brackets with few ASCII characters | alternatives |
//! | `^`, `\A`, `$`, `\Z` | start and end of the value; nothing where `^` and `$` mean lines |
//! | `\m`, `\M`, `\y`, `\Y`, `(?=…)`, `(?!…)`, `(?<=…)`, `(?<!…)` | nothing, they match no characters |
//! | `\1` | a gap |
//! | `x*`, `x{0,5}` | a gap |
//! | `x?` | nothing or `x` |
//! | `x+`, `x{2,}` | `x` as often as it must come, then a gap |
//!
//! Whether a quantifier is greedy, and what is captured, decides which match is found, not whether there is one.
//! Boundaries of words (`\m` and so on) do not make words certain: the locale decides which characters are letters
//! there, and in the C locale `é` is none, whereas here it is part of a word.

mod lexer;
mod parser;
mod shape;

use crate::{Demand, Encoding, KeyCase, Literal, Matching};

/// Longer patterns demand nothing, in characters.
pub const LONGEST_PATTERN: usize = 10_000;

/// This parser does not say what the pattern means. So it demands nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotUnderstood;

/// What stands in every value that matches the pattern under `~` (exact) or `~*`.
pub fn demand(pattern: &[u8], keys: KeyCase, matching: Matching, encoding: Encoding) -> Demand<Literal> {
    let chars = encoding.chars(pattern).map(|chars| chars.take(LONGEST_PATTERN + 1).collect::<Vec<char>>());
    let short = chars.filter(|chars| chars.len() <= LONGEST_PATTERN);
    short
        .and_then(|chars| parser::parse(&chars, keys, matching, encoding).ok())
        .map_or(Demand::Anything, |shape| shape.demand(encoding))
}

#[cfg(test)]
mod tests;
