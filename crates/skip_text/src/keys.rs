//! One column's keys: how values are cut, and what queries demand.

use crate::demand::MOST_KEYS;
use crate::ngrams::{self, Ngrams};
use crate::template::LONGEST_TEMPLATE;
use crate::{Demand, Encoding, KeyCase, Literal, Matching, RecentFragments, Symbol, Template};
use crate::{folding, like, prefixes, regex, words};
use std::collections::HashSet;

/// What the keys of a value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKeyKind {
    /// Its words ([`words`]).
    Words,
    /// Its fragments of so many characters ([`crate::ngrams`]).
    Ngrams(usize),
    /// Its first so many characters ([`prefixes`]).
    Prefix(usize),
}

/// How the values of a column become keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextKeys {
    kind: TextKeyKind,
    case: KeyCase,
    encoding: Encoding,
}

/// Why a column cannot be cut so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// The number of characters of a fragment.
    #[error("fragments of {0} characters are not possible: 2 to 8 characters are")]
    Fragment(usize),
    /// The number of characters of a prefix.
    #[error("a prefix of {0} characters is not possible: 1 to 256 characters are")]
    Prefix(usize),
}

/// A condition on a text column. Texts are in the encoding of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextQuery<'q> {
    /// `column = text`; with case ignored, citext's.
    Equals(&'q [u8], Matching),
    /// `column ^@ text`, `starts_with`.
    StartsWith(&'q [u8], Matching),
    /// The value has all words of the text ([`has_words`]); with case ignored, both folded by [`folding::fold`].
    HasWords(&'q [u8], Matching),
    /// `column LIKE pattern ESCAPE escape`, and `ILIKE`. The backslash is the escape unless the query says another.
    Like {
        /// The pattern.
        pattern: &'q [u8],
        /// The escape character; None: `ESCAPE ''`.
        escape: Option<char>,
        /// Exact for `LIKE`.
        matching: Matching,
    },
    /// `column ~ pattern`, `~*`.
    Regex(&'q [u8], Matching),
}

impl TextKeys {
    /// # Errors
    /// A number of characters out of bounds.
    pub fn new(kind: TextKeyKind, case: KeyCase, encoding: Encoding) -> Result<Self, CutError> {
        match kind {
            TextKeyKind::Ngrams(n) if !ngrams::LENGTHS.contains(&n) => Err(CutError::Fragment(n)),
            TextKeyKind::Prefix(length) if !prefixes::LENGTHS.contains(&length) => {
                Err(CutError::Prefix(length))
            }
            _ => Ok(Self { kind, case, encoding }),
        }
    }

    /// What the keys are.
    pub fn kind(&self) -> TextKeyKind {
        self.kind
    }

    /// The keys of a value, in order; some may come twice. The buffer is for the folded value: whoever cuts many values
    /// gives the same buffer again.
    pub fn keys<'v>(&self, value: &'v [u8], buffer: &'v mut Vec<u8>) -> TextKeyIter<'v> {
        let text = self.text(value, buffer);
        match self.kind {
            TextKeyKind::Words => TextKeyIter::Words(text),
            TextKeyKind::Ngrams(n) => TextKeyIter::Ngrams(ngrams::ngrams(text, n, self.encoding)),
            TextKeyKind::Prefix(length) => {
                TextKeyIter::Prefix(Some(prefixes::prefix(text, length, self.encoding)))
            }
        }
    }

    /// Calls `each` with the keys of a value. Fragments that were given since `recent` was cleared may be left out.
    pub fn each_new_key(
        &self,
        value: &[u8],
        buffer: &mut Vec<u8>,
        recent: &mut RecentFragments,
        mut each: impl FnMut(&[u8]),
    ) {
        if let TextKeyKind::Ngrams(n) = self.kind {
            let text = self.text(value, buffer);
            if !recent.each_new(text, n, self.encoding, &mut each) {
                ngrams::ngrams(text, n, self.encoding).for_each(each);
            }
            return;
        }
        self.keys(value, buffer).for_each(each);
    }

    /// The value, folded if the keys are.
    fn text<'v>(&self, value: &'v [u8], buffer: &'v mut Vec<u8>) -> &'v [u8] {
        match self.case {
            KeyCase::AsIs => value,
            KeyCase::Folded => {
                self.fold(value, buffer);
                buffer
            }
        }
    }

    /// The folded value, or as much of it as its key needs.
    fn fold(&self, value: &[u8], buffer: &mut Vec<u8>) {
        buffer.clear();
        if let TextKeyKind::Prefix(length) = self.kind {
            // Twice as many characters, because folding drops some.
            let first = self.encoding.end_of_first(value, 2 * length).map_or(value, |end| &value[..end]);
            folding::fold_text(first, self.encoding, buffer);
            if self.encoding.end_of_first(buffer, length).is_some() {
                return;
            }
            buffer.clear();
        }
        folding::fold_text(value, self.encoding, buffer);
    }

    /// What the keys of every matching value meet.
    pub fn demand(&self, query: &TextQuery) -> Demand<Vec<u8>> {
        if let TextQuery::HasWords(text, matching) = query {
            return self.demand_of_words(text, *matching);
        }
        self.literals(query).flat_map(&mut |literal| self.demand_of_literal(literal)).bounded()
    }

    /// What stands in every matching value, after its case is folded as the index has it.
    fn literals(&self, query: &TextQuery) -> Demand<Literal> {
        let template = match *query {
            TextQuery::Equals(text, matching) => self.text_template(text, matching, Symbol::End),
            TextQuery::StartsWith(text, matching) => self.text_template(text, matching, Symbol::Gap),
            TextQuery::Like { pattern, escape, matching } => {
                like::template(pattern, escape, self.case, matching, self.encoding)
            }
            TextQuery::Regex(pattern, matching) => {
                return regex::demand(pattern, self.case, matching, self.encoding);
            }
            TextQuery::HasWords(..) => None,
        };
        template.map_or(Demand::Anything, |template| template.demand(self.encoding))
    }

    /// The text at the start of the value, and then `last`.
    fn text_template(&self, text: &[u8], matching: Matching, last: Symbol) -> Option<Template> {
        let mut template = Template(vec![Symbol::Start]);
        let mut chars = self.encoding.chars(text)?;
        for c in chars.by_ref().take(LONGEST_TEMPLATE) {
            let symbol = folding::symbol(c, self.case, matching, self.encoding);
            symbol.into_iter().for_each(|symbol| template.push(symbol));
        }
        template.push(if chars.next().is_some() { Symbol::Gap } else { last });
        Some(template)
    }

    fn demand_of_literal(&self, literal: &Literal) -> Demand<Vec<u8>> {
        match self.kind {
            TextKeyKind::Words => words::demanded(literal),
            TextKeyKind::Ngrams(n) => ngrams::demanded(literal, n, self.encoding),
            TextKeyKind::Prefix(length) => prefixes::demanded(literal, length, self.encoding),
        }
    }

    /// Words stand in the value, with ends on both sides, wherever that is: so only keys that are words can be
    /// demanded, and fragments of the words.
    fn demand_of_words(&self, text: &[u8], matching: Matching) -> Demand<Vec<u8>> {
        if matching == Matching::IgnoreCase && self.case == KeyCase::AsIs {
            return Demand::Anything;
        }
        let mut folded = Vec::new();
        match self.case {
            KeyCase::AsIs => folded.extend_from_slice(text),
            KeyCase::Folded => folding::fold_text(text, self.encoding, &mut folded),
        }
        let each = words::words(&folded).take(MOST_KEYS).map(|word| match self.kind {
            TextKeyKind::Words => Demand::Key(word.to_vec()),
            TextKeyKind::Ngrams(n) => {
                let literal = Literal { text: word.to_vec(), at_start: false, at_end: false };
                ngrams::demanded(&literal, n, self.encoding)
            }
            TextKeyKind::Prefix(_) => Demand::Anything,
        });
        Demand::all(each).bounded()
    }
}

/// The keys of a value: the iterator of [`TextKeys::keys`].
#[derive(Clone, Debug)]
pub enum TextKeyIter<'v> {
    /// Words, of what is left of the value.
    Words(&'v [u8]),
    /// Fragments.
    Ngrams(Ngrams<'v>),
    /// The one prefix, until it is taken.
    Prefix(Option<&'v [u8]>),
}

impl<'v> Iterator for TextKeyIter<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        match self {
            TextKeyIter::Words(rest) => {
                let begin = rest.iter().position(|&byte| words::is_word_byte(byte))?;
                let (_, word_on) = rest.split_at(begin);
                let length = word_on.iter().position(|&byte| !words::is_word_byte(byte));
                let (word, after) = word_on.split_at(length.unwrap_or(word_on.len()));
                *rest = after;
                Some(word)
            }
            TextKeyIter::Ngrams(fragments) => fragments.next(),
            TextKeyIter::Prefix(prefix) => prefix.take(),
        }
    }
}

/// So many words of a text are searched for in the value one by one. Further ones go to a hash table, from which those
/// are removed that the value has: memory is in proportion to the query.
const FEW_WORDS: usize = 8;

/// Has the value all words of the text? The meaning of [`TextQuery::HasWords`], for the operator that checks rows. A
/// text without words is had by every value.
pub fn has_words(value: &[u8], text: &[u8], matching: Matching, encoding: Encoding) -> bool {
    match matching {
        Matching::Exact => has_folded_words(value, text),
        Matching::IgnoreCase => {
            let (mut folded_value, mut folded_text) = (Vec::new(), Vec::new());
            folding::fold_text(value, encoding, &mut folded_value);
            folding::fold_text(text, encoding, &mut folded_text);
            has_folded_words(&folded_value, &folded_text)
        }
    }
}

fn has_folded_words(value: &[u8], text: &[u8]) -> bool {
    let has = |wanted: &[u8]| words::words(value).any(|word| word == wanted);
    let mut wanted = words::words(text);
    // Most values lack one of the first words.
    if !wanted.by_ref().take(FEW_WORDS).all(has) {
        return false;
    }
    let mut missing: HashSet<&[u8]> = wanted.collect();
    let mut words = words::words(value);
    while !missing.is_empty() {
        let Some(word) = words.next() else { return false };
        missing.remove(word);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use Matching::{Exact, IgnoreCase};

    fn cut(kind: TextKeyKind, case: KeyCase) -> TextKeys {
        TextKeys::new(kind, case, Encoding::Utf8).unwrap()
    }

    fn all(keys: &[&str]) -> Demand<Vec<u8>> {
        Demand::all(keys.iter().map(|key| Demand::Key(key.as_bytes().to_vec())))
    }

    fn like(pattern: &str, matching: Matching) -> TextQuery<'_> {
        TextQuery::Like { pattern: pattern.as_bytes(), escape: Some('\\'), matching }
    }

    #[test]
    fn bounds() {
        for (kind, wanted) in [
            (TextKeyKind::Ngrams(1), "fragments of 1 characters are not possible: 2 to 8 characters are"),
            (TextKeyKind::Ngrams(9), "fragments of 9 characters are not possible: 2 to 8 characters are"),
            (TextKeyKind::Prefix(0), "a prefix of 0 characters is not possible: 1 to 256 characters are"),
            (TextKeyKind::Prefix(257), "a prefix of 257 characters is not possible: 1 to 256 characters are"),
        ] {
            assert_eq!(TextKeys::new(kind, KeyCase::AsIs, Encoding::Utf8).unwrap_err().to_string(), wanted);
        }
        for kind in
            [TextKeyKind::Ngrams(2), TextKeyKind::Ngrams(8), TextKeyKind::Prefix(1), TextKeyKind::Prefix(256)]
        {
            assert!(TextKeys::new(kind, KeyCase::AsIs, Encoding::Utf8).is_ok());
        }
    }

    #[test]
    fn words_of_queries() {
        let as_is = cut(TextKeyKind::Words, KeyCase::AsIs);
        let folded = cut(TextKeyKind::Words, KeyCase::Folded);
        assert_eq!(as_is.demand(&like("%error: disk full%", Exact)), all(&["disk"]));
        assert_eq!(as_is.demand(&like("error: disk full", Exact)), all(&["error", "disk", "full"]));
        assert_eq!(as_is.demand(&like("% Disk %", IgnoreCase)), Demand::Anything);
        assert_eq!(as_is.demand(&like("% 404 %", IgnoreCase)), all(&["404"]));
        assert_eq!(folded.demand(&like("% DISK Straße İx %", IgnoreCase)), all(&["disk", "ix"]));
        assert_eq!(folded.demand(&like("% DISK Straße %", Exact)), all(&["disk", "straße"]));
        assert_eq!(as_is.demand(&TextQuery::Equals(b"a b-c", Exact)), all(&["a", "b", "c"]));
        assert_eq!(as_is.demand(&TextQuery::StartsWith(b"a b-c", Exact)), all(&["a", "b"]));
        assert_eq!(as_is.demand(&TextQuery::Regex(b"[ ,]disk(s|)[ ]", Exact)).key_count(), 2);
        assert_eq!(as_is.demand(&TextQuery::HasWords(b"Disk full!", Exact)), all(&["Disk", "full"]));
        assert_eq!(as_is.demand(&TextQuery::HasWords(b"Disk", IgnoreCase)), Demand::Anything);
        assert_eq!(folded.demand(&TextQuery::HasWords(b"Disk", IgnoreCase)), all(&["disk"]));
        assert_eq!(as_is.demand(&TextQuery::HasWords(b"--", Exact)), Demand::Anything);
        let fragments = cut(TextKeyKind::Ngrams(3), KeyCase::Folded);
        assert_eq!(fragments.demand(&TextQuery::HasWords(b"Disk at", Exact)), all(&["dis", "isk"]));
        let prefix = cut(TextKeyKind::Prefix(3), KeyCase::Folded);
        assert_eq!(prefix.demand(&TextQuery::HasWords(b"Disk", Exact)), Demand::Anything);
    }

    #[test]
    fn folded_prefixes() {
        let prefix = cut(TextKeyKind::Prefix(3), KeyCase::Folded);
        let dots = "\u{307}".repeat(100);
        for (value, wanted) in [
            ("ÀBCDE", "àbc".to_owned()),
            ("ÀB", "àb".into()),
            (&format!("À{dots}BCDE"), "àbc".into()),
            (&format!("À{dots}B"), "àb".into()),
            (&dots, String::new()),
        ] {
            let mut buffer = Vec::new();
            assert_eq!(prefix.keys(value.as_bytes(), &mut buffer).collect::<Vec<_>>(), [wanted.as_bytes()]);
        }
    }

    #[test]
    fn fragments_and_prefixes_of_queries() {
        let fragments = cut(TextKeyKind::Ngrams(3), KeyCase::AsIs);
        assert_eq!(fragments.demand(&like("%disk_full%", Exact)), all(&["dis", "isk", "ful", "ull"]));
        assert_eq!(fragments.demand(&like("%ab%cd%", Exact)), Demand::Anything);
        assert_eq!(fragments.demand(&like("ab", Exact)), all(&["ab"]));
        assert_eq!(fragments.demand(&TextQuery::Equals(b"", Exact)), all(&[""]));
        assert_eq!(fragments.demand(&TextQuery::StartsWith(b"", Exact)), Demand::Anything);
        assert_eq!(fragments.demand(&TextQuery::Equals(b"\xFF", Exact)), Demand::Anything);
        let prefix = cut(TextKeyKind::Prefix(3), KeyCase::AsIs);
        assert_eq!(prefix.demand(&like("abcd%", Exact)), all(&["abc"]));
        assert_eq!(prefix.demand(&like("ab%", Exact)), Demand::Anything);
        assert_eq!(prefix.demand(&like("ab_d%", Exact)), Demand::Anything);
        assert_eq!(prefix.demand(&TextQuery::Equals(b"ab", Exact)), all(&["ab"]));
        assert_eq!(prefix.demand(&TextQuery::StartsWith(b"abcd", Exact)), all(&["abc"]));
        assert_eq!(prefix.demand(&TextQuery::Regex(b"^abc[de]", Exact)), all(&["abc"]));
        assert_eq!(prefix.demand(&TextQuery::Regex(b"(?n)^abcd", Exact)), Demand::Anything);
        let in_case = prefix.demand(&TextQuery::Regex(b"^(abc|xyz)", Exact));
        assert_eq!(in_case, Demand::any([all(&["abc"]), all(&["xyz"])]));
    }

    #[test]
    fn whole_words_are_found() {
        let has = |value: &str, text: &str, matching| {
            has_words(value.as_bytes(), text.as_bytes(), matching, Encoding::Utf8)
        };
        assert!(has("disk is full", "full disk", Exact) && !has("disks are full", "disk", Exact));
        assert!(!has("Disk", "disk", Exact) && has("Dısk", "DISK", IgnoreCase));
        assert!(has("", "", Exact) && !has("", "a", Exact));
        let many = (0..20).map(|i| format!("w{i} ")).collect::<String>();
        assert!(has(&format!("{many}w20"), &many, Exact) && has(&many.to_uppercase(), &many, IgnoreCase));
        assert!(!has(&many, &format!("{many}w20"), Exact) && !has(&many.to_uppercase(), &many, Exact));
    }

    #[test]
    fn long_texts_have_many_words() {
        // With a search of each word in the value, these would take an hour.
        let text = (0..1_000_000).map(|i| format!("{i:x} ")).collect::<String>();
        assert!(has_words(text.as_bytes(), text.as_bytes(), Exact, Encoding::Utf8));
        assert!(!has_words(text.as_bytes(), format!("{text}xyz").as_bytes(), Exact, Encoding::Utf8));
    }

    #[test]
    fn of_a_long_text_the_first_part_is_demanded() {
        let fragments = cut(TextKeyKind::Ngrams(3), KeyCase::AsIs);
        let long = format!("abc{}xyz", "-".repeat(LONGEST_TEMPLATE));
        let first_part = all(&["abc", "---"]);
        for query in [
            TextQuery::Equals(long.as_bytes(), Exact),
            TextQuery::StartsWith(long.as_bytes(), Exact),
            like(&long, Exact),
        ] {
            assert_eq!(fragments.demand(&query), first_part);
        }
        let words = cut(TextKeyKind::Words, KeyCase::AsIs);
        let long = format!("first {}", "w".repeat(LONGEST_TEMPLATE));
        assert_eq!(words.demand(&TextQuery::Equals(long.as_bytes(), Exact)), all(&["first"]));
    }

    #[test]
    fn a_huge_query_demands_a_bounded_number_of_keys() {
        let fragments = cut(TextKeyKind::Ngrams(3), KeyCase::AsIs);
        let pieces = (0..100_000).map(|i| format!("{i:06}%")).collect::<String>();
        assert!(
            (100..=crate::demand::MOST_KEYS).contains(&fragments.demand(&like(&pieces, Exact)).key_count())
        );
        let words = cut(TextKeyKind::Words, KeyCase::AsIs);
        let text = (0..100_000).map(|i| format!("{i} ")).collect::<String>();
        let asked = [TextQuery::Equals(text.as_bytes(), Exact), TextQuery::HasWords(text.as_bytes(), Exact)];
        for query in asked {
            assert_eq!(words.demand(&query).key_count(), crate::demand::MOST_KEYS);
        }
    }
}
