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
/// Of byte texts and of Unicode texts.
const VERTICAL: (&str, &str) = (r"\n\x0B\f\r\x85", r"\n\x0B\f\r\x{85}\x{2028}\x{2029}");
/// Of byte texts and of Unicode texts.
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

/// Java's names of methods of `Character`, and the properties of Unicode that these ask for.
const METHODS: [(&str, &str); 5] = [
    ("javaAlphabetic", "Alphabetic"),
    ("javaDigit", "Nd"),
    ("javaLetter", "L"),
    ("javaLowerCase", "Lowercase"),
    ("javaUpperCase", "Uppercase"),
];

/// Categories and properties of Unicode in byte texts, whose characters end at U+00FF.
const OF_BYTES: [(&[&str], &str); 15] = [
    (&["l", "letter", "alphabetic"], r"A-Za-z\xAA\xB5\xBA\xC0-\xD6\xD8-\xF6\xF8-\xFF"),
    (&["latin"], r"A-Za-z\xAA\xBA\xC0-\xD6\xD8-\xF6\xF8-\xFF"),
    (&["lu", "uppercaseletter", "uppercase"], r"A-Z\xC0-\xD6\xD8-\xDE"),
    (&["ll", "lowercaseletter"], r"a-z\xB5\xDF-\xF6\xF8-\xFF"),
    (&["lowercase"], r"a-z\xAA\xB5\xBA\xDF-\xF6\xF8-\xFF"),
    (&["lo", "otherletter"], r"\xAA\xBA"),
    (&["n", "number"], r"0-9\xB2\xB3\xB9\xBC-\xBE"),
    (&["nd", "decimalnumber", "digit"], DIGIT),
    (&["p", "punctuation"], r"!-\x23%-*,-/:;?@\[-\]_{}\xA1\xA7\xAB\xB6\xB7\xBB\xBF"),
    (&["s", "symbol"], r"$+<->^`|\x7E\xA2-\xA6\xA8\xA9\xAC\xAE-\xB1\xB4\xB8\xD7\xF7"),
    (&["z", "separator", "zs", "spaceseparator"], r"\x20\xA0"),
    (&["c", "other"], r"\x00-\x1F\x7F-\x9F\xAD"),
    (&["cc", "control"], r"\x00-\x1F\x7F-\x9F"),
    (&["whitespace"], r"\x09-\x0D\x20\x85\xA0"),
    (&["hexdigit", "asciihexdigit"], "0-9A-Fa-f"),
];

/// Parses the text after a `\`.
pub(super) fn escape(chars: &mut Peekable<Chars<'_>>, charset: Charset) -> Result<Escaped, RegexError> {
    let for_charset = |(bytes, unicode): (&'static str, &'static str)| match charset {
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
        'v' => Escaped::Class(for_charset(VERTICAL)),
        'V' => Escaped::NegatedClass(for_charset(VERTICAL)),
        'h' => Escaped::Class(for_charset(HORIZONTAL)),
        'H' => Escaped::NegatedClass(for_charset(HORIZONTAL)),
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
            character(hexadecimal(&digits, 1)?)?
        }
        'x' => character(hexadecimal(&digits(chars, 2), 2)?)?,
        'u' => utf16(chars)?,
        '0' => octal(chars)?,
        'p' | 'P' => posix_or_unicode_class(chars, char == 'P', charset)?,
        'Q' => Escaped::Quoted(quoted(chars)),
        _ if char.is_ascii_alphanumeric() => return Err(RegexError::Unsupported(format!("\\{char}"))),
        _ => Escaped::Char(char),
    })
}

fn digits(chars: &mut Peekable<Chars<'_>>, count: usize) -> String {
    chars.by_ref().take(count).collect()
}

/// Parses at least `min` hexadecimal digits.
fn hexadecimal(digits: &str, min: usize) -> Result<u32, RegexError> {
    let is_number = digits.len() >= min && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_number.then(|| u32::from_str_radix(digits, 16).ok()).flatten();
    number.ok_or_else(|| not_hexadecimal(digits))
}

fn not_hexadecimal(digits: &str) -> RegexError {
    RegexError::Invalid(format!("`{digits}` is not a hexadecimal code point"))
}

fn character(code: u32) -> Result<Escaped, RegexError> {
    char::from_u32(code).map(Escaped::Char).ok_or_else(|| not_hexadecimal(&format!("{code:x}")))
}

/// Parses the digits of `\uhhhh`. A code point above U+FFFF is two of these, its surrogates.
fn utf16(chars: &mut Peekable<Chars<'_>>) -> Result<Escaped, RegexError> {
    let first = hexadecimal(&digits(chars, 4), 4)?;
    let mut rest = chars.clone();
    let second = (rest.next() == Some('\\') && rest.next() == Some('u')).then(|| hexadecimal(&digits(&mut rest, 4), 4));
    if let (0xD800..0xDC00, Some(Ok(second @ 0xDC00..0xE000))) = (first, second) {
        *chars = rest;
        return character(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00));
    }
    character(first)
}

/// Parses the digits of `\0n`, `\0nn` or `\0mnn`, where `m` is at most 3.
fn octal(chars: &mut Peekable<Chars<'_>>) -> Result<Escaped, RegexError> {
    let mut digit = || chars.next_if(|char| char.is_digit(8)).and_then(|char| char.to_digit(8));
    let mut code =
        digit().ok_or_else(|| RegexError::Invalid("`\\0` must be followed by one to three octal digits".to_owned()))?;
    let further_digits = if code > 3 { 1 } else { 2 };
    for _ in 0..further_digits {
        let Some(next) = digit() else { break };
        code = code * 8 + next;
    }
    character(code)
}

/// Parses `\p{Name}`. Names of Unicode are passed to the engines, unless the text is of bytes.
fn posix_or_unicode_class(
    chars: &mut Peekable<Chars<'_>>,
    negated: bool,
    charset: Charset,
) -> Result<Escaped, RegexError> {
    let name = if chars.next_if_eq(&'{').is_some() {
        chars.by_ref().take_while(|char| *char != '}').collect()
    } else {
        chars.next().map(String::from).unwrap_or_default()
    };
    let letter = if negated { 'P' } else { 'p' };
    let unsupported = || RegexError::Unsupported(format!("\\{letter}{{{name}}}"));
    let mut set = POSIX.iter().find(|(posix, _)| *posix == name).map(|(_, set)| *set);
    let method = METHODS.iter().find(|(method, _)| *method == name).map(|(_, property)| *property);
    if set.is_none() && method.is_none() && (name.starts_with("java") || name.starts_with("In")) {
        return Err(unsupported());
    }
    let property = method.unwrap_or_else(|| name.strip_prefix("Is").unwrap_or(&name));
    let class = format!("\\{letter}{{{property}}}");
    if set.is_none() && regex_syntax::parse(&class).is_err() {
        return Err(RegexError::Invalid(format!(
            "`\\{letter}{{{name}}}` is no property of characters: write `\\p{{L}}` for letters, `\\p{{Nd}}` for digits"
        )));
    }
    if set.is_none() && charset == Charset::Bytes {
        set = Some(of_bytes(property).ok_or_else(unsupported)?);
    }
    Ok(match (set, negated) {
        (Some(set), false) => Escaped::Class(set),
        (Some(set), true) => Escaped::NegatedClass(set),
        (None, _) => Escaped::Verbatim(class),
    })
}

/// Returns the bytes with a property of Unicode, such as `L`, `gc=L` or `White_Space`.
fn of_bytes(property: &str) -> Option<&'static str> {
    let value = property.split_once('=').map_or(property, |(_, value)| value);
    let value: String = value.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    OF_BYTES.iter().find(|(names, _)| names.contains(&value.as_str())).map(|(_, set)| *set)
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
