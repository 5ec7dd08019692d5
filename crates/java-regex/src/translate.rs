//! Translation from Java's syntax to that of the Rust engines, where the two differ.

use std::iter::Peekable;
use std::str::Chars;

use crate::charset::Charset;
use crate::class::ClassTranslator;
use crate::error::RegexError;
use crate::escape::{Escaped, escape, push_escaped};

/// The syntax to translate to: that of an engine, for texts in a charset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    pub(super) charset: Charset,
    /// True for the backtracking engine.
    pub(super) backtracks: bool,
}

/// An expression in the engines' syntax.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) pattern: String,
    /// True if the linear engine does not support the expression.
    pub(super) needs_backtracking: bool,
    /// Number of groups, without group 0.
    pub(super) groups: usize,
}

struct Translator<'e> {
    chars: Peekable<Chars<'e>>,
    dialect: Dialect,
    out: String,
    needs_backtracking: bool,
    /// True after the flag `(?x)`: white space and comments are ignored.
    has_comments: bool,
    /// Number of groups opened so far.
    groups: usize,
    /// Start in `out` of each group that is still open.
    open: Vec<usize>,
}

/// The quantifier directly before the current character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantifier {
    None,
    /// A `?` would make it reluctant, a `+` possessive.
    Open,
    /// The same after `{2}`, which has no possessive form in the engine.
    OpenCounted,
    /// Complete, with its modifier.
    Closed,
}

pub(super) fn translate(expression: &str, dialect: Dialect) -> Result<Translated, RegexError> {
    let out = String::with_capacity(expression.len() + 16);
    let chars = expression.chars().peekable();
    let mut translator =
        Translator { chars, dialect, out, needs_backtracking: false, has_comments: false, groups: 0, open: Vec::new() };
    translator.run()?;
    let Translator { out: pattern, needs_backtracking, groups, .. } = translator;
    Ok(Translated { pattern, needs_backtracking, groups })
}

impl Translator<'_> {
    fn run(&mut self) -> Result<(), RegexError> {
        let mut quantifier = Quantifier::None;
        // Start in `out` of the atom that a quantifier repeats.
        let mut atom = 0;
        while let Some(char) = self.chars.next() {
            let start = self.out.len();
            if matches!(char, '*' | '+' | '?' | '{') {
                quantifier = self.quantifier(char, quantifier, atom)?;
                continue;
            }
            quantifier = Quantifier::None;
            match char {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => {
                    self.open.push(start);
                    self.group()?;
                }
                _ => self.out.push(char),
            }
            atom = if char == ')' { self.open.pop().unwrap_or(start) } else { start };
        }
        Ok(())
    }

    /// Translates the quantifier `char`, or the modifier of the quantifier `previous`. `atom` is the start in `out` of
    /// the repeated atom.
    fn quantifier(&mut self, char: char, previous: Quantifier, atom: usize) -> Result<Quantifier, RegexError> {
        match (char, previous) {
            ('{', Quantifier::None) => {
                self.counted_repetition()?;
                return Ok(Quantifier::OpenCounted);
            }
            (_, Quantifier::None) => {
                self.out.push(char);
                return Ok(Quantifier::Open);
            }
            ('?', Quantifier::Open | Quantifier::OpenCounted) => self.out.push('?'),
            ('+', Quantifier::Open) => {
                self.needs_backtracking = true;
                self.out.push('+');
            }
            ('+', Quantifier::OpenCounted) => {
                self.needs_backtracking = true;
                self.out.insert_str(atom, "(?>");
                self.out.push(')');
            }
            // A dangling quantifier in Java; the engines would repeat the repetition.
            _ => return Err(RegexError::Invalid(format!("`{char}` follows a quantifier: remove one of them"))),
        }
        Ok(Quantifier::Closed)
    }

    fn class(&mut self) -> Result<(), RegexError> {
        let (charset, has_comments) = (self.dialect.charset, self.has_comments);
        ClassTranslator { chars: &mut self.chars, charset, has_comments, out: &mut self.out }.run(0)
    }

    /// Translates `{2}`, `{2,}` or `{2,3}` after its opening brace.
    fn counted_repetition(&mut self) -> Result<(), RegexError> {
        self.out.push('{');
        if !self.chars.peek().is_some_and(char::is_ascii_digit) {
            return Err(RegexError::Invalid("`{` must be followed by a number: write `\\{` for a brace".to_owned()));
        }
        for char in self.chars.by_ref() {
            self.out.push(char);
            match char {
                '}' => return Ok(()),
                '0'..='9' | ',' => {}
                _ => break,
            }
        }
        Err(RegexError::Invalid("`{` is not closed: add `}` after its numbers".to_owned()))
    }

    /// Translates the text after a `\` outside of a class.
    fn escape(&mut self) -> Result<(), RegexError> {
        if let Some(first @ '1'..='9') = self.chars.peek().copied() {
            return self.back_reference(first);
        }
        let assertion = match self.chars.peek() {
            Some('k') => {
                self.needs_backtracking = true;
                r"\k"
            }
            // ASCII in both charsets. The backtracking engine has one mode for the whole expression.
            Some('b') if self.dialect.charset == Charset::Unicode && !self.dialect.backtracks => r"(?-u:\b)",
            Some('b') => r"\b",
            Some('B') => r"\B",
            Some('A') => r"\A",
            Some('z' | 'Z') => r"\z",
            _ => return self.character_or_class(),
        };
        self.chars.next();
        self.out.push_str(assertion);
        Ok(())
    }

    /// Translates an escape that has the same meaning inside of a class.
    fn character_or_class(&mut self) -> Result<(), RegexError> {
        match escape(&mut self.chars, self.dialect.charset)? {
            Escaped::Char(char) => push_escaped(char, &mut self.out),
            Escaped::Class(class) => self.out.push_str(&format!("[{class}]")),
            Escaped::NegatedClass(class) => self.out.push_str(&format!("[^{class}]")),
            Escaped::Verbatim(text) => self.out.push_str(&text),
            Escaped::Quoted(text) => text.chars().for_each(|char| push_escaped(char, &mut self.out)),
        }
        Ok(())
    }

    /// Translates `\1`. Further digits belong to the number as long as that many groups precede it.
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
            return Err(RegexError::Invalid(format!("`\\{group}` refers to a group that is not defined before it")));
        }
        self.needs_backtracking = true;
        // Grouped, so that a digit after it does not become part of the number.
        self.out.push_str(&format!("(?:\\{group})"));
        Ok(())
    }

    /// Translates the text after a `(`.
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

    /// Translates `(?:`, `(?i)` or `(?i-s:` after the `(?`.
    fn flags(&mut self) -> Result<(), RegexError> {
        let (mut flags, mut supported) = (String::new(), String::new());
        loop {
            let Some(char) = self.chars.next() else {
                return Err(RegexError::Invalid(format!("`(?{flags}` is not closed")));
            };
            flags.push(char);
            match char {
                ':' | ')' => break,
                'i' | 'm' | 's' | 'x' | '-' => supported.push(char),
                // Without effect: `\n` is the only line terminator, and the charset decides how letters are folded.
                'd' | 'u' => {}
                'U' => return Err(RegexError::Unsupported(format!("(?{flags})"))),
                _ => return Err(RegexError::Invalid(format!("`(?{flags}` is not a valid group"))),
            }
        }
        let supported = supported.strip_suffix('-').unwrap_or(&supported);
        self.has_comments |= supported.split('-').next().is_some_and(|set| set.contains('x'));
        match (flags.ends_with(':'), supported.is_empty()) {
            (true, _) => self.out.push_str(&format!("(?{supported}:")),
            (false, is_empty) => {
                // The `)` has been read already.
                self.open.pop();
                if !is_empty {
                    self.out.push_str(&format!("(?{supported})"));
                }
            }
        }
        Ok(())
    }
}
