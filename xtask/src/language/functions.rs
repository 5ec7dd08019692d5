//! First words of the comments on functions.

use std::sync::LazyLock;

use regex::Regex;

use super::pattern;

/// Item that is a function.
static FUNCTION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"^(pub(\([^)]*\))? )?(default )?(const )?(async )?(unsafe )?(extern "C" )?fn "#));
/// Verb in the third person, by its form.
static VERB: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[A-Z][a-z]+s\b"));
/// Words of that form that are no verbs.
const OTHERS: [&str; 5] = ["This", "As", "Its", "Always", "Redis"];

/// Doc comment on a function.
#[derive(Debug, PartialEq)]
pub(super) struct FunctionDoc<'t> {
    /// 1-based line of its beginning.
    pub(super) line: usize,
    /// Its first line.
    pub(super) text: &'t str,
}

impl FunctionDoc<'_> {
    /// Returns true if the comment begins with a verb in the third person.
    pub(super) fn begins_with_verb(&self) -> bool {
        VERB.find(self.text).is_some_and(|verb| !OTHERS.contains(&verb.as_str()))
    }
}

/// Returns the doc comments on the functions of a Rust file.
pub(super) fn docs(text: &str) -> Vec<FunctionDoc<'_>> {
    let (mut found, mut open) = (Vec::new(), None);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if let Some(comment) = line.strip_prefix("///") {
            open.get_or_insert(FunctionDoc { line: index + 1, text: comment.trim_start() });
        } else if FUNCTION.is_match(line) {
            found.extend(open.take());
        } else if !line.starts_with("#[") && !line.starts_with(")]") {
            open = None;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_behind_attributes_and_fields_are_not() {
        let text = "/// Returns it.\n/// More.\n#[must_use]\npub(crate) const fn a() {}\n/// Number of items.\nb: u8,\n\
                    /// True if so.\nasync fn c() {}\nfn d() {}\n";
        let docs = docs(text);
        assert_eq!(
            docs.iter().map(|doc| (doc.line, doc.begins_with_verb())).collect::<Vec<_>>(),
            [(1, true), (7, false)]
        );
    }

    #[test]
    fn words_with_an_s_at_the_end_are_verbs_but_for_known_ones() {
        for (text, is_verb) in [("Returns it", true), ("This is it", false), ("Redis' clock", false), ("`GET`", false)]
        {
            assert_eq!(FunctionDoc { line: 1, text }.begins_with_verb(), is_verb, "{text}");
        }
    }
}
