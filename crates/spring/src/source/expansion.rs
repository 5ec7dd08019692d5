//! Values of the placeholders in a text.

use crate::source::unset::Unset;

/// Nesting of placeholders at most: a bound for defaults that refer to themselves.
pub(super) const MAX_DEPTH: usize = 16;

/// Value of a placeholder's name.
pub enum Value {
    /// A value without placeholders.
    Literal(String),
    /// A text that may contain placeholders.
    Text(String),
}

/// Expansion of the placeholders of a text.
pub(super) struct Expansion<'l> {
    lookup: &'l dyn Fn(&str) -> Option<Value>,
    /// Placeholders without a value: the text is incomplete.
    pub(super) unset: Vec<Unset>,
}

impl<'l> Expansion<'l> {
    pub(super) fn new(lookup: &'l dyn Fn(&str) -> Option<Value>) -> Self {
        Self { lookup, unset: Vec::new() }
    }

    /// Returns `text`, which stands in a value at `depth`, with the values of its placeholders. The error describes a text that
    /// no value can complete.
    pub(super) fn expand(&mut self, text: &str, depth: usize) -> Result<String, String> {
        if depth > MAX_DEPTH {
            return Err(format!("placeholder in `{text}` leads back to itself"));
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, from) = rest.split_at(start);
            out.push_str(before);
            let inside = &from[2..];
            let Some(end) = closing_brace(inside) else {
                return Err(format!("placeholder `{from}` is never closed"));
            };
            let (inside, after) = (&inside[..end], &inside[end + 1..]);
            let (name, default) = inside.split_once(':').map_or((inside, None), |(name, text)| (name, Some(text)));
            let name = name.trim();
            match ((self.lookup)(name), default) {
                (Some(Value::Literal(value)), _) => out.push_str(&value),
                (Some(Value::Text(text)), _) => out.push_str(&self.expand(&text, depth + 1)?),
                (None, Some(default)) => out.push_str(&self.expand(default, depth + 1)?),
                (None, None) if self.unset.iter().any(|unset| unset.name == name) => {}
                (None, None) => {
                    let before = &text[..text.len() - from.len()];
                    self.unset.push(Unset::new(name, before, after));
                }
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// Returns the index of the brace that closes a placeholder; `text` is the part behind `${`.
pub fn closing_brace(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open += 1,
            b'}' if open == 0 => return Some(at),
            b'}' => open -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("example.org".to_owned()),
            "PASSWORD" => Some("s3${cret${".to_owned()),
            _ => None,
        }
    }

    fn lookup(name: &str) -> Option<Value> {
        let property = (name == "loop").then(|| Value::Text("${loop}".to_owned()));
        env(name).map(Value::Literal).or(property)
    }

    fn expand(text: &str) -> Result<String, String> {
        let mut expansion = Expansion::new(&lookup);
        let expanded = expansion.expand(text, 0);
        expansion.unset.first().map_or(expanded, |unset| Err(unset.message()))
    }

    #[test]
    fn a_placeholder_takes_the_value_or_its_default() {
        assert_eq!(expand("http://${HOST}:${PORT:80}/").unwrap(), "http://example.org:80/");
        assert_eq!(expand("${A:${B:x}y}").unwrap(), "xy");
        assert_eq!(expand("${A:}").unwrap(), "");
        assert_eq!(expand("${PASSWORD}").unwrap(), "s3${cret${", "the environment is taken as it is");
    }

    #[test]
    fn a_rewrite_replacement_is_no_placeholder() {
        assert_eq!(expand(r"/$\{segment}").unwrap(), r"/$\{segment}");
    }

    #[test]
    fn unset_unclosed_and_circular_placeholders_are_refused() {
        assert!(expand("${NOPE}").unwrap_err().contains("not set"));
        assert!(expand("${HOST").unwrap_err().contains("never closed"));
        assert!(expand("${loop}").unwrap_err().contains("leads back"));
    }
}
