//! From tokens to the shape of the whole pattern, as `regcomp.c` reads them.

use super::NotUnderstood;
use super::lexer::{RegexLexer, RegexToken};
use super::shape::RegexShape;
use crate::folding;
use crate::{Encoding, KeyCase, Matching, Symbol, Template};

/// How deep parentheses may be nested.
const MOST_LEVELS: usize = 100;

/// The options that a pattern may begin with, as far as they matter.
#[derive(Clone, Copy, Debug)]
struct RegexOptions {
    matching: Matching,
    /// The pattern is plain text.
    literal: bool,
    /// White space and comments mean nothing.
    expanded: bool,
    /// `^` and `$` mean lines.
    lines: bool,
}

struct RegexParser<'p> {
    lexer: RegexLexer<'p>,
    /// The token that comes next; None at the end.
    next: Option<RegexToken>,
    options: RegexOptions,
    keys: KeyCase,
    encoding: Encoding,
}

/// What the pattern matches.
pub(super) fn parse(
    pattern: &[char],
    keys: KeyCase,
    matching: Matching,
    encoding: Encoding,
) -> Result<RegexShape, NotUnderstood> {
    let (options, pattern) = options(pattern, matching)?;
    let lexer = RegexLexer::new(pattern, options.expanded, encoding);
    let mut parser = RegexParser { lexer, next: None, options, keys, encoding };
    if options.literal {
        let mut whole = RegexShape::symbols([], encoding);
        for &c in pattern {
            // As in the lexer: outside of UTF-8, and in MULE_INTERNAL, different bytes may be one character.
            let is_certain = encoding == Encoding::Utf8 || c.is_ascii();
            whole.then(if is_certain {
                parser.char(c)
            } else {
                RegexShape::symbols([Symbol::Gap], encoding)
            });
        }
        return Ok(whole);
    }
    parser.advance()?;
    let whole = parser.alternatives(0)?;
    // A parenthesis that closes nothing is an error.
    if parser.next.is_none() { Ok(whole) } else { Err(NotUnderstood) }
}

/// The options at the start, and the pattern after them.
fn options(pattern: &[char], matching: Matching) -> Result<(RegexOptions, &[char]), NotUnderstood> {
    let mut options = RegexOptions { matching, literal: false, expanded: false, lines: false };
    let pattern = match pattern {
        ['*', '*', '*', '=', rest @ ..] => {
            options.literal = true;
            return Ok((options, rest));
        }
        ['*', '*', '*', ':', rest @ ..] => rest,
        pattern => pattern,
    };
    let ['(', '?', rest @ ..] = pattern else { return Ok((options, pattern)) };
    let count = rest.iter().take_while(|c| c.is_ascii_alphabetic()).count();
    if count == 0 {
        return Ok((options, pattern));
    }
    for letter in &rest[..count] {
        match letter {
            'c' => options.matching = Matching::Exact,
            'i' => options.matching = Matching::IgnoreCase,
            'm' | 'n' | 'w' => options.lines = true,
            'p' | 's' => options.lines = false,
            'q' => options.literal = true,
            't' => options.expanded = false,
            'x' => options.expanded = true,
            _ => return Err(NotUnderstood), // other dialects (b, e), or an error
        }
    }
    let [')', rest @ ..] = &rest[count..] else { return Err(NotUnderstood) };
    Ok((options, rest))
}

impl RegexParser<'_> {
    fn advance(&mut self) -> Result<(), NotUnderstood> {
        self.next = self.lexer.token()?;
        Ok(())
    }

    /// Branches, to the end of the pattern or a closing parenthesis.
    fn alternatives(&mut self, level: usize) -> Result<RegexShape, NotUnderstood> {
        if level > MOST_LEVELS {
            return Err(NotUnderstood);
        }
        let mut branches = vec![self.branch(level)?];
        while self.next == Some(RegexToken::Bar) {
            self.advance()?;
            branches.push(self.branch(level)?);
        }
        Ok(RegexShape::either(branches, self.encoding))
    }

    /// Atoms and constraints, perhaps none.
    fn branch(&mut self, level: usize) -> Result<RegexShape, NotUnderstood> {
        let mut branch = RegexShape::symbols([], self.encoding);
        while let Some(token) = self.next.take_if(|next| !matches!(next, RegexToken::Bar | RegexToken::Close))
        {
            self.advance()?;
            let part = self.part(token, level)?;
            branch.then(part);
        }
        Ok(branch)
    }

    /// The constraint or the atom with its quantifier that begins with the token, which is read already.
    fn part(&mut self, token: RegexToken, level: usize) -> Result<RegexShape, NotUnderstood> {
        let none = RegexShape::symbols([], self.encoding);
        let atom = match token {
            // Constraints, after which a quantifier is an error: it comes as a token of its own, below.
            RegexToken::TextStart => return Ok(RegexShape::symbols([Symbol::Start], self.encoding)),
            RegexToken::TextEnd => return Ok(RegexShape::symbols([Symbol::End], self.encoding)),
            RegexToken::LineStart | RegexToken::LineEnd if self.options.lines => return Ok(none),
            RegexToken::LineStart => return Ok(RegexShape::symbols([Symbol::Start], self.encoding)),
            RegexToken::LineEnd => return Ok(RegexShape::symbols([Symbol::End], self.encoding)),
            RegexToken::Boundary => return Ok(none),
            RegexToken::LookAround => {
                self.group(level)?;
                return Ok(none);
            }
            RegexToken::Open => self.group(level)?,
            RegexToken::Char(c) => self.char(c),
            RegexToken::OneOf(chars) => self.one_of(&chars),
            RegexToken::Some => RegexShape::symbols([Symbol::Gap], self.encoding),
            RegexToken::Repeat { .. } | RegexToken::Close | RegexToken::Bar => return Err(NotUnderstood),
        };
        let Some(RegexToken::Repeat { least, most }) = self.next else { return Ok(atom) };
        self.advance()?;
        Ok(atom.repeated(least, most))
    }

    /// What stands in parentheses, with the closing one.
    fn group(&mut self, level: usize) -> Result<RegexShape, NotUnderstood> {
        let inner = self.alternatives(level + 1)?;
        if self.next != Some(RegexToken::Close) {
            return Err(NotUnderstood);
        }
        self.advance()?;
        Ok(inner)
    }

    fn symbol(&self, c: char) -> Option<Symbol> {
        folding::symbol(c, self.keys, self.options.matching, self.encoding)
    }

    fn char(&self, c: char) -> RegexShape {
        RegexShape::symbols(self.symbol(c), self.encoding)
    }

    fn one_of(&self, chars: &[char]) -> RegexShape {
        let symbols: Vec<Option<Symbol>> = chars.iter().map(|&c| self.symbol(c)).collect();
        if symbols.contains(&Some(Symbol::Gap)) {
            return RegexShape::symbols([Symbol::Gap], self.encoding);
        }
        let templates = symbols.into_iter().map(|symbol| Template(symbol.into_iter().collect()));
        RegexShape::of(templates.collect(), self.encoding)
    }
}
