//! Escapes that mean the same within classes and without.

use std::iter::Peekable;
use std::str::Chars;

use super::{Charset, RegexError};

/// What an escape stands for.
pub(super) enum Escaped {
    Char(char),
    /// What may stand between `[` and `]`.
    Set(&'static str),
    /// What may stand between `[^` and `]`.
    Not(&'static str),
    /// An escape that the engines have as well.
    Verbatim(String),
    /// The text of `\Q…\E`.
    Quoted(String),
}

const DIGIT: &str = "0-9";
const WORD: &str = "A-Za-z0-9_";
const SPACE: &str = r"\x20\t\n\x0B\f\r";
const VERTICAL: (&str, &str) = (r"\n\x0B\f\r\x85", r"\n\x0B\f\r\x{85}\x{2028}\x{2029}");
const HORIZONTAL: (&str, &str) =
    (r"\x20\t\xA0", r"\x20\t\x{A0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}");

/// Java's names for classes of ASCII.
const POSIX: [(&str, &str); 13] = [
    ("Lower", "a-z"),
    ("Upper", "A-Z"),
    ("ASCII", r"\x00-\x7F"),
    ("Alpha", "A-Za-z"),
    ("Digit", DIGIT),
    ("Alnum", "A-Za-z0-9"),
    ("Punct", r"!-/:-@\[-`{-\x7E"),
    ("Graph", r"!-\x7E"),
    ("Print", r"\x20-\x7E"),
    ("Blank", r"\x20\t"),
    ("Cntrl", r"\x00-\x1F\x7F"),
    ("XDigit", "0-9A-Fa-f"),
    ("Space", SPACE),
];

/// Reads what follows a `\`.
pub(super) fn escape(chars: &mut Peekable<Chars<'_>>, charset: Charset) -> Result<Escaped, RegexError> {
    let of = |(bytes, unicode): (&'static str, &'static str)| match charset {
        Charset::Bytes => bytes,
        Charset::Unicode => unicode,
    };
    let Some(char) = chars.next() else {
        return Err(RegexError::Invalid("a `\\` at the end escapes nothing".to_owned()));
    };
    Ok(match char {
        'd' => Escaped::Set(DIGIT),
        'D' => Escaped::Not(DIGIT),
        'w' => Escaped::Set(WORD),
        'W' => Escaped::Not(WORD),
        's' => Escaped::Set(SPACE),
        'S' => Escaped::Not(SPACE),
        'v' => Escaped::Set(of(VERTICAL)),
        'V' => Escaped::Not(of(VERTICAL)),
        'h' => Escaped::Set(of(HORIZONTAL)),
        'H' => Escaped::Not(of(HORIZONTAL)),
        't' => Escaped::Char('\t'),
        'n' => Escaped::Char('\n'),
        'r' => Escaped::Char('\r'),
        'f' => Escaped::Char('\x0C'),
        'a' => Escaped::Char('\x07'),
        'e' => Escaped::Char('\x1B'),
        'c' => match chars.next() {
            Some(letter) if letter.is_ascii() => Escaped::Char(char::from(letter as u8 ^ 64)),
            _ => return Err(RegexError::Invalid("`\\c` needs a letter".to_owned())),
        },
        'x' if chars.next_if_eq(&'{').is_some() => {
            let digits: String = chars.by_ref().take_while(|char| *char != '}').collect();
            code_point(&digits)?
        }
        'x' => code_point(&chars.by_ref().take(2).collect::<String>())?,
        'u' => code_point(&chars.by_ref().take(4).collect::<String>())?,
        '0' => {
            let mut code = 0;
            while let Some(digit) =
                chars.peek().and_then(|char| char.to_digit(8)).filter(|digit| code * 8 + digit < 256)
            {
                code = code * 8 + digit;
                chars.next();
            }
            Escaped::Char(char::from_u32(code).unwrap_or('\0'))
        }
        'p' | 'P' => property(chars, char == 'P')?,
        'Q' => Escaped::Quoted(quoted(chars)),
        _ if char.is_ascii_alphanumeric() => return Err(RegexError::Unsupported(format!("\\{char}"))),
        _ => Escaped::Char(char),
    })
}

fn code_point(digits: &str) -> Result<Escaped, RegexError> {
    let char = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
    let invalid = || RegexError::Invalid(format!("`{digits}` is no character's number in hexadecimal"));
    char.map(Escaped::Char).ok_or_else(invalid)
}

/// `\p{Name}`; properties other than those of ASCII are the engines' to know.
fn property(chars: &mut Peekable<Chars<'_>>, negated: bool) -> Result<Escaped, RegexError> {
    let name = if chars.next_if_eq(&'{').is_some() {
        chars.by_ref().take_while(|char| *char != '}').collect()
    } else {
        chars.next().map(String::from).unwrap_or_default()
    };
    let ascii = POSIX.iter().find(|(posix, _)| *posix == name).map(|(_, set)| *set);
    Ok(match (ascii, negated) {
        (Some(set), false) => Escaped::Set(set),
        (Some(set), true) => Escaped::Not(set),
        (None, _) if name.starts_with("java") || name.starts_with("In") => {
            return Err(RegexError::Unsupported(format!("\\p{{{name}}}")));
        }
        (None, _) => {
            let name = name.strip_prefix("Is").unwrap_or(&name);
            Escaped::Verbatim(format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' }))
        }
    })
}

/// The text up to `\E`, or to the end.
fn quoted(chars: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    for char in chars.by_ref() {
        text.push(char);
        if text.ends_with(r"\E") {
            text.truncate(text.len() - 2);
            break;
        }
    }
    text
}

/// Appends `char` so that it stands for itself, wherever it stands.
pub(super) fn push_escaped(char: char, out: &mut String) {
    if char.is_ascii_alphanumeric() || matches!(char, '/' | '_' | '%' | ',' | '=' | '"' | '\'') || !char.is_ascii() {
        out.push(char);
    } else if char.is_ascii_punctuation() && !matches!(char, '<' | '>') {
        out.extend(['\\', char]);
    } else {
        out.push_str(&format!("\\x{:02X}", u32::from(char)));
    }
}
