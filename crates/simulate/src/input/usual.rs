//! JSON lines in the form that loggers usually write: one flat object without escapes.
//!
//! They are read at a fraction of the cost of any JSON. Every other line is left to the general parser.

use std::borrow::Cow;

use super::field_names::Field;
use super::fields::{Fields, Value};
use super::lines::{find_quote, is_plain};
use super::map::{Map, Slot};

/// Longest list of numbers.
const MAX_NUMBERS: usize = 8;

/// Reads a line into `fields`. Returns `None` if it has another form: the fields are incomplete then.
pub(super) fn parse(line: &str, map: &Map, fields: &mut Fields) -> Option<Result<(), &'static str>> {
    if !is_plain(line.as_bytes()) {
        return None;
    }
    let mut rest = Rest { line, at: 0 };
    let mut problem = Ok(());
    rest.take(b'{')?;
    if rest.peek()? == b'}' {
        rest.at += 1;
        return rest.is_at_end().then_some(problem);
    }
    let mut previous = None;
    loop {
        let field = rest.field(previous, map, fields)?;
        previous = Some(field);
        if let Some(position) = field.slot {
            fields.counts.count(position);
        }
        match field.slot.map(|slot| &map.fields[slot].1) {
            None | Some(Slot::Skipped) => rest.skip()?,
            Some(Slot::Keys) => rest.keys(fields)?,
            Some(slot) if rest.peek()? == b'"' => problem = problem.and(fields.set_text(slot, rest.text()?)),
            Some(slot) => {
                let mut numbers = [0; MAX_NUMBERS];
                let value = rest.value(&mut numbers)?;
                if value != Value::Other
                    && let Err(error) = fields.set(slot, value)
                {
                    problem = problem.and(Err(error));
                }
            }
        }
        if !rest.has_next(b'}')? {
            return rest.is_at_end().then_some(problem);
        }
    }
}

/// Rest of a line.
struct Rest<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Rest<'a> {
    /// Returns the next byte behind spaces.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.line.as_bytes();
        while *bytes.get(self.at)? == b' ' {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn is_at_end(&self) -> bool {
        self.line[self.at..].bytes().all(|byte| byte == b' ')
    }

    /// Takes a comma, or `end`. Returns false at the end.
    fn has_next(&mut self, end: u8) -> Option<bool> {
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            byte if byte == end => Some(false),
            _ => None,
        }
    }

    /// Reads the name of a field and the colon.
    fn field(&mut self, previous: Option<Field>, map: &Map, fields: &mut Fields) -> Option<Field> {
        if let Some((field, length)) =
            self.line.as_bytes().get(self.at..).and_then(|rest| fields.names.expected(previous, rest))
        {
            self.at += length;
            return Some(field);
        }
        let name = self.text()?;
        self.take(b':')?;
        Some(fields.names.find(previous, name, map))
    }

    fn text(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let start = self.at;
        let end = find_quote(self.line.as_bytes(), start)?;
        self.at = end + 1;
        self.line.get(start..end)
    }

    /// Reads a text, a whole number, a list of such numbers, or a word.
    fn value<'v>(&mut self, numbers: &'v mut [u64; MAX_NUMBERS]) -> Option<Value<'v>>
    where
        'a: 'v,
    {
        Some(match self.peek()? {
            b'"' => Value::Text(Cow::Borrowed(self.text()?)),
            b'0'..=b'9' => Value::Whole(self.whole()?),
            b'[' => {
                self.at += 1;
                let mut length = 0;
                loop {
                    self.peek()?;
                    *numbers.get_mut(length)? = self.whole()?;
                    length += 1;
                    if !self.has_next(b']')? {
                        return Some(Value::List(Cow::Borrowed(&numbers[..length])));
                    }
                }
            }
            _ => {
                self.word()?;
                Value::Other
            }
        })
    }

    /// Skips a text, a number, a word or a list of them.
    fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'[' => self.skip_list(),
            _ => self.skip_scalar(),
        }
    }

    /// Skips a list, such as the names of observed rules. A list within it is left to the general parser.
    fn skip_list(&mut self) -> Option<()> {
        self.take(b'[')?;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.skip_scalar()?;
            if !self.has_next(b']')? {
                return Some(());
            }
        }
    }

    /// Skips a text, a number or a word.
    fn skip_scalar(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => {
                self.at = find_quote(self.line.as_bytes(), self.at + 1)? + 1;
                Some(())
            }
            b'0'..=b'9' => {
                self.whole_digits()?;
                if self.line.as_bytes().get(self.at) == Some(&b'.') {
                    self.at += 1;
                    let start = self.at;
                    while self.line.as_bytes().get(self.at).is_some_and(u8::is_ascii_digit) {
                        self.at += 1;
                    }
                    (self.at > start).then_some(())?;
                }
                // An exponent is left to the general parser.
                Some(())
            }
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Option<()> {
        let rest = &self.line.as_bytes()[self.at..];
        let word = [&b"null"[..], b"true", b"false"].into_iter().find(|word| rest.starts_with(word))?;
        self.at += word.len();
        Some(())
    }

    /// Reads digits without a leading zero. Returns their value, which has overflowed beyond 18 digits, and their number.
    fn whole_digits(&mut self) -> Option<(u64, usize)> {
        let rest = self.line.as_bytes().get(self.at..)?;
        let digit = |byte: &u8| Some(byte.wrapping_sub(b'0')).filter(|digit| *digit < 10);
        let (mut number, mut length) = (0_u64, 0);
        while let Some(digit) = rest.get(length).and_then(digit) {
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
            length += 1;
        }
        self.at += length;
        (length > 0 && (rest[0] != b'0' || length == 1)).then_some((number, length))
    }

    /// Reads a whole number. A fraction or an exponent is left to the general parser.
    fn whole(&mut self) -> Option<u64> {
        let (number, length) = self.whole_digits()?;
        let is_whole = !matches!(self.line.as_bytes().get(self.at), Some(b'.' | b'e' | b'E'));
        (is_whole && length < 19).then_some(number)
    }

    /// Reads keys by rule.
    fn keys(&mut self, fields: &mut Fields) -> Option<()> {
        self.take(b'{')?;
        fields.clear_keys();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let rule = self.text()?;
            self.take(b':')?;
            fields.add_key(rule, self.text()?);
            if !self.has_next(b'}')? {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
