//! Character classes: `[a-z&&[^b]]`.
//!
//! Both dialects nest and intersect them. But where Java has characters, the engines know `--`, `~~` and `[:alpha:]`,
//! and refuse a hyphen behind a set (`[\w-.]`): so every character is written in a way that means nothing else.

use super::RegexError;
use super::escape::{Escaped, escape, push_escaped};
use super::translate::Translator;

/// Classes within each other at most.
const MAX_DEPTH: usize = 50;

/// Reads what follows a `[`.
pub(super) fn class(translator: &mut Translator<'_>, depth: usize) -> Result<(), RegexError> {
    if depth > MAX_DEPTH {
        return Err(RegexError::TooLarge);
    }
    translator.out.push('[');
    if translator.chars.next_if_eq(&'^').is_some() {
        translator.out.push('^');
    }
    let mut is_first = true;
    loop {
        let Some(char) = translator.chars.next() else {
            return Err(RegexError::Invalid("a `[` is not closed".to_owned()));
        };
        match char {
            ']' if !is_first => {
                translator.out.push(']');
                return Ok(());
            }
            '[' => class(translator, depth + 1)?,
            '&' if translator.chars.next_if_eq(&'&').is_some() => translator.out.push_str("&&"),
            '\\' => match escape(&mut translator.chars, translator.target.charset)? {
                Escaped::Char(char) => range(translator, char)?,
                Escaped::Set(set) => translator.out.push_str(set),
                Escaped::Not(set) => translator.out.push_str(&format!("[^{set}]")),
                Escaped::Verbatim(text) => translator.out.push_str(&text),
                Escaped::Quoted(text) => text.chars().for_each(|char| push_escaped(char, &mut translator.out)),
            },
            // In an expression with comments, `(?x)`, blanks count for nothing in both dialects.
            ' ' | '\t' | '\n' | '#' if translator.has_comments => translator.out.push(char),
            _ => range(translator, char)?,
        }
        is_first = false;
    }
}

/// The character `first`, or the range that it begins.
fn range(translator: &mut Translator<'_>, first: char) -> Result<(), RegexError> {
    push_escaped(first, &mut translator.out);
    let mut ahead = translator.chars.clone();
    if ahead.next() != Some('-') || matches!(ahead.next(), None | Some(']' | '[')) {
        return Ok(());
    }
    translator.chars.next();
    let last = match translator.chars.next() {
        Some('\\') => match escape(&mut translator.chars, translator.target.charset)? {
            Escaped::Char(char) => char,
            _ => return Err(RegexError::Invalid("a range in `[…]` ends in a set of characters".to_owned())),
        },
        Some(char) => char,
        None => return Ok(()),
    };
    if last < first {
        return Err(RegexError::Invalid(format!("the range `{first}-{last}` is empty")));
    }
    translator.out.push('-');
    push_escaped(last, &mut translator.out);
    Ok(())
}
