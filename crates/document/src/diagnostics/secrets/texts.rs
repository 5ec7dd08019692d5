//! Secrets within a text: a value, a key or a line.

use std::net::IpAddr;
use std::ops::Range;

use super::misspelled::UnknownNames;
use super::misspelled::resembles_secret;
use super::names::{
    self, NO_SECRET_KEYS, SECRET_KEYS, SECRET_NAMES, ValueKind, is_secret_name, is_secret_word, letters,
};
use super::urls::{SEPARATOR, find_urls_without_host};
use crate::yaml::key::canonical;

/// Filter whose shortcut is a list of names with values: `X-Token:secret`.
const NAMED_LIST: &str = "addrequestheadersifnotpresent";
/// Predicates and filters whose first argument is a name, and whose others may hold a secret: canonical names.
pub const NAMED_VALUES: [&str; 10] = [
    "addrequestheader",
    "addrequestparameter",
    "addresponseheader",
    "cookie",
    "header",
    "query",
    "rewriterequestparameter",
    "rewriteresponseheader",
    "setrequestheader",
    "setresponseheader",
];
/// Bytes in which the name of a predicate or filter is looked for.
const LONGEST_NAME: usize = 256;
/// Shortcuts of one text whose arguments are read. Behind them, the whole text is secret.
const MAX_SHORTCUTS: usize = 32;
/// Keys that stand before a name, not a secret: `cookie:session` is a key resolver, `RequireToken` a filter.
const NO_SECRETS: [&str; 2] = ["cookie", "requiretoken"];

/// Returns what is behind the scheme of a field with credentials.
pub fn without_scheme(value: &str) -> Option<&str> {
    let behind = |scheme: &str| {
        let (start, rest) = value.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest.trim())
    };
    behind("bearer ").or_else(|| behind("basic "))
}

/// Returns true for a private key in PEM, and for the login of a client of Kafka.
pub(super) fn has_credentials(value: &str) -> bool {
    value.contains("PRIVATE KEY-----") || value.contains("LoginModule ")
}

/// Ends of the names of files with keys.
const KEY_FILES: [&str; 7] = [".crt", ".der", ".jks", ".key", ".p12", ".p8", ".pem"];

/// Returns true for the place of a file, which is no secret where its content is: `classpath:tls.key`, `/run/secrets/client`.
/// Base64, which may begin with a slash, hardly has another one behind small letters.
pub(super) fn is_location(value: &str) -> bool {
    let top = value.strip_prefix('/').and_then(|path| path.split_once('/'));
    ["classpath:", "file:"].iter().any(|scheme| value.starts_with(scheme))
        || KEY_FILES.iter().any(|end| value.ends_with(end))
        || top.is_some_and(|(top, _)| top.len() > 1 && top.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Returns true for a placeholder without a default, `${NAME}`, and for one of a build with a dotted name: `@redis.password@`.
pub(super) fn is_variable(value: &str) -> bool {
    let of_build = value.strip_prefix('@').and_then(|rest| rest.strip_suffix('@')).filter(|name| name.contains('.'));
    if let Some(name) = of_build {
        return name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    }
    value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(|name| !name.contains([':', '{', '}']))
}

/// Returns true if `text` ends with the name of a predicate or filter with names and values. One that is not known may be of
/// this kind.
pub(super) fn has_named_value(text: &str, unknown: &UnknownNames) -> bool {
    let text = text.trim_matches(|c: char| !c.is_alphanumeric());
    [text, end_of(text, "-_."), end_of(text, "")].into_iter().any(|component| {
        let name = canonical(component);
        name == NAMED_LIST || NAMED_VALUES.contains(&name.as_str()) || unknown.has_component(component)
    })
}

/// Finds values in shortcuts whose names say that they are secrets: `AddRequestHeader=Authorization, Bearer x`.
pub(super) fn find_shortcuts(text: &str, unknown: &UnknownNames, found: &mut Vec<Range<usize>>) {
    // The `=` behind the name may be missing.
    let first = text.char_indices().find(|(_, c)| !c.is_alphanumeric() && *c != '=');
    let ends = first.into_iter().chain(text.match_indices('=').map(|(at, _)| (at, '=')));
    // A longer text before the sign has no name at its end that is not within its last bytes.
    let before = |at: usize| (at.saturating_sub(LONGEST_NAME)..=at).find_map(|start| text.get(start..at));
    for (number, (at, sign)) in
        ends.filter(|(at, _)| has_named_value(before(*at).unwrap_or_default(), unknown)).enumerate()
    {
        if number == MAX_SHORTCUTS {
            found.push(at..text.len());
            return;
        }
        let behind = &text[at + sign.len_utf8()..];
        let from = text.len() - behind.trim_start_matches(|c: char| !c.is_alphanumeric()).len();
        let mut in_arguments = Vec::new();
        find_arguments(&text[from..], &mut in_arguments);
        found.extend(in_arguments.into_iter().map(|range| range.start + from..range.end + from));
    }
}

/// Returns the letters, digits and `signs` at the end of `text`.
fn end_of<'t>(text: &'t str, signs: &str) -> &'t str {
    &text[text.trim_end_matches(|c: char| c.is_alphanumeric() || signs.contains(c)).len()..]
}

/// Finds the values of arguments: behind a name, to the end, and in a list of names with values.
pub(super) fn find_arguments(text: &str, found: &mut Vec<Range<usize>>) {
    // Without a comma, the value follows a space.
    if let Some((name, value)) = text.split_once(',').or_else(|| text.trim_start().split_once(' ')) {
        let trimmed = value.trim();
        if is_secret_name(name) && !name.contains(':') && !trimmed.is_empty() && !is_variable(trimmed) {
            let end = text.trim_end().len();
            found.push(text.len() - value.trim_start().len()..end);
        }
    }
    let mut start = 0;
    for item in text.split(',') {
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

/// Returns true for an address or a network, also if it is a wrong one, such as `203.0.113.300`.
fn is_network(text: &str) -> bool {
    let address = text.split('/').next().unwrap_or(text);
    let has_form = text.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':' | b'/'));
    let is_range =
        text.matches('.').count() > 1 && text.bytes().all(|byte| byte.is_ascii_digit() || b".*-/".contains(&byte));
    is_range || has_form && (text.contains('/') || text.contains("::") || address.parse::<IpAddr>().is_ok())
}

/// Returns the start of the value behind a key that ends before `at`: separators and blanks are no part of it.
pub(super) fn value_start(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start_matches([':', '=', ' ', '\t']).len()
}

/// Finds what is behind the key of a secret, or of a section with secrets, in a text that should be a map: `password:x` lacks
/// a space, `password=x` is of properties.
pub(super) fn find_after_key(text: &str, found: &mut Vec<Range<usize>>) {
    // The end of the last name, and that name: a text may have millions of signs behind it.
    let (mut name_end, mut last) = (0, None);
    let mut masked = 0;
    for (at, sign) in text.char_indices() {
        if sign.is_alphanumeric() || sign == ']' {
            name_end = at + sign.len_utf8();
        }
        if at < masked || !matches!(sign, ':' | '=' | ' ' | '\t') {
            continue;
        }
        let (key, kind) = match last {
            Some((end, key, kind)) if end == name_end => (key, kind),
            _ => {
                let key = end_of(&text[..name_end], "-_.[]");
                let kind = ValueKind::Other.below(key);
                last = Some((name_end, key, kind));
                (key, kind)
            }
        };
        let is_secret = match sign {
            ':' | '=' => kind.has_secrets(),
            _ => kind == ValueKind::Secret,
        };
        if is_secret && !NO_SECRETS.contains(&canonical(key).as_str()) {
            let start = value_start(text, at + 1);
            // Of names that are guessed, a list may follow: `X-Key:a,X-Colour:b`.
            let end = text[start..].find(',').filter(|_| kind == ValueKind::Key);
            masked = end.map_or(text.len(), |end| start + end);
            found.push(start..masked);
            if end.is_none() {
                return;
            }
        }
    }
}

/// Sections with secrets, and schemes of credentials.
const SECRET_SECTIONS: [&str; 6] = ["basic", "bearer", "block", "exempt", "headers", "table"];
/// Settings of many files that have the names of secrets in theirs.
const SETTINGS: [&str; 3] = ["keyresolver", "keyprefix", "keystoretype"];

/// Returns true if `text` mentions the name of a secret, also across its signs and line breaks, or has a URL with a user.
pub(super) fn mentions_secret(text: &str) -> bool {
    let is_setting = |word: &&str| {
        let letters = letters(word);
        let ends_like = |name: &&str| letters.ends_with(*name);
        SETTINGS.contains(&letters.as_str()) || NO_SECRET_KEYS.iter().chain(&names::NO_SECRETS).any(ends_like)
    };
    // A file may have millions of blanks between its words.
    let words = text.split(|c: char| !(c.is_alphanumeric() || "-_".contains(c))).filter(|word| !word.is_empty());
    let mut words = words.filter(|word| !is_setting(word));
    let written: String = words.clone().map(letters).collect();
    let mut names = SECRET_NAMES.iter().chain(&SECRET_KEYS).chain(&SECRET_SECTIONS);
    // An `@` at the begin of a value is no end of a password.
    let ends_password = |(at, _): (usize, &str)| {
        let before = text[..at].trim_end_matches(['[', '{', '"', '\'']);
        !(before.is_empty() || before.ends_with(char::is_whitespace))
    };
    let has_user = || text.contains(':') && (text.contains("%40") || text.match_indices('@').any(ends_password));
    let has_password = |word: &str| {
        let mut found = Vec::new();
        find_urls_without_host(word, &mut found);
        !found.is_empty()
    };
    let urls = text.split(|c: char| c.is_whitespace() || "'\"`".contains(c));
    let mut urls = urls.filter(|word| word.contains(SEPARATOR));
    names.any(|name| written.contains(name))
        || has_user()
        || words.any(|word| resembles_secret(word) || is_secret_word(word, &letters(word)))
        || urls.any(has_password)
}

/// Returns the position of the comment at the end of a line, if it mentions one.
pub(super) fn comment_with_secret(line: &str) -> Option<usize> {
    let start = line.match_indices('#').map(|(at, _)| at).find(|at| line[..*at].trim_end().len() < *at || *at == 0)?;
    let comment = &line[start..];
    // An expression of Spring's names a bean.
    let comment = comment.strip_prefix("#{@").and_then(|bean| bean.split_once('}')).map_or(comment, |(_, after)| after);
    mentions_secret(comment).then_some(start)
}
