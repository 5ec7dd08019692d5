//! Values of the placeholders in a text, within a bound: properties that name each other multiply.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::source::unset::Unset;

/// Nesting of placeholders at most: a bound for defaults that refer to themselves.
pub(super) const MAX_DEPTH: usize = 16;

/// Bytes that the placeholders of a configuration may have in total, those of inner ones once for each outer one.
const MAX_BYTES: usize = 16 << 20;
/// Bytes that each placeholder counts as, besides those of its value.
const BYTES_OF_PLACEHOLDER: usize = 64;
/// Error of placeholders beyond the bound.
pub(super) const TOO_LARGE: &str = "the placeholders have more than 16 MiB of values in all";

/// Value of a placeholder's name.
pub enum Value {
    /// A value without placeholders.
    Literal(String),
    /// A text that may contain placeholders.
    Text(String),
}

/// Bytes that placeholders may still have.
#[derive(Debug)]
pub struct Budget(Cell<usize>);

impl Default for Budget {
    fn default() -> Self {
        Self(Cell::new(MAX_BYTES))
    }
}

/// Values of names, as many as a budget allows.
pub struct Lookup<'l> {
    value: &'l dyn Fn(&str) -> Option<Value>,
    budget: &'l Budget,
    /// Names with the values that they were replaced by.
    replaced: RefCell<BTreeMap<String, String>>,
}

impl<'l> Lookup<'l> {
    /// Returns the values of `value`, within `budget`.
    pub fn new(value: &'l dyn Fn(&str) -> Option<Value>, budget: &'l Budget) -> Self {
        Self { value, budget, replaced: RefCell::default() }
    }

    /// Returns the value of a name.
    pub(super) fn get(&self, name: &str) -> Option<Value> {
        let value = (self.value)(name);
        let bytes = value.as_ref().map_or(0, |(Value::Literal(text) | Value::Text(text))| text.len());
        self.spend(bytes + BYTES_OF_PLACEHOLDER);
        value
    }

    /// Records that a placeholder was replaced: a name may say that its value is a secret.
    pub(super) fn note(&self, name: &str, value: &str) {
        let mut replaced = self.replaced.borrow_mut();
        if !value.is_empty() && !replaced.contains_key(name) {
            replaced.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Returns the names of the replaced placeholders, each with its value.
    pub(crate) fn replaced(self) -> BTreeMap<String, String> {
        self.replaced.into_inner()
    }

    fn spend(&self, bytes: usize) {
        let Budget(left) = self.budget;
        left.set(left.get().saturating_sub(bytes));
    }

    /// Returns true if the budget is used up.
    pub(super) fn is_exhausted(&self) -> bool {
        self.budget.0.get() == 0
    }
}

/// Expansion of the placeholders of a text.
pub(super) struct Expansion<'l> {
    lookup: &'l Lookup<'l>,
    /// Placeholders without a value: the text is incomplete.
    pub(super) unset: Vec<Unset>,
}

impl<'l> Expansion<'l> {
    pub(super) fn new(lookup: &'l Lookup<'l>) -> Self {
        Self { lookup, unset: Vec::new() }
    }

    /// Returns `text`, which stands in a value at `depth`, with the values of its placeholders. The error describes a text that
    /// no value can complete.
    pub(super) fn expand(&mut self, text: &str, depth: usize) -> Result<String, String> {
        if depth > MAX_DEPTH {
            return Err(format!(
                "placeholder in `{text}` leads back to itself, or through more than {MAX_DEPTH} others"
            ));
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            if self.lookup.is_exhausted() {
                return Err(TOO_LARGE.to_owned());
            }
            let (before, from) = rest.split_at(start);
            out.push_str(before);
            let inside = &from[2..];
            let Some(end) = closing_brace(inside) else {
                return Err(format!("placeholder `{from}` is never closed"));
            };
            let (inside, after) = (&inside[..end], &inside[end + 1..]);
            let (name, default) = inside.split_once(':').map_or((inside, None), |(name, text)| (name, Some(text)));
            let name = name.trim();
            let start = out.len();
            match (self.lookup.get(name), default) {
                (Some(Value::Literal(value)), _) => out.push_str(&value),
                (Some(Value::Text(text)), _) => out.push_str(&self.expand(&text, depth + 1)?),
                (None, Some(default)) => out.push_str(&self.expand(default, depth + 1)?),
                (None, None) if self.unset.iter().any(|unset| unset.name == name) => {}
                (None, None) => {
                    let before = &text[..text.len() - from.len()];
                    self.lookup.spend(text.len());
                    self.unset.push(Unset::new(name, before, after));
                }
            }
            self.lookup.note(name, &out[start..]);
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
        #[cfg(debug_assertions)]
        tollgate_document::steps::count();
        match byte {
            b'{' => open += 1,
            b'}' if open == 0 => return Some(at),
            b'}' => open -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the placeholders of `text` that are closed, in the order of their starts: the index behind `${` and that of the
/// brace that closes it. To look for each brace alone would take the square of a text of open ones.
pub(crate) fn closed_placeholders(text: &str) -> Vec<(usize, usize)> {
    let (mut open, mut closed) = (Vec::new(), Vec::new());
    if !text.contains("${") {
        return closed;
    }
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        #[cfg(debug_assertions)]
        tollgate_document::steps::count();
        match byte {
            b'{' => open.push(at),
            b'}' => {
                let start = open.pop().filter(|start| *start > 0 && bytes[start - 1] == b'$');
                closed.extend(start.map(|start| (start + 1, at)));
            }
            _ => {}
        }
    }
    closed.sort_unstable();
    closed
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
        let budget = Budget::default();
        let lookup = Lookup::new(&lookup, &budget);
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

    #[test]
    fn each_closed_placeholder_ends_at_its_brace() {
        for text in ["${a}", "x${a:${b}{}}y${c}", "${open ${a}", "}${a}}", "{${a}", "${", "", "${ä:${b}}{", "$${a}"] {
            let each =
                text.match_indices("${").filter_map(|(at, _)| Some((at + 2, at + 2 + closing_brace(&text[at + 2..])?)));
            assert_eq!(closed_placeholders(text), each.collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn placeholders_that_multiply_have_a_bound() {
        let steps = Cell::new(0);
        let tenfold = |name: &str| {
            steps.set(steps.get() + 1);
            let step: u32 = name.strip_prefix('a')?.parse().ok()?;
            Some(Value::Text(if step == 0 { "x".to_owned() } else { format!("${{a{}}}", step - 1).repeat(10) }))
        };
        let unset: String = (0..100_000).map(|at| format!("${{none{at}}}")).collect();
        for text in ["${a12}", "${none}${a12}", "${none:${a12}}", unset.as_str()] {
            steps.set(0);
            let budget = Budget::default();
            let lookup = Lookup::new(&tenfold, &budget);
            assert_eq!(Expansion::new(&lookup).expand(text, 0), Err(TOO_LARGE.to_owned()));
            assert!(steps.get() < 300_000, "{}", steps.get());
        }
        let budget = Budget::default();
        let lookup = Lookup::new(&tenfold, &budget);
        assert_eq!(Expansion::new(&lookup).expand("${a3}", 0), Ok("x".repeat(1000)));
    }
}
