//! The tokens of an advanced regular expression, as `regc_lex.c` has them.

use super::NotUnderstood;
use crate::Encoding;

/// The most characters of brackets that are told apart.
const MOST_IN_BRACKETS: usize = 4;
/// The most repetitions that a bound may name (`DUPMAX`).
const MOST_REPETITIONS: u32 = 255;

/// A token. What matches no characters and what matches some that are not told apart are one token each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RegexToken {
    /// A character.
    Char(char),
    /// One of these characters; at least one.
    OneOf(Vec<char>),
    /// Characters that are not told apart: `.`, `\d`, most brackets, `\1`.
    Some,
    /// `^`.
    LineStart,
    /// `$`.
    LineEnd,
    /// `\A`.
    TextStart,
    /// `\Z`.
    TextEnd,
    /// `\m`, `\M`, `\y`, `\Y`.
    Boundary,
    /// `(?=`, `(?!`, `(?<=`, `(?<!`.
    LookAround,
    /// `(` or `(?:`.
    Open,
    /// `)`.
    Close,
    /// `|`.
    Bar,
    /// `*`, `+`, `?`, `{2,5}`, also with the `?` that makes them non-greedy.
    Repeat {
        /// How often at least.
        least: u32,
        /// How often at most; None: any number.
        most: Option<u32>,
    },
}

/// What a backslash and what follows mean.
enum Escape {
    Char(char),
    /// A class of characters, `\d` and the like.
    Class,
    /// What may not stand in brackets.
    Other(RegexToken),
}

/// What stands in brackets.
enum InBrackets {
    Char(char),
    /// The sign of a range.
    Dash,
    Other,
}

/// Reads tokens one by one.
pub(super) struct RegexLexer<'p> {
    chars: &'p [char],
    at: usize,
    /// `(?x)`: white space and comments mean nothing.
    expanded: bool,
    encoding: Encoding,
}

impl<'p> RegexLexer<'p> {
    pub fn new(chars: &'p [char], expanded: bool, encoding: Encoding) -> Self {
        Self { chars, at: 0, expanded, encoding }
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// The next token; None at the end of the pattern.
    pub fn token(&mut self) -> Result<Option<RegexToken>, NotUnderstood> {
        loop {
            self.skip_blanks()?;
            let Some(c) = self.take() else { return Ok(None) };
            return Ok(Some(match c {
                '|' => RegexToken::Bar,
                '*' => self.repeat(0, None),
                '+' => self.repeat(1, None),
                '?' => self.repeat(0, Some(1)),
                '{' => self.brace()?,
                '(' => match self.parenthesis()? {
                    Some(token) => token,
                    None => continue,
                },
                ')' => RegexToken::Close,
                '[' => self.brackets()?,
                '.' => RegexToken::Some,
                '^' => RegexToken::LineStart,
                '$' => RegexToken::LineEnd,
                '\\' => match self.escape()? {
                    Escape::Char(c) => RegexToken::Char(c),
                    Escape::Class => RegexToken::Some,
                    Escape::Other(token) => token,
                },
                // A byte of a character that may have several, the first of which are gaps before it: so a quantifier
                // behind it may be for this byte alone, or for the whole character.
                c if self.encoding == Encoding::Bytes && !c.is_ascii() => RegexToken::Some,
                c => RegexToken::Char(c),
            }));
        }
    }

    /// In expanded syntax, white space and comments. Which characters are white space is for the locale to say, except
    /// for these; the others that could be are not understood.
    fn skip_blanks(&mut self) -> Result<(), NotUnderstood> {
        while let (true, Some(c)) = (self.expanded, self.peek()) {
            match c {
                ' ' | '\t'..='\r' => self.at += 1,
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '!'..='~' => break,
                _ => return Err(NotUnderstood),
            }
        }
        Ok(())
    }

    /// A quantifier, of which the sign that it is not greedy follows at once.
    fn repeat(&mut self, least: u32, most: Option<u32>) -> RegexToken {
        self.eat('?');
        RegexToken::Repeat { least, most }
    }

    /// After `{`: a bound if a digit follows, else a plain character.
    fn brace(&mut self) -> Result<RegexToken, NotUnderstood> {
        self.skip_blanks()?;
        match self.peek() {
            Some(c) if c.is_ascii_digit() => {}
            Some(c) if !c.is_ascii() => return Err(NotUnderstood), // perhaps a digit of the locale
            _ => return Ok(RegexToken::Char('{')),
        }
        let least = self.number()?.ok_or(NotUnderstood)?;
        let most = if self.eat(',') { self.number()? } else { Some(least) };
        if !self.eat('}') || most.is_some_and(|most| most < least) {
            return Err(NotUnderstood);
        }
        Ok(self.repeat(least, most))
    }

    /// A number of repetitions, if a digit follows, and the blanks around its digits.
    fn number(&mut self) -> Result<Option<u32>, NotUnderstood> {
        let mut number = None;
        loop {
            self.skip_blanks()?;
            let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) else { break };
            self.at += 1;
            number = Some(number.unwrap_or(0) * 10 + digit);
            if number > Some(MOST_REPETITIONS) {
                return Err(NotUnderstood);
            }
        }
        Ok(number)
    }

    /// After `(`; None for a comment.
    fn parenthesis(&mut self) -> Result<Option<RegexToken>, NotUnderstood> {
        if !self.eat('?') {
            return Ok(Some(RegexToken::Open));
        }
        match self.take().ok_or(NotUnderstood)? {
            ':' => Ok(Some(RegexToken::Open)),
            '=' | '!' => Ok(Some(RegexToken::LookAround)),
            '<' if self.eat('=') || self.eat('!') => Ok(Some(RegexToken::LookAround)),
            '#' => {
                while self.take().is_some_and(|c| c != ')') {}
                Ok(None)
            }
            _ => Err(NotUnderstood),
        }
    }

    /// After `[`, to the `]` that ends it.
    fn brackets(&mut self) -> Result<RegexToken, NotUnderstood> {
        let negated = self.eat('^');
        let mut items = Vec::new();
        loop {
            let c = self.take().ok_or(NotUnderstood)?;
            let first = items.is_empty();
            items.push(match c {
                ']' if !first => break,
                '-' if !first && self.peek() != Some(']') => InBrackets::Dash,
                '\\' => match self.escape()? {
                    Escape::Char(c) => InBrackets::Char(c),
                    Escape::Class => InBrackets::Other,
                    Escape::Other(_) => return Err(NotUnderstood),
                },
                '[' if matches!(self.peek(), Some('.' | '=' | ':')) => {
                    self.skip_named()?;
                    InBrackets::Other
                }
                c => InBrackets::Char(c),
            });
        }
        let listed = if negated { None } else { listed(&items) };
        Ok(listed.map_or(RegexToken::Some, RegexToken::OneOf))
    }

    /// After `[` in brackets: `.`, `=` or `:`, a name, the same sign, `]`.
    fn skip_named(&mut self) -> Result<(), NotUnderstood> {
        let sign = self.take().ok_or(NotUnderstood)?;
        while self.take().ok_or(NotUnderstood)? != sign || !self.eat(']') {}
        Ok(())
    }

    /// After a backslash.
    fn escape(&mut self) -> Result<Escape, NotUnderstood> {
        let c = self.take().ok_or(NotUnderstood)?;
        Ok(Escape::Char(match c {
            c if !c.is_ascii() && self.encoding == Encoding::Bytes => return Err(NotUnderstood),
            c if !c.is_ascii_alphanumeric() => c,
            'a' => '\x07',
            'b' => '\x08',
            'B' => '\\',
            'c' => {
                let controlled = self.take().filter(char::is_ascii).ok_or(NotUnderstood)?;
                char::from(controlled as u8 & 0o37)
            }
            'e' => '\x1B',
            'f' => '\x0C',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0B',
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => return Ok(Escape::Class),
            'A' => return Ok(Escape::Other(RegexToken::TextStart)),
            'Z' => return Ok(Escape::Other(RegexToken::TextEnd)),
            'm' | 'M' | 'y' | 'Y' => return Ok(Escape::Other(RegexToken::Boundary)),
            'u' => self.code(16, 4, 4)?,
            'U' => self.code(16, 8, 8)?,
            'x' => self.code(16, 1, 255)?,
            '0' => {
                self.at -= 1;
                self.code(8, 1, 3)?
            }
            // A back reference. More digits: that, or an octal number, depending on how many groups there are.
            '1'..='9' if !self.peek().is_some_and(|next| next.is_ascii_digit()) => {
                return Ok(Escape::Other(RegexToken::Some));
            }
            _ => return Err(NotUnderstood),
        }))
    }

    /// The character with the code that so many digits give.
    fn code(&mut self, base: u32, least: usize, most: usize) -> Result<char, NotUnderstood> {
        let rest = &self.chars[self.at..];
        let digits = rest.iter().take(most).take_while(|c| c.is_digit(base)).count();
        let code = rest[..digits]
            .iter()
            .try_fold(0_u32, |code, c| code.checked_mul(base)?.checked_add(c.to_digit(base)?));
        self.at += digits;
        // Above ASCII, the encoding says what a code means.
        let most_code = if self.encoding == Encoding::Bytes { 0x7F } else { u32::MAX };
        let valid = code.filter(|&code| digits >= least && code <= most_code);
        valid.and_then(char::from_u32).ok_or(NotUnderstood)
    }
}

/// The characters in brackets if there are few and all of them ASCII; None if not.
fn listed(items: &[InBrackets]) -> Option<Vec<char>> {
    let mut listed = Vec::new();
    let mut rest = items;
    while let Some((first, after)) = rest.split_first() {
        let InBrackets::Char(from) = *first else { return None };
        let to = if let [InBrackets::Dash, end, ..] = after {
            let InBrackets::Char(to) = *end else { return None };
            rest = &after[2..];
            to
        } else {
            rest = after;
            from
        };
        if !from.is_ascii() || !to.is_ascii() {
            return None;
        }
        for c in from..=to {
            listed.push(c);
            if listed.len() > MOST_IN_BRACKETS {
                return None;
            }
        }
    }
    (!listed.is_empty()).then_some(listed)
}
