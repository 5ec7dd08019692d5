//! Secrets within a text: a value, a key or a line.

use std::net::IpAddr;
use std::ops::Range;

use super::names::{is_secret_key, is_secret_name};
use super::unknown::UnknownNames;
use crate::yaml::key::canonical;

/// Part of a property's name before a key id: `plan-resolver.table.KEY`.
pub(super) const IN_TABLE: &str = ".table.";
/// Filter whose shortcut is a list of names with values: `X-Token:secret`.
const NAMED_LIST: &str = "AddRequestHeadersIfNotPresent";
/// Predicates and filters whose shortcut is a name and a value.
const SHORTCUTS: [&str; 8] = [
    "AddRequestHeader",
    "SetRequestHeader",
    "AddResponseHeader",
    "SetResponseHeader",
    "AddRequestParameter",
    "Header",
    "Cookie",
    "Query",
];

/// Returns true for the value of a field with credentials.
pub(super) fn has_scheme(value: &str) -> bool {
    let is_scheme = |scheme: &str| value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    is_scheme("bearer ") || is_scheme("basic ")
}

/// Returns true for a placeholder without a default: `${NAME}`.
pub(super) fn is_variable(value: &str) -> bool {
    value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(|name| !name.contains([':', '{', '}']))
}

/// Finds values in shortcuts whose names say that they are secrets: `AddRequestHeader=Authorization, Bearer x`. Filters and
/// predicates that are not known may be of either kind.
pub(super) fn find_shortcuts(text: &str, unknown: &UnknownNames, found: &mut Vec<Range<usize>>) {
    let mut from = 0;
    while let Some(at) = text[from..].find('=').map(|at| from + at) {
        let start = at + 1;
        let (name, end_of_name) = (word_before(text, at, "-_."), word_before(text, at, ""));
        let is_unknown = unknown.has_component(name) || unknown.has_component(end_of_name);
        if is_unknown || end_of_name == NAMED_LIST {
            find_named_list(text, start, found);
        }
        from = start;
        if is_unknown || SHORTCUTS.contains(&end_of_name) {
            match find_value(text, start) {
                Ok(value) => return found.push(value),
                Err(next) => from = next,
            }
        }
    }
}

/// Returns the letters, digits and `signs` before a position.
fn word_before<'t>(text: &'t str, at: usize, signs: &str) -> &'t str {
    let rest = text[..at].trim_end_matches(|c: char| c.is_alphanumeric() || signs.contains(c));
    &text[rest.len()..at]
}

/// Returns the value behind the name at `start`, to the end of the text, if the name is that of a secret. The error is the end
/// of the name.
fn find_value(text: &str, start: usize) -> Result<Range<usize>, usize> {
    let item = &text[start..];
    // Without a comma, the value follows a space.
    let Some((name, value)) = item.split_once(',').or_else(|| item.split_once(' ')) else { return Err(text.len()) };
    let trimmed = value.trim();
    if !is_secret_name(name) || trimmed.is_empty() || is_variable(trimmed) {
        return Err(start + name.len());
    }
    let value_start = start + name.len() + 1 + (value.len() - value.trim_start().len());
    Ok(value_start..start + item.trim_end().len())
}

/// Finds the values of the list of names with values at `start`.
fn find_named_list(text: &str, mut start: usize, found: &mut Vec<Range<usize>>) {
    for item in text[start..].split(',') {
        if let Some((name, value)) = item.split_once(':')
            && is_secret_name(name)
        {
            let value_start = start + name.len() + 1;
            found.push(value_start..value_start + value.trim_end().len());
        }
        start += item.len() + 1;
    }
}

/// Finds the items of a list or of a text with commas, except addresses, networks and placeholders.
pub(super) fn find_key_ids(text: &str, found: &mut Vec<Range<usize>>) {
    let mut start = 0;
    for item in text.split(',') {
        let id = item.trim();
        if !id.is_empty() && !is_network(id) && !is_variable(id) {
            let at = start + item.len() - item.trim_start().len();
            found.push(at..at + id.len());
        }
        start += item.len() + 1;
    }
}

fn is_network(text: &str) -> bool {
    let address = text.split('/').next().unwrap_or(text);
    let has_form = text.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':' | b'/'));
    has_form && (text.contains('/') || address.parse::<IpAddr>().is_ok())
}

/// Finds passwords of URLs: `scheme://user:password@host`.
pub(super) fn find_urls(text: &str, found: &mut Vec<Range<usize>>) {
    const SEPARATOR: &str = "://";
    let mut from = 0;
    while let Some(start) = text[from..].find(SEPARATOR).map(|at| from + at + SEPARATOR.len()) {
        let rest = &text[start..];
        let url = &rest[..rest.find([' ', '"', '\'', '`', ',', '}', ']']).unwrap_or(rest.len())];
        if let (Some(colon), Some(end)) = (url.find(':'), url.rfind('@'))
            && colon + 1 < end
        {
            found.push(start + colon + 1..start + end);
        }
        from = start + url.len();
    }
}

/// Finds passwords in a list of servers without schemes: `user:password@host:80`.
pub(super) fn find_servers(text: &str, found: &mut Vec<Range<usize>>) {
    let mut start = 0;
    for server in text.split(',') {
        if let (Some(colon), Some(end)) = (server.find(':'), server.rfind('@'))
            && colon + 1 < end
            && !server.contains("://")
        {
            found.push(start + colon + 1..start + end);
        }
        start += server.len() + 1;
    }
}

/// Finds the value behind the key of a secret that lacks the space after its colon: `{password:x}`. YAML reads both as one
/// key, which messages quote.
pub(super) fn find_unspaced(key: &str, found: &mut Vec<Range<usize>>) {
    // `cookie:session` is a key resolver.
    if let Some((name, _)) = key.split_once(':')
        && is_secret_key(name)
        && canonical(name) != "cookie"
    {
        found.push(name.len() + 1..key.len());
    }
}

/// Finds what is behind the key of a secret in a line that is not read as YAML.
pub(super) fn find_after_keys(line: &str, found: &mut Vec<Range<usize>>) {
    let is_of_key = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    for (at, _) in line.match_indices([':', '=']) {
        let before = line[..at].trim_end_matches(['"', '\'', ' ']);
        let key = &before[before.trim_end_matches(is_of_key).len()..];
        if !key.is_empty() && is_secret_key(key) {
            let value = line[at + 1..].trim_start();
            return found.push(line.len() - value.len()..line.len());
        }
    }
}

/// Finds secrets in the comment at the end of a line.
pub(super) fn find_in_comment(line: &str, found: &mut Vec<Range<usize>>) {
    let Some(start) = [" #", "\t#"].into_iter().filter_map(|start| line.find(start)).min() else { return };
    let mut in_comment = Vec::new();
    find_after_keys(&line[start..], &mut in_comment);
    find_urls(&line[start..], &mut in_comment);
    found.extend(in_comment.into_iter().map(|range| range.start + start..range.end + start));
}
