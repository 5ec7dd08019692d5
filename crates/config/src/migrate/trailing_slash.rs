//! `Path` of Spring Cloud Gateway up to 4.3, which ignores a `/` at the end of a path.

use crate::de::canonical;
use crate::migrate::Rewriting;
use crate::migrate::print::{Item, Value};

const NOTE: &str = "As in Spring Cloud Gateway up to 4.3, a `/` at the end of a path is ignored.";

impl Rewriting<'_> {
    /// Writes the flag of a `Path` that Spring sets by default. Patterns that match both forms anyway need none.
    pub(super) fn keep_trailing_slash(&self, predicate: &mut Item) {
        if !self.facts.ignores_trailing_slash {
            return;
        }
        let is_changed = match &mut predicate.value {
            Value::Scalar(text) => add_to_shortcut(text),
            Value::Map(fields) => add_to_arguments(fields),
            _ => false,
        };
        if is_changed {
            predicate.note(NOTE);
        }
    }
}

/// Adds the flag to `Path=/a,/b`.
fn add_to_shortcut(text: &mut String) -> bool {
    let Some(patterns) = text.trim_start().strip_prefix("Path").and_then(|rest| rest.trim_start().strip_prefix('='))
    else {
        return false;
    };
    let last = patterns.rsplit(',').next().unwrap_or_default().trim();
    let needs_flag = last.parse::<bool>().is_err() && patterns.split(',').any(needs_flag);
    if needs_flag {
        text.truncate(text.trim_end().len());
        text.push_str(",true");
    }
    needs_flag
}

/// Adds the flag to `{name: Path, args: {patterns: [/a, /b]}}`.
fn add_to_arguments(fields: &mut [(String, Item)]) -> bool {
    let is = |key: &str, name: &str| canonical(key) == name;
    let is_path = |item: &Item| matches!(&item.value, Value::Scalar(name) if name.trim() == "Path");
    if !fields.iter().any(|(key, item)| is(key, "name") && is_path(item)) {
        return false;
    }
    let Some((_, Item { value: Value::Map(args), .. })) = fields.iter_mut().find(|(key, _)| is(key, "args")) else {
        return false;
    };
    let mut texts = Vec::new();
    args.iter().for_each(|(_, item)| gather(item, &mut texts));
    let has_flag = args.iter().any(|(key, _)| is(key, "matchtrailingslash"))
        || texts.last().is_some_and(|last| last.trim().parse::<bool>().is_ok());
    if has_flag || !texts.iter().any(|text| needs_flag(text)) {
        return false;
    }
    args.push(("match-trailing-slash".to_owned(), Item::scalar("true")));
    true
}

/// Collects the texts below `item`.
fn gather<'i>(item: &'i Item, into: &mut Vec<&'i str>) {
    match &item.value {
        Value::Scalar(text) => into.push(text),
        Value::Seq(items) => items.iter().for_each(|item| gather(item, into)),
        Value::Map(entries) => entries.iter().for_each(|(_, item)| gather(item, into)),
        Value::Null | Value::Absent => {}
    }
}

/// Returns false for patterns that match with and without a `/` at the end.
fn needs_flag(pattern: &str) -> bool {
    let pattern = pattern.trim();
    let takes_the_rest =
        pattern.ends_with("/**") || pattern.rsplit('/').next().is_some_and(|last| last.starts_with("{*"));
    !takes_the_rest
}
