//! Secrets in lines of a configuration, which excerpts and messages mask.

mod lines;
mod lists;
mod misspelled;

use std::ops::Range;

pub(super) use self::lines::FileLines;
pub(super) use self::misspelled::UnknownNames;
use self::misspelled::resembles_secret;

/// Text in place of a secret in a message.
const MASK: &str = "****";
/// Shortest secret that is replaced in messages; shorter ones are too likely to be a part of other words.
const SHORTEST: usize = 3;
/// Ends of the names of keys whose values are secrets, as letters and digits in lower case.
const SECRET_KEYS: [&str; 11] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
];
/// Key whose table holds fields with possible secrets as values.
const FIELDS: &str = "headers";
/// Filter whose shortcut is a list of names with values: `X-Token:secret`.
const NAMED_LIST: &str = "AddRequestHeadersIfNotPresent=";
/// Parts of the names of headers, cookies and parameters whose values are secrets.
const SECRET_NAMES: [&str; 8] = ["auth", "cookie", "credential", "key", "passw", "secret", "session", "token"];
/// Predicates and filters whose shortcut is a name and a value.
const SHORTCUTS: [&str; 8] = [
    "AddRequestHeader=",
    "SetRequestHeader=",
    "AddResponseHeader=",
    "SetResponseHeader=",
    "AddRequestParameter=",
    "Header=",
    "Cookie=",
    "Query=",
];

/// Returns the line at `at` with each character of a secret replaced by `*`. Columns stay the same.
pub(super) fn mask_line(lines: &FileLines<'_>, at: usize, unknown: &UnknownNames) -> String {
    let line = lines.line(at);
    let ranges = secrets(lines, at, unknown);
    let is_secret = |at: usize| ranges.iter().any(|range| range.contains(&at));
    line.char_indices().map(|(at, c)| if is_secret(at) { '*' } else { c }).collect()
}

/// Returns `message` without the secrets of the line at `at`, and without passwords of URLs.
pub(super) fn mask_message(message: &str, lines: &FileLines<'_>, at: Option<usize>, unknown: &UnknownNames) -> String {
    let line = at.map_or("", |at| lines.line(at));
    let secrets: Vec<&str> =
        at.map(|at| secrets(lines, at, unknown)).unwrap_or_default().into_iter().map(|range| &line[range]).collect();
    // Messages quote values in backquotes; a quoted value may be a part of the secret.
    let parts: Vec<&str> = message.split('`').collect();
    let is_secret = |part: &str| part.len() >= SHORTEST && secrets.iter().any(|secret| secret.contains(part));
    let shown: Vec<&str> =
        parts.iter().enumerate().map(|(at, part)| if at % 2 == 1 && is_secret(part) { MASK } else { part }).collect();
    let mut masked = shown.join("`");
    for secret in secrets.iter().filter(|secret| secret.len() >= SHORTEST) {
        masked = masked.replace(secret, MASK);
    }
    let mut passwords = Vec::new();
    find_urls(&masked, &mut passwords);
    for range in passwords.into_iter().rev() {
        masked.replace_range(range, MASK);
    }
    masked
}

/// Returns the places of the line at `at` that may be secrets.
fn secrets(lines: &FileLines<'_>, at: usize, unknown: &UnknownNames) -> Vec<Range<usize>> {
    let line = lines.line(at);
    if line.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    find_values(line, lines.has_secret_sibling(at, names_secret), unknown, &mut found);
    lists::find(lines, at, &mut found);
    find_tables(line, &mut found);
    for shortcut in SHORTCUTS.into_iter().chain(unknown.shortcuts()) {
        find_shortcuts(line, shortcut, &mut found);
    }
    for list in [NAMED_LIST].into_iter().chain(unknown.shortcuts()) {
        find_named_list(line, list, &mut found);
    }
    misspelled::find_unspaced(line, &mut found);
    find_urls(line, &mut found);
    find_servers(line, &mut found);
    found
}

/// Finds values of keys that name a secret: `password: x`, `{token: x}`.
fn find_values(line: &str, has_secret_sibling: bool, unknown: &UnknownNames, found: &mut Vec<Range<usize>>) {
    let entries: Vec<(&str, Range<usize>)> = entries(line).collect();
    let names_secret = has_secret_sibling || names_secret(line);
    for (key, range) in entries {
        let value = &line[range.clone()];
        let is_scheme =
            |scheme: &str| value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        let is_secret = is_secret_key(key)
            || unknown.has_key(key)
            || is_scheme("bearer ")
            || is_scheme("basic ")
            || (is_value_key(key) || unknown.has_value_key(key)) && names_secret;
        if is_secret && !value.is_empty() && !is_variable(value) {
            found.push(range);
        }
    }
}

/// Returns true for arguments whose values are secrets if another argument names one.
fn is_value_key(key: &str) -> bool {
    matches!(key, "value" | "regexp")
}

/// Returns true if a value of the line is a name of a secret. A mistyped `name` names one, too.
fn names_secret(line: &str) -> bool {
    entries(line).any(|(key, value)| key != "key-resolver" && is_secret_name(&line[value]))
}

/// Returns the keys of a line with the places of their values.
fn entries(line: &str) -> impl Iterator<Item = (&str, Range<usize>)> {
    let is_flow = line.replace("${", "").contains('{');
    line.match_indices(':').filter_map(move |(colon, _)| {
        let after = &line[colon + 1..];
        if !(after.is_empty() || after.starts_with([' ', '\t'])) {
            return None;
        }
        let before = line[..colon].trim_end_matches(['"', '\'']);
        let key = before.rsplit(['{', ',', ' ', '\t', '"', '\'']).next()?;
        let start = colon + 1 + (after.len() - after.trim_start().len());
        let value = &line[start..];
        let range = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let end = value[1..].find(quote).unwrap_or(value.len() - 1);
                start + 1..start + 1 + end
            }
            _ => {
                let flow_end = if is_flow { flow_end(value) } else { None };
                let end = flow_end.into_iter().chain(value.find(" #")).min().unwrap_or(value.len());
                start..start + value[..end].trim_end().len()
            }
        };
        Some((key, range))
    })
}

/// Returns the end of a value in a flow map. Braces of placeholders belong to the value.
fn flow_end(value: &str) -> Option<usize> {
    let mut depth = 0_usize;
    value.find(|c: char| match c {
        '{' => {
            depth += 1;
            false
        }
        '}' if depth > 0 => {
            depth -= 1;
            false
        }
        c => depth == 0 && matches!(c, ',' | '}'),
    })
}

/// Finds the values of header fields on one line: `headers: {X-Key: a}`.
fn find_tables(line: &str, found: &mut Vec<Range<usize>>) {
    for (colon, _) in line.match_indices(": ") {
        let key = line[..colon].rsplit(['{', ',', ' ', '\t', '"', '\'']).next().unwrap_or_default();
        let start = colon + 2 + (line[colon + 2..].len() - line[colon + 2..].trim_start().len());
        let value = &line[start..];
        let end = start + block_end(value).unwrap_or(value.len());
        if key == FIELDS && value.starts_with('{') {
            let inside = start + 1..end.max(start + 1);
            found.extend(entries(line).map(|(_, range)| range).filter(|range| inside.contains(&range.start)));
        }
    }
}

/// Returns the place of the bracket that closes the first one.
fn block_end(value: &str) -> Option<usize> {
    let mut depth = 0_usize;
    value.find(|c: char| {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// Finds the values of the list of names with values behind `list`.
fn find_named_list(line: &str, list: &str, found: &mut Vec<Range<usize>>) {
    let Some(at) = line.find(list) else { return };
    let mut start = at + list.len();
    for item in line[start..].split(',') {
        if let Some((name, value)) = item.split_once(':')
            && is_secret_name(name)
        {
            let value_start = start + name.len() + 1;
            found.push(value_start..value_start + value.trim_end_matches([' ', '\'', '"', ']']).len());
        }
        start += item.len() + 1;
    }
}

/// Finds values behind `shortcut` whose name says that they are secrets: `AddRequestHeader=Authorization, Bearer x`.
fn find_shortcuts(line: &str, shortcut: &str, found: &mut Vec<Range<usize>>) {
    for (at, _) in line.match_indices(shortcut) {
        let start = at + shortcut.len();
        let before = line[..at].chars().next_back();
        // `Header=` is also the end of longer names.
        if before.is_some_and(char::is_alphanumeric) {
            continue;
        }
        let quote = before.filter(|c| matches!(c, '"' | '\''));
        let end = match quote {
            Some(quote) => line[start..].find(quote),
            None => line[start..].find(']'),
        };
        let item = &line[start..start + end.unwrap_or(line.len() - start)];
        // Without a comma, the value follows a space.
        if let Some((name, value)) = item.split_once(',').or_else(|| item.split_once(' '))
            && is_secret_name(name)
            && !value.trim().is_empty()
            && !is_variable(value.trim())
        {
            let value_start = start + name.len() + 1 + (value.len() - value.trim_start().len());
            found.push(value_start..start + item.trim_end().len());
        }
    }
}

/// Finds passwords of URLs: `scheme://user:password@host`.
fn find_urls(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, separator) in text.match_indices("://") {
        let start = at + separator.len();
        let rest = &text[start..];
        let url = &rest[..rest.find([' ', '"', '\'', '`', ',', '}', ']']).unwrap_or(rest.len())];
        if let (Some(colon), Some(end)) = (url.find(':'), url.rfind('@'))
            && colon + 1 < end
        {
            found.push(start + colon + 1..start + end);
        }
    }
}

/// Finds passwords in Ribbon's lists of servers, which have no scheme: `listOfServers: user:password@host:80`.
fn find_servers(line: &str, found: &mut Vec<Range<usize>>) {
    const LISTS: [&str; 2] = ["listOfServers", "list-of-servers"];
    let Some(list) = LISTS.iter().find_map(|name| Some(line.find(name)? + name.len())) else { return };
    let mut start = list;
    for item in line[list..].split(',') {
        let server = item.trim_start_matches([':', '=', ' ', '\'', '"', '[']);
        let user = start + (item.len() - server.len());
        if let (Some(colon), Some(end)) = (server.find(':'), server.rfind('@'))
            && colon + 1 < end
            && !server.contains("://")
        {
            found.push(user + colon + 1..user + end);
        }
        start += item.len() + 1;
    }
}

/// Returns true for a key whose value may be a secret, also if its name is misspelled.
fn is_secret_key(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key);
    let letters: String = last.chars().filter(char::is_ascii_alphanumeric).collect();
    let letters = letters.to_ascii_lowercase();
    SECRET_KEYS.iter().any(|secret| letters.ends_with(secret)) || resembles_secret(last)
}

/// Returns true for the name of a header, cookie or parameter whose value may be a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// Returns true for a placeholder without a default: `${NAME}`.
fn is_variable(value: &str) -> bool {
    value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(|name| !name.contains([':', '{', '}']))
}

#[cfg(test)]
mod tests;
