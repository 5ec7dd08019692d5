//! From Java's dialect to that of the Rust engines, as far as the two differ.

use std::iter::Peekable;
use std::str::Chars;

use super::escape::{Escaped, escape, push_escaped};
use super::{Charset, RegexError, class};

/// What an expression is put into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) charset: Charset,
    /// Whether for the backtracking engine.
    pub(super) backtracks: bool,
}

/// An expression in the engines' dialect.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) pattern: String,
    /// Whether it holds what the linear engine cannot do.
    pub(super) needs_backtracking: bool,
    /// How many groups it has.
    pub(super) groups: usize,
}

pub(super) struct Translator<'e> {
    pub(super) chars: Peekable<Chars<'e>>,
    pub(super) target: Target,
    pub(super) out: String,
    needs_backtracking: bool,
    /// Whether a flag was seen by which blanks and comments count for nothing, `(?x)`.
    pub(super) has_comments: bool,
    /// Groups that have been opened.
    groups: usize,
    /// Where in `out` the groups begin that are still open.
    open: Vec<usize>,
}

/// How far a quantifier has been read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantifier {
    None,
    /// A `?` makes it reluctant, a `+` possessive.
    Open,
    /// The same behind `{2}`, of which the engine knows no possessive form.
    OpenCounts,
    Closed,
}

pub(super) fn translate(expression: &str, target: Target) -> Result<Translated, RegexError> {
    let out = String::with_capacity(expression.len() + 16);
    let chars = expression.chars().peekable();
    let mut translator =
        Translator { chars, target, out, needs_backtracking: false, has_comments: false, groups: 0, open: Vec::new() };
    translator.run()?;
    let Translator { out: pattern, needs_backtracking, groups, .. } = translator;
    Ok(Translated { pattern, needs_backtracking, groups })
}

impl Translator<'_> {
    fn run(&mut self) -> Result<(), RegexError> {
        let mut quantifier = Quantifier::None;
        // Where in `out` begins what a quantifier repeats.
        let mut atom = 0;
        while let Some(char) = self.chars.next() {
            let mut next = Quantifier::None;
            let start = self.out.len();
            match (char, quantifier) {
                ('?', Quantifier::Open | Quantifier::OpenCounts) => {
                    self.out.push('?');
                    next = Quantifier::Closed;
                }
                ('+', Quantifier::Open) => {
                    self.needs_backtracking = true;
                    self.out.push('+');
                    next = Quantifier::Closed;
                }
                ('+', Quantifier::OpenCounts) => {
                    self.needs_backtracking = true;
                    self.out.insert_str(atom, "(?>");
                    self.out.push(')');
                    next = Quantifier::Closed;
                }
                // Java calls it dangling; here it would repeat the repetition.
                ('*' | '+' | '?' | '{', Quantifier::Open | Quantifier::OpenCounts | Quantifier::Closed) => {
                    return Err(RegexError::Invalid(format!(
                        "`{char}` stands behind a quantifier and repeats nothing"
                    )));
                }
                ('*' | '+' | '?', Quantifier::None) => {
                    self.out.push(char);
                    next = Quantifier::Open;
                }
                ('{', Quantifier::None) => {
                    self.counts()?;
                    next = Quantifier::OpenCounts;
                }
                ('\\', _) => self.escape()?,
                ('[', _) => class::class(self, 0)?,
                ('(', _) => {
                    self.open.push(start);
                    self.group()?;
                }
                _ => self.out.push(char),
            }
            if next == Quantifier::None {
                atom = if char == ')' { self.open.pop().unwrap_or(start) } else { start };
            }
            quantifier = next;
        }
        Ok(())
    }

    /// `{2}`, `{2,}` or `{2,3}`, without its opening brace.
    fn counts(&mut self) -> Result<(), RegexError> {
        self.out.push('{');
        if !self.chars.peek().is_some_and(char::is_ascii_digit) {
            return Err(RegexError::Invalid("`{` must be followed by a number, write `\\{` for a brace".to_owned()));
        }
        for char in self.chars.by_ref() {
            self.out.push(char);
            match char {
                '}' => return Ok(()),
                '0'..='9' | ',' => {}
                _ => break,
            }
        }
        Err(RegexError::Invalid("`{` needs `}` behind its numbers".to_owned()))
    }

    /// What follows a `\` outside of a class.
    fn escape(&mut self) -> Result<(), RegexError> {
        if let Some(first @ '1'..='9') = self.chars.peek().copied() {
            return self.back_reference(first);
        }
        match self.chars.peek() {
            Some('k') => {
                self.chars.next();
                self.needs_backtracking = true;
                self.out.push_str("\\k");
            }
            // ASCII in both modes; the backtracking engine has one mode for the whole expression.
            Some('b') => {
                self.chars.next();
                let unicode = self.target.charset == Charset::Unicode && !self.target.backtracks;
                self.out.push_str(if unicode { r"(?-u:\b)" } else { r"\b" });
            }
            Some('B') => {
                self.chars.next();
                self.out.push_str(r"\B");
            }
            Some('A') => {
                self.chars.next();
                self.out.push_str(r"\A");
            }
            Some('z' | 'Z') => {
                self.chars.next();
                self.out.push_str(r"\z");
            }
            _ => match escape(&mut self.chars, self.target.charset)? {
                Escaped::Char(char) => push_escaped(char, &mut self.out),
                Escaped::Set(set) => self.out.push_str(&format!("[{set}]")),
                Escaped::Not(set) => self.out.push_str(&format!("[^{set}]")),
                Escaped::Verbatim(text) => self.out.push_str(&text),
                Escaped::Quoted(text) => text.chars().for_each(|char| push_escaped(char, &mut self.out)),
            },
        }
        Ok(())
    }

    /// `\1`: further digits belong to it as long as there are as many groups before it.
    fn back_reference(&mut self, first: char) -> Result<(), RegexError> {
        self.chars.next();
        let digit = |char: char| char.to_digit(10).map(|digit| digit as usize);
        let mut group = digit(first).unwrap_or_default();
        while let Some(digit) = self.chars.peek().copied().and_then(digit) {
            let longer = group * 10 + digit;
            if longer > self.groups {
                break;
            }
            group = longer;
            self.chars.next();
        }
        if group > self.groups {
            return Err(RegexError::Invalid(format!("`\\{group}` stands before its group, or there is none")));
        }
        self.needs_backtracking = true;
        // In a group of its own, so that a digit behind it does not become part of it.
        self.out.push_str(&format!("(?:\\{group})"));
        Ok(())
    }

    /// What follows a `(`.
    fn group(&mut self) -> Result<(), RegexError> {
        if self.chars.next_if_eq(&'?').is_none() {
            self.groups += 1;
            self.out.push('(');
            return Ok(());
        }
        match self.chars.peek().copied() {
            Some(kind @ ('=' | '!' | '>')) => {
                self.chars.next();
                self.needs_backtracking = true;
                self.out.push_str(&format!("(?{kind}"));
            }
            Some('<') => {
                self.chars.next();
                self.out.push_str("(?<");
                if let Some(kind) = self.chars.next_if(|char| matches!(char, '=' | '!')) {
                    self.needs_backtracking = true;
                    self.out.push(kind);
                } else {
                    self.groups += 1;
                }
            }
            _ => self.flags()?,
        }
        Ok(())
    }

    /// `(?:`, `(?i)` or `(?i-s:`, without `(?`.
    fn flags(&mut self) -> Result<(), RegexError> {
        let (mut flags, mut kept) = (String::new(), String::new());
        loop {
            let Some(char) = self.chars.next() else {
                return Err(RegexError::Invalid(format!("`(?{flags}` is not closed")));
            };
            flags.push(char);
            match char {
                ':' | ')' => break,
                'i' | 'm' | 's' | 'x' | '-' => kept.push(char),
                // Line terminators other than `\n` are none here either way; letters are folded as the text is.
                'd' | 'u' => {}
                'U' => return Err(RegexError::Unsupported(format!("(?{flags})"))),
                _ => return Err(RegexError::Invalid(format!("`(?{flags}` begins no group"))),
            }
        }
        let kept = kept.strip_suffix('-').unwrap_or(&kept);
        self.has_comments |= kept.split('-').next().is_some_and(|set| set.contains('x'));
        match (flags.ends_with(':'), kept.is_empty()) {
            (true, _) => self.out.push_str(&format!("(?{kept}:")),
            (false, is_empty) => {
                // It has read its own `)`.
                self.open.pop();
                if !is_empty {
                    self.out.push_str(&format!("(?{kept})"));
                }
            }
        }
        Ok(())
    }
}
