//! Escapes with the same meaning inside and outside of classes.

use std::iter::Peekable;
use std::str::Chars;

use crate::charset::Charset;
use crate::error::RegexError;

/// The meaning of an escape.
pub(super) enum Escaped {
    Char(char),
    /// The text between `[` and `]`.
    Class(&'static str),
    /// The text between `[^` and `]`.
    NegatedClass(&'static str),
    /// An escape that the engines know as well.
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

/// Java's names of ASCII classes.
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

/// Parses the text after a `\`.
pub(super) fn escape(chars: &mut Peekable<Chars<'_>>, charset: Charset) -> Result<Escaped, RegexError> {
    let of = |(bytes, unicode): (&'static str, &'static str)| match charset {
        Charset::Bytes => bytes,
        Charset::Unicode => unicode,
    };
    let Some(char) = chars.next() else {
        return Err(RegexError::Invalid("nothing follows the final `\\`: write `\\\\` for a backslash".to_owned()));
    };
    Ok(match char {
        'd' => Escaped::Class(DIGIT),
        'D' => Escaped::NegatedClass(DIGIT),
        'w' => Escaped::Class(WORD),
        'W' => Escaped::NegatedClass(WORD),
        's' => Escaped::Class(SPACE),
        'S' => Escaped::NegatedClass(SPACE),
        'v' => Escaped::Class(of(VERTICAL)),
        'V' => Escaped::NegatedClass(of(VERTICAL)),
        'h' => Escaped::Class(of(HORIZONTAL)),
        'H' => Escaped::NegatedClass(of(HORIZONTAL)),
        't' => Escaped::Char('\t'),
        'n' => Escaped::Char('\n'),
        'r' => Escaped::Char('\r'),
        'f' => Escaped::Char('\x0C'),
        'a' => Escaped::Char('\x07'),
        'e' => Escaped::Char('\x1B'),
        'c' => match chars.next() {
            Some(letter) if letter.is_ascii() => Escaped::Char(char::from(letter as u8 ^ 64)),
            _ => return Err(RegexError::Invalid("`\\c` must be followed by an ASCII character".to_owned())),
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
    let invalid = || RegexError::Invalid(format!("`{digits}` is not a hexadecimal code point"));
    char.map(Escaped::Char).ok_or_else(invalid)
}

/// Parses `\p{Name}`. Names other than those of ASCII classes are passed to the engines.
fn property(chars: &mut Peekable<Chars<'_>>, negated: bool) -> Result<Escaped, RegexError> {
    let name = if chars.next_if_eq(&'{').is_some() {
        chars.by_ref().take_while(|char| *char != '}').collect()
    } else {
        chars.next().map(String::from).unwrap_or_default()
    };
    let ascii = POSIX.iter().find(|(posix, _)| *posix == name).map(|(_, set)| *set);
    Ok(match (ascii, negated) {
        (Some(set), false) => Escaped::Class(set),
        (Some(set), true) => Escaped::NegatedClass(set),
        (None, _) if name.starts_with("java") || name.starts_with("In") => {
            return Err(RegexError::Unsupported(format!("\\p{{{name}}}")));
        }
        (None, _) => {
            let name = name.strip_prefix("Is").unwrap_or(&name);
            Escaped::Verbatim(format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' }))
        }
    })
}

/// Reads the text up to `\E`, or to the end.
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

/// Appends `char`, escaped if it is special anywhere in an expression.
pub(super) fn push_escaped(char: char, out: &mut String) {
    if char.is_ascii_alphanumeric() || matches!(char, '/' | '_' | '%' | ',' | '=' | '"' | '\'') || !char.is_ascii() {
        out.push(char);
    } else if char.is_ascii_punctuation() && !matches!(char, '<' | '>') {
        out.extend(['\\', char]);
    } else {
        out.push_str(&format!("\\x{:02X}", u32::from(char)));
    }
}
