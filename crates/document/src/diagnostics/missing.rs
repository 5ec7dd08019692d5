//! Parts of an application that a file refers to but lacks, and the overlay file that adds them.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use crate::yaml::key::canonical;

/// First comment of an overlay.
pub const PROPOSAL: &str = "Save this as overlay.yaml, correct the values, and use it:";
/// Begin of the comment on a secret, which an overlay has no value for.
pub const A_SECRET: &str = "# a secret: ";

/// Returns true for the text of an overlay.
pub fn is_proposal(text: &str) -> bool {
    text.strip_prefix("# ").is_some_and(|text| text.starts_with(PROPOSAL))
}

/// Section of an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// Properties at the top of the file, for placeholders.
    Properties,
    /// Lines with the settings of a registry, and of others as comments.
    Registry,
    /// `upstreams`.
    Upstreams,
    /// `key-resolvers`.
    KeyResolvers,
    /// `filter-beans`.
    FilterBeans,
    /// Routes that are added to those of the files, each named by its path.
    Routes,
}

/// Missing part: its section, name, proposed value and comment. A secret has an empty value.
#[derive(Clone, Debug)]
pub struct Missing {
    /// Section that lacks it.
    pub section: Section,
    /// Its key there.
    pub name: String,
    /// A value that it may have.
    pub value: String,
    /// Comment behind the value; may be empty.
    pub comment: String,
}

impl Missing {
    /// Returns the section and the name, which are the same for spelling variants of a name.
    pub(super) fn identity(&self) -> (Section, String) {
        (self.section, canonical(&self.name))
    }

    /// Returns true if the overlay can propose a value.
    pub(super) fn is_proposed(&self) -> bool {
        !self.value.is_empty()
    }
}

impl Section {
    fn key(self) -> Option<&'static str> {
        match self {
            Self::Properties | Self::Registry => None,
            Self::Upstreams => Some("upstreams"),
            Self::KeyResolvers => Some("key-resolvers"),
            Self::FilterBeans => Some("filter-beans"),
            Self::Routes => Some("tollgate"),
        }
    }
}

/// Returns an overlay file with the `missing` parts of `files`, which are read with `profiles`: `max` of them, and the number of
/// the others. `None` if no part has a proposed value.
pub(super) fn overlay(
    missing: &[Missing],
    files: &[&str],
    profiles: Option<&str>,
    max: usize,
) -> Option<(String, usize)> {
    let mut seen = HashSet::new();
    let parts: Vec<&Missing> = missing.iter().filter(|part| seen.insert((part.section, &part.name))).collect();
    let others = parts.len().saturating_sub(max);
    let mut sections: BTreeMap<Section, BTreeMap<&str, &Missing>> = BTreeMap::new();
    for part in parts.into_iter().take(max) {
        sections.entry(part.section).or_default().insert(&part.name, part);
    }
    if !missing.iter().any(Missing::is_proposed) {
        return None;
    }
    let mut yaml = format!("# {PROPOSAL}\n");
    let profiles = profiles.map(|names| format!(" --profile {}", shell(names))).unwrap_or_default();
    // Writing to a String cannot fail.
    let _ = match files.split_first() {
        Some((first, others)) => {
            let others: String = others.iter().map(|file| format!(" --config {}", shell(file))).collect();
            let first = shell(first);
            let _ = writeln!(yaml, "#   tollgate check {first}{others} --config overlay.yaml{profiles}");
            writeln!(yaml, "#   tollgate --config {first}{others} --config overlay.yaml{profiles}")
        }
        None => writeln!(yaml, "#   SPRING_CONFIG_ADDITIONAL_LOCATION=overlay.yaml tollgate{profiles}"),
    };
    for (section, parts) in sections {
        let mut lines = String::new();
        for (name, part) in &parts {
            let comment = if part.comment.is_empty() { String::new() } else { format!(" # {}", part.comment) };
            if section == Section::Registry {
                lines.push_str(&part.value);
                continue;
            }
            lines.push_str(&match (section.key(), part.is_proposed()) {
                _ if section == Section::Routes => format!("  - {}{comment}\n", part.value),
                (Some(_), _) => format!("  {}: {}{comment}\n", yaml_key(name), part.value),
                (None, true) => format!("{name}: {}{comment}\n", scalar(&part.value)),
                (None, false) => format!("# {name}:{comment}\n"),
            });
        }
        if let Some(key) = section.key() {
            let _ = writeln!(yaml, "{key}:{}", if section == Section::Routes { "\n  routes:" } else { "" });
        }
        yaml.push_str(&lines);
    }
    if others > 0 {
        let _ = writeln!(yaml, "# {others} more are missing; `--max-problems 0` names them");
    }
    Some((yaml, others))
}

/// Returns `name` as one YAML key. Brackets keep its dots from separating levels.
pub fn yaml_key(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { quoted(&format!("[{name}]")) }
}

/// Returns `text` as a YAML scalar, quoted if necessary.
fn scalar(text: &str) -> String {
    let is_number_or_flag = text == "true" || text.bytes().all(|byte| byte.is_ascii_digit());
    let is_url = text.starts_with("http://") && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_number_or_flag || is_url || is_plain(text) { text.to_owned() } else { quoted(text) }
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        && !["true", "false", "yes", "no", "on", "off", "null", "y", "n"].contains(&&*name.to_ascii_lowercase())
}

/// Returns `text` in double quotes.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns `file` as one shell word, quoted if necessary. Control characters become `?`.
fn shell(file: &str) -> String {
    let is_plain = !file.is_empty() && file.chars().all(|c| c.is_alphanumeric() || "/._-+:@%=".contains(c));
    let one_line: String = file.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if is_plain { one_line } else { format!("'{}'", one_line.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hostile_names_stay_names() {
        let part = |name: &str| Missing {
            section: Section::KeyResolvers,
            name: name.to_owned(),
            value: "ip".to_owned(),
            comment: String::new(),
        };
        let yaml = overlay(
            &[part("a\nroutes: []"), part("no"), part("a.b"), part("ok")],
            &["a b.yml", "c\n'd.yml"],
            Some("a,b c"),
            4,
        );
        let (yaml, others) = yaml.unwrap();
        assert_eq!(others, 0);
        assert!(
            yaml.contains("check 'a b.yml' --config 'c?'\\''d.yml' --config overlay.yaml --profile 'a,b c'\n"),
            "{yaml}"
        );
        for line in ["  \"[a\\nroutes: []]\": ip\n", "  \"[no]\": ip\n", "  \"[a.b]\": ip\n", "  ok: ip\n"] {
            assert!(yaml.contains(line), "{yaml}");
        }
        assert_eq!(overlay(&[], &["a.yml"], None, 4), None);
        let (yaml, others) = overlay(&[part("a"), part("b"), part("a"), part("c")], &[], None, 2).unwrap();
        assert!(
            others == 1 && yaml.ends_with("  b: ip\n# 1 more are missing; `--max-problems 0` names them\n"),
            "{yaml}"
        );
    }
}
