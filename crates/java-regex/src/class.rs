//! Translation of character classes: `[a-z&&[^b]]`.
//!
//! Both syntaxes nest and intersect classes. But the engines give `--`, `~~` and `[:alpha:]` a meaning that Java does
//! not know, and reject a hyphen after a set (`[\w-.]`). So every character is escaped unless it is unambiguous.

use std::iter::Peekable;
use std::str::Chars;

use crate::charset::Charset;
use crate::error::RegexError;
use crate::escape::{Escaped, escape, push_escaped};

/// Maximum nesting of classes.
const MAX_DEPTH: usize = 50;

/// Translates one class.
pub(super) struct ClassTranslator<'t, 'e> {
    pub(super) chars: &'t mut Peekable<Chars<'e>>,
    pub(super) charset: Charset,
    /// True in an expression with the flag `(?x)`, in which white space and comments are ignored.
    pub(super) has_comments: bool,
    pub(super) out: &'t mut String,
}

// === impl ClassTranslator ===

impl ClassTranslator<'_, '_> {
    /// Translates the text after a `[`. `depth` is the number of classes around this one.
    pub(super) fn run(&mut self, depth: usize) -> Result<(), RegexError> {
        if depth > MAX_DEPTH {
            return Err(RegexError::TooLarge);
        }
        self.out.push('[');
        if self.chars.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let Some(char) = self.chars.next() else {
                return Err(RegexError::Invalid("a `[` is not closed".to_owned()));
            };
            match char {
                ']' if !is_first => {
                    self.out.push(']');
                    return Ok(());
                }
                '[' => self.run(depth + 1)?,
                '&' if self.chars.next_if_eq(&'&').is_some() => self.out.push_str("&&"),
                '\\' => self.escape()?,
                // Ignored in both syntaxes.
                ' ' | '\t' | '\n' | '#' if self.has_comments => self.out.push(char),
                _ => self.char_or_range(char)?,
            }
            is_first = false;
        }
    }

    /// Translates the text after a `\`.
    fn escape(&mut self) -> Result<(), RegexError> {
        match escape(self.chars, self.charset)? {
            Escaped::Char(char) => self.char_or_range(char)?,
            Escaped::Class(class) => self.out.push_str(class),
            Escaped::NegatedClass(class) => self.out.push_str(&format!("[^{class}]")),
            Escaped::Verbatim(text) => self.out.push_str(&text),
            Escaped::Quoted(text) => text.chars().for_each(|char| push_escaped(char, self.out)),
        }
        Ok(())
    }

    /// Translates the character `first`, or the range that starts with it.
    fn char_or_range(&mut self, first: char) -> Result<(), RegexError> {
        push_escaped(first, self.out);
        let mut ahead = self.chars.clone();
        if ahead.next() != Some('-') || matches!(ahead.next(), None | Some(']' | '[')) {
            return Ok(());
        }
        self.chars.next();
        let last = match self.chars.next() {
            Some('\\') => match escape(self.chars, self.charset)? {
                Escaped::Char(char) => char,
                _ => {
                    let message = "a range in `[…]` must end in a character, not in a class";
                    return Err(RegexError::Invalid(message.to_owned()));
                }
            },
            Some(char) => char,
            None => return Ok(()),
        };
        if last < first {
            return Err(RegexError::Invalid(format!("the range `{first}-{last}` is empty: swap its ends")));
        }
        self.out.push('-');
        push_escaped(last, self.out);
        Ok(())
    }
}
