//! `${NAME}` and `${NAME:default}` in values, as Spring resolves them.
//!
//! They are resolved in scalars after parsing, so no value can inject YAML. Defaults and properties of the file may
//! contain placeholders. Values of the environment may not: a password may contain `${` and must not appear in a
//! message.

use std::collections::HashSet;

use crate::Form;
use crate::source::environment::{Literal, variable};
use crate::source::expansion::{Expansion, Lookup, MAX_DEPTH, TOO_LARGE, Value};
use crate::source::unset::{self, Unset};
use tollgate_document::diagnostics::{Diagnostics, Help, Missing};
use tollgate_document::yaml::{Node, NodeKind, Span};

/// Help for a placeholder without a value.
const UNSET: &str = "set it in the environment, or write a default: `${NAME:default}`";
/// Help for placeholders that multiply.
const FEWER: &str =
    "a property that names another one ten times, and that one a third one, has a hundred copies: write the value";
/// Help for a placeholder of a build.
const OF_BUILD: &str = "Maven's resource filtering was not done: take the file that the build has written, `target/classes/application.yml`, or write the value";

/// Value with a placeholder that has no value. It stays as it is.
#[derive(Debug)]
pub struct Unresolved {
    /// Place of the value.
    pub at: Span,
    message: String,
    help: &'static str,
    /// Properties that would give it a value.
    missing: Vec<Missing>,
}

impl Unresolved {
    /// Reports it as an error.
    pub fn report(self, diagnostics: &mut Diagnostics) {
        diagnostics.unmute(self.at);
        let error = diagnostics.error(self.at, self.message);
        self.missing.into_iter().fold(error, Help::missing).help(self.help);
    }
}

/// Resolution of the placeholders of a tree.
pub struct Resolution<'r> {
    /// Form of the tree: only an `application.yml` has placeholders of a build, and sections of an application.
    form: Form,
    /// Values of names.
    lookup: &'r Lookup<'r>,
    /// Places without placeholders.
    literal: &'r Literal,
    /// Groups of the regular expressions of the tree.
    groups: &'r HashSet<String>,
    /// Section at the top of the tree that the values stand in.
    section: String,
    /// Values with names that have neither a value nor a default. They are errors only in values with an effect.
    pub unresolved: Vec<Unresolved>,
    /// True if the placeholders have more text than they may, which is an error.
    is_too_large: bool,
}

impl<'r> Resolution<'r> {
    /// Creates a resolution by `lookup` for a tree of this form, without placeholders at the places in `literal`.
    pub fn new(form: Form, lookup: &'r Lookup<'r>, literal: &'r Literal, groups: &'r HashSet<String>) -> Self {
        Self { form, lookup, literal, groups, section: String::new(), unresolved: Vec::new(), is_too_large: false }
    }

    /// Resolves every placeholder below `node`. From then on, diagnostics about unresolved values are muted.
    pub fn resolve(&mut self, node: &mut Node, diagnostics: &mut Diagnostics) {
        let NodeKind::Map(sections) = &mut node.kind else { return self.value(node, "", diagnostics) };
        for (name, section) in sections {
            self.section.clone_from(name);
            self.value(section, name, diagnostics);
        }
    }

    /// Resolves the placeholders of a value of `key`.
    fn value(&mut self, node: &mut Node, key: &str, diagnostics: &mut Diagnostics) {
        match &mut node.kind {
            NodeKind::Null => {}
            NodeKind::Scalar(_) if self.literal.contains(&node.span.node) => {}
            NodeKind::Scalar(text) => self.text(text, node.span, key, diagnostics),
            NodeKind::Seq(items) => items.iter_mut().for_each(|item| self.value(item, key, diagnostics)),
            NodeKind::Map(entries) => {
                for (name, value) in entries {
                    match name.as_str() {
                        "metadata" => self.metadata(value, diagnostics),
                        name => self.value(value, name, diagnostics),
                    }
                }
            }
        }
    }

    fn text(&mut self, text: &mut String, at: Span, key: &str, diagnostics: &mut Diagnostics) {
        let has_placeholder = text.contains("${");
        let mut problem = None;
        if has_placeholder {
            self.report_lost_groups(text, at, key, diagnostics);
            let mut expansion = Expansion::new(self.lookup);
            let result = expansion.expand(text, 0);
            match (result, expansion.unset.first()) {
                (Ok(resolved), None) => *text = resolved,
                (Err(message), None) => problem = Some((message, UNSET, Vec::new())),
                (Ok(_), Some(first)) => {
                    problem = Some((first.message(), UNSET, unset::missing(&expansion.unset, &self.section, key)))
                }
                // Values would not complete the text.
                (Err(_), Some(first)) => problem = Some((first.message(), UNSET, Vec::new())),
            }
        }
        // Not after `${…}`: its value may be a password that contains `@name@`. A URI is no password.
        if problem.is_none() && self.form == Form::Spring && (!has_placeholder || key == "uri") {
            problem = fill_in(text, (&self.section, key), self.lookup).map(|(name, missing)| {
                (format!("`@{name}@` is a placeholder of the application's build"), OF_BUILD, missing)
            });
        }
        if self.lookup.is_exhausted() {
            if !std::mem::replace(&mut self.is_too_large, true) {
                diagnostics.error(at, TOO_LARGE).help(FEWER);
            }
            diagnostics.mute(at);
        } else if let Some((message, help, missing)) = problem {
            let missing = if self.form == Form::Spring { missing } else { Vec::new() };
            self.unresolved.push(Unresolved { at, message, help, missing });
            diagnostics.mute(at);
        }
    }

    /// Warns of `${path}` in a replacement that is a group's name and, as in Spring, is replaced by a value of that name.
    fn report_lost_groups(&self, text: &str, at: Span, key: &str, diagnostics: &mut Diagnostics) {
        if key != "replacement" && !text.trim_start().starts_with("Rewrite") {
            return;
        }
        let is_replaced = |name: &str| match self.lookup.get(name) {
            Some(Value::Literal(value)) => value != format!("${{{name}}}"),
            Some(Value::Text(_)) => true,
            None => false,
        };
        let is_written = |name: &&String| text.contains(&format!("${{{name}}}"));
        if let Some(name) = self.groups.iter().filter(is_written).find(|name| is_replaced(name)) {
            diagnostics
                .warn(at, format!("`${{{name}}}` is a property or a variable of the environment, whose value goes upstream in place of the group"))
                .help(format!("write `$\\{{{name}}}` for the group `(?<{name}>…)`"));
        }
    }

    /// Resolves the metadata of a route. Only a few of them have a meaning here.
    fn metadata(&mut self, node: &mut Node, diagnostics: &mut Diagnostics) {
        const WITH_MEANING: [&str; 6] =
            ["connect-timeout", "response-timeout", "read-timeout", "body-timeout", "http2", "cors"];
        let NodeKind::Map(entries) = &mut node.kind else { return self.value(node, "", diagnostics) };
        for (name, value) in entries {
            let unresolved_before = self.unresolved.len();
            self.value(value, "", diagnostics);
            if !WITH_MEANING.contains(&name.as_str()) {
                self.unresolved.truncate(unresolved_before);
            }
        }
    }
}

/// Resolves the placeholders below `node`. Those without a value stay.
pub(super) fn resolve_quietly(node: &mut Node, lookup: &Lookup<'_>) {
    Resolution::new(Form::Own, lookup, &Literal::new(), &HashSet::new()).resolve(node, &mut Diagnostics::default());
}

/// Replaces the placeholders of Maven in `text`, a value of the key `key` in `section`. Returns the name of one without a value, and
/// the property that would give it one.
fn fill_in(text: &mut String, (section, key): (&str, &str), lookup: &Lookup<'_>) -> Option<(String, Vec<Missing>)> {
    for _ in 0..MAX_DEPTH {
        let OfMaven { before, name, after } = of_maven(text, key)?;
        match of_build(name, lookup) {
            Some(value) => {
                lookup.note(name, &value);
                *text = format!("{before}{value}{after}");
            }
            None => return Some((name.to_owned(), unset::missing(&[Unset::new(name, before, after)], section, key))),
        }
    }
    None
}

/// Returns the value that the environment or a property gives to `@name@`.
fn of_build(name: &str, lookup: &Lookup<'_>) -> Option<String> {
    match lookup.get(name)? {
        Value::Literal(value) => Some(value),
        // The property is itself a placeholder, as in `server.port: @server.port@`, and so has no value.
        Value::Text(text) if maven_name(&text).is_some() => None,
        Value::Text(text) => {
            let mut expansion = Expansion::new(lookup);
            expansion.expand(&text, 1).ok().filter(|_| expansion.unset.is_empty())
        }
    }
}

/// A placeholder of Maven, `@name@`, with the text around it.
pub struct OfMaven<'t> {
    /// Text before it.
    pub before: &'t str,
    /// Name between the signs.
    pub name: &'t str,
    /// Text behind it.
    pub after: &'t str,
}

/// Returns the first placeholder of Maven in `text`, a value of the key `key`: at the begin, or in a part of an address. A
/// password with an `@` is none.
pub fn of_maven<'t>(text: &'t str, key: &str) -> Option<OfMaven<'t>> {
    let is_address = key == "uri" || text.contains("://@");
    text.match_indices('@').filter(|(at, _)| *at == 0 || is_address).find_map(|(at, _)| {
        let (before, (name, after)) = (&text[..at], text[at + 1..].split_once('@')?);
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        let is_port = before.ends_with(':') && (after.is_empty() || after.starts_with('/'));
        let is_part = before.is_empty() || before.ends_with(['/', '.', '-', '}']) || is_port;
        (is_part && !name.is_empty() && name.chars().all(is_name)).then_some(OfMaven { before, name, after })
    })
}

/// Returns the name of a placeholder of Maven with which `text` begins.
pub fn maven_name(text: &str) -> Option<&str> {
    of_maven(text, "").filter(|placeholder| placeholder.before.is_empty()).map(|placeholder| placeholder.name)
}

/// Collects the group names `(?<name>…)` in all texts below `node`. In a replacement, `${name}` refers to a group if
/// no property has that name; Spring keeps placeholders that it cannot resolve.
pub fn groups(node: &Node, into: &mut HashSet<String>) {
    match &node.kind {
        NodeKind::Null => {}
        NodeKind::Scalar(text) => {
            let names = text.split("(?<").skip(1).filter_map(|rest| rest.split_once('>')).map(|(name, _)| name);
            into.extend(names.filter(|name| name.chars().all(char::is_alphanumeric)).map(str::to_owned));
        }
        NodeKind::Seq(items) => items.iter().for_each(|item| groups(item, into)),
        NodeKind::Map(entries) => entries.iter().for_each(|(_, value)| groups(value, into)),
    }
}

/// Looks up `name` in the environment as Spring does: unchanged, then in capitals with `_` for `.` and without `-`.
pub fn in_environment(name: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    env(name).or_else(|| {
        let relaxed = variable(name);
        if relaxed == name { None } else { env(&relaxed) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        (name == "SERVER_PORT").then(|| "9000".to_owned())
    }

    #[test]
    fn a_property_name_is_found_in_the_environment_in_capitals() {
        assert_eq!(in_environment("server.port", &env).as_deref(), Some("9000"));
        assert_eq!(in_environment("absent", &env), None);
    }
}
