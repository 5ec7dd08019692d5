//! Active profiles, and the documents and files that they select.

use std::collections::{HashMap, HashSet};

use crate::source::expansion::{Budget, Lookup, Value};
use crate::source::placeholder;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::key::canonical;
use tollgate_document::yaml::{Node, NodeKind};

/// Path of a document's condition.
const ON_PROFILE: &[&str] = &["spring", "config", "activate", "on-profile"];
/// Active profile if none is named.
const DEFAULT: &str = "default";
/// Nesting of profile groups and expressions at most: a bound for groups that contain themselves.
const MAX_DEPTH: usize = 16;
/// Variables that identify a platform (`org.springframework.boot.cloud.CloudPlatform`).
const PLATFORMS: [(&str, &str); 3] =
    [("kubernetes", "KUBERNETES_SERVICE_HOST"), ("cloudfoundry", "VCAP_APPLICATION"), ("heroku", "DYNO")];

/// The active profiles, in the order in which they were named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiles {
    names: Vec<String>,
    name_set: HashSet<String>,
}

impl Profiles {
    /// Returns the profiles of `SPRING_PROFILES_ACTIVE`, or else of `spring.profiles.active` in a document without a
    /// condition, or else the default ones; with included and grouped profiles.
    pub fn of(documents: &[&Node], env: &dyn Fn(&str) -> Option<String>) -> Self {
        let plain = || documents.iter().copied().filter(|document| condition(document).is_none());
        // The last document wins.
        let setting_text = |key: &str| {
            let last = plain().filter_map(|document| setting(document, &[key])).next_back();
            let names = last.map(|node| names(&with_environment(node, env)));
            // A build would have replaced `@profile@`.
            names.map(|names| {
                names.into_iter().filter(|name| placeholder::maven_name(name).is_none()).collect::<Vec<_>>()
            })
        };
        let from_environment = |variable: &str| {
            let listed: Vec<String> = env(variable)?.split(',').map(|name| name.trim().to_owned()).collect();
            Some(listed.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>())
                .filter(|names| !names.is_empty())
        };
        let mut wanted =
            from_environment("SPRING_PROFILES_INCLUDE").or_else(|| setting_text("include")).unwrap_or_default();
        wanted
            .extend(from_environment("SPRING_PROFILES_ACTIVE").or_else(|| setting_text("active")).unwrap_or_default());
        if wanted.is_empty() {
            let default = from_environment("SPRING_PROFILES_DEFAULT").or_else(|| setting_text("default"));
            wanted = default.unwrap_or_else(|| vec![DEFAULT.to_owned()]);
        }
        let groups = plain().filter_map(|document| setting(document, &["group"])?.entries()).flatten();
        let groups: HashMap<String, &Node> = groups.map(|(name, members)| (canonical(name), members)).collect();
        let mut active = Self { names: Vec::new(), name_set: HashSet::new() };
        wanted.iter().for_each(|name| active.add(name, &groups, 0));
        active
    }

    /// Returns the active profiles.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Adds a profile and the members of its group.
    fn add(&mut self, name: &str, groups: &HashMap<String, &Node>, depth: usize) {
        if depth > MAX_DEPTH || !self.name_set.insert(name.to_owned()) {
            return;
        }
        self.names.push(name.to_owned());
        let members = groups.get(&canonical(name)).map(|members| names(members)).unwrap_or_default();
        members.iter().for_each(|member| self.add(member, groups, depth + 1));
    }

    /// Returns true if `document` is selected. `profile`, which the name of its file tells, counts as active in it. Reports a
    /// condition that cannot be read; adds one that is false to `skipped`.
    pub fn accept<'n>(
        &self,
        (document, profile): (&'n Node, Option<&str>),
        env: &dyn Fn(&str) -> Option<String>,
        skipped: &mut Vec<(String, &'n Node)>,
        diagnostics: &mut Diagnostics,
    ) -> bool {
        if let Some(platform) = document.at(&["spring", "config", "activate", "on-cloud-platform"])
            && !is_platform(platform.scalar().unwrap_or_default(), env)
        {
            skipped.push((format!("platform {}", platform.scalar().unwrap_or_default()), platform));
            return false;
        }
        let Some(condition) = condition(document) else { return true };
        if document.at(ON_PROFILE).is_none() {
            diagnostics
                .warn(condition.span, "`spring.profiles` of a document is what Spring Boot before 2.4 reads")
                .help("`spring.config.activate.on-profile` says the same since");
        }
        if let Some(active) = setting(document, &["active"]) {
            diagnostics
                .mistake(active.span.key(), "`spring.profiles.active` has no effect in a document for certain profiles")
                .help("move it to a document without `on-profile`");
        }
        let mut holds = false;
        let expressions = names(condition);
        let active = |name: &str| self.name_set.contains(name) || profile == Some(name);
        for expression in &expressions {
            match holds_for(expression, &active) {
                Ok(held) => holds |= held,
                Err(why) => {
                    diagnostics
                        .error(condition.span, format!("`{expression}` is no profile expression: {why}"))
                        .help("write `prod`, `!dev`, `prod & eu` or `prod & (eu | us)`");
                    return false;
                }
            }
        }
        if !holds {
            skipped.push((expressions.join(", "), condition));
        }
        holds
    }
}

/// Returns the condition of a document: `spring.config.activate.on-profile`, or `spring.profiles` as before Spring
/// Boot 2.4.
pub fn condition(document: &Node) -> Option<&Node> {
    let older = || {
        document.at(&["spring", "profiles"]).filter(|node| matches!(node.kind, NodeKind::Scalar(_) | NodeKind::Seq(_)))
    };
    document.at(ON_PROFILE).or_else(older)
}

/// Returns the node at `path` below `spring.profiles`.
fn setting<'n>(document: &'n Node, path: &[&str]) -> Option<&'n Node> {
    document.at(&["spring", "profiles"])?.follow(path)
}

/// Resolves the placeholders of `node` from the environment alone: profiles are known before properties.
fn with_environment(node: &Node, env: &dyn Fn(&str) -> Option<String>) -> Node {
    let mut node = node.clone();
    let lookup = |name: &str| placeholder::in_environment(name, env).map(Value::Literal);
    // An unresolved placeholder stays among the active profiles and matches none.
    placeholder::resolve_quietly(&mut node, &Lookup::new(&lookup, &Budget::default()));
    node
}

/// Returns the names in `node`: a list, or a text with commas.
fn names(node: &Node) -> Vec<String> {
    match &node.kind {
        NodeKind::Seq(items) => items.iter().filter_map(Node::scalar).map(|name| name.trim().to_owned()).collect(),
        NodeKind::Scalar(text) => {
            text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        }
        NodeKind::Null | NodeKind::Map(_) => Vec::new(),
    }
}

fn is_platform(name: &str, env: &dyn Fn(&str) -> Option<String>) -> bool {
    let on = PLATFORMS.iter().find(|(_, variable)| env(variable).is_some()).map(|(platform, _)| *platform);
    on.unwrap_or("none") == canonical(name)
}

/// Evaluates a profile expression: names, `!`, `&`, `|` and parentheses. `&` beside `|` needs parentheses.
fn holds_for(expression: &str, active: &dyn Fn(&str) -> bool) -> Result<bool, &'static str> {
    let mut rest = expression.trim();
    let holds = any_or_all(&mut rest, active, 0)?;
    if rest.is_empty() { Ok(holds) } else { Err("a parenthesis is closed that was not opened") }
}

fn any_or_all(rest: &mut &str, active: &dyn Fn(&str) -> bool, depth: usize) -> Result<bool, &'static str> {
    if depth > MAX_DEPTH {
        return Err("it is nested too deep");
    }
    let mut holds = term(rest, active, depth)?;
    let mut joined = None;
    while let Some(sign @ ('&' | '|')) = rest.chars().next() {
        if joined.is_some_and(|before| before != sign) {
            return Err("`&` and `|` side by side need parentheses");
        }
        joined = Some(sign);
        *rest = rest[1..].trim_start();
        let next = term(rest, active, depth)?;
        holds = if sign == '&' { holds && next } else { holds || next };
    }
    Ok(holds)
}

fn term(rest: &mut &str, active: &dyn Fn(&str) -> bool, depth: usize) -> Result<bool, &'static str> {
    if let Some(after) = rest.strip_prefix('!') {
        *rest = after.trim_start();
        return if depth > MAX_DEPTH { Err("it is nested too deep") } else { Ok(!term(rest, active, depth + 1)?) };
    }
    if let Some(after) = rest.strip_prefix('(') {
        *rest = after.trim_start();
        let holds = any_or_all(rest, active, depth + 1)?;
        *rest = rest.strip_prefix(')').ok_or("a parenthesis is never closed")?.trim_start();
        return Ok(holds);
    }
    let end = rest.find(['(', ')', '&', '|', '!']).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let name = name.trim();
    if name.is_empty() || after.starts_with(['(', '!']) {
        return Err("a name or a sign is missing");
    }
    *rest = after;
    Ok(active(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn expressions_support_not_and_or_and_parentheses() {
        let active = |name: &str| ["prod", "eu"].contains(&name);
        for (expression, expected) in [
            ("prod", Some(true)),
            ("dev", Some(false)),
            ("!dev", Some(true)),
            ("!!prod", Some(true)),
            ("prod & eu", Some(true)),
            ("prod&!eu", Some(false)),
            ("dev | eu", Some(true)),
            ("prod & (us | eu)", Some(true)),
            ("!(prod & us) & eu", Some(true)),
            ("((prod))", Some(true)),
            ("(dev | test) | (prod & eu)", Some(true)),
            ("prod & eu | dev", None),
            ("prod &", None),
            ("(prod", None),
            ("prod)", None),
            ("prod (eu)", None),
            ("", None),
            ("& prod", None),
        ] {
            assert_eq!(holds_for(expression, &active).ok(), expected, "{expression}");
        }
        assert!(holds_for(&"!".repeat(100_000), &active).is_err());
        assert!(holds_for(&"(".repeat(100_000), &active).is_err());
    }
}
