//! Secrets in lines of a configuration, which excerpts and messages mask.

use std::ops::Range;

/// Text in place of a secret in a message.
const MASK: &str = "****";
/// Shortest secret that is replaced in messages; shorter ones are too likely to be a part of other words.
const SHORTEST: usize = 3;
/// Ends of the names of keys whose values are secrets, as letters and digits in lower case.
const SECRET_KEYS: [&str; 8] =
    ["password", "passwd", "passphrase", "secret", "token", "apikey", "credential", "credentials"];
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

/// Returns `line` with each character of a secret replaced by `*`. Columns stay the same.
pub(super) fn mask_line(line: &str) -> String {
    let ranges = secrets(line);
    let is_secret = |at: usize| ranges.iter().any(|range| range.contains(&at));
    line.char_indices().map(|(at, c)| if is_secret(at) { '*' } else { c }).collect()
}

/// Returns `message` without the secrets of `line`, and without passwords of URLs.
pub(super) fn mask_message(message: &str, line: Option<&str>) -> String {
    let line = line.unwrap_or_default();
    let secrets: Vec<&str> = secrets(line).into_iter().map(|range| &line[range]).collect();
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

/// Returns the places of `line` that may be secrets.
fn secrets(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    find_values(line, &mut found);
    find_shortcuts(line, &mut found);
    find_urls(line, &mut found);
    found
}

/// Finds values of keys that name a secret: `password: x`, `{token: x}`.
fn find_values(line: &str, found: &mut Vec<Range<usize>>) {
    let entries: Vec<(&str, Range<usize>)> = entries(line).collect();
    let names_secret = entries
        .iter()
        .any(|(key, value)| matches!(*key, "name" | "header" | "param") && is_secret_name(&line[value.clone()]));
    for (key, range) in entries {
        let value = &line[range.clone()];
        let is_scheme =
            |scheme: &str| value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        let is_secret = is_secret_key(key)
            || matches!(key, "value" | "regexp") && (names_secret || is_scheme("bearer ") || is_scheme("basic "));
        if is_secret && !value.is_empty() && !is_variable(value) {
            found.push(range);
        }
    }
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

/// Finds values of shortcuts whose name says that they are secrets: `AddRequestHeader=Authorization, Bearer x`.
fn find_shortcuts(line: &str, found: &mut Vec<Range<usize>>) {
    for shortcut in SHORTCUTS {
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
            if let Some((name, value)) = item.split_once(',')
                && is_secret_name(name)
                && !value.trim().is_empty()
                && !is_variable(value.trim())
            {
                let value_start = start + name.len() + 1 + (value.len() - value.trim_start().len());
                found.push(value_start..start + item.trim_end().len());
            }
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

fn is_secret_key(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key);
    let letters: String = last.chars().filter(char::is_ascii_alphanumeric).collect();
    SECRET_KEYS.iter().any(|secret| letters.to_ascii_lowercase().ends_with(secret))
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// True for a placeholder without a default: `${NAME}`.
fn is_variable(value: &str) -> bool {
    value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(|name| !name.contains([':', '{', '}']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_columns_stay() {
        for (line, masked) in [
            ("  password: hunter2", "  password: *******"),
            ("  password: 'hun ter2' # note", "  password: '********' # note"),
            ("redis: {key-store-password: abc, url: x}", "redis: {key-store-password: ***, url: x}"),
            ("  spring.data.redis.password: abc # note", "  spring.data.redis.password: *** # note"),
            ("  url: redis://user:pä:s@s@host:6379/0", "  url: redis://user:******@host:6379/0"),
            ("  url: 'redis://:a/b@host'", "  url: 'redis://:***@host'"),
            ("- AddRequestHeader=Authorization, Bearer x, y", "- AddRequestHeader=Authorization, ***********"),
            ("filters: ['SetRequestHeader=X-Api-Key, k1', A=b]", "filters: ['SetRequestHeader=X-Api-Key, **', A=b]"),
            ("args: {name: X-Token, value: abc}", "args: {name: X-Token, value: ***}"),
            ("    value: Basic abc", "    value: *********"),
            ("  password: ${PASSWORD:abc}", "  password: ***************"),
        ] {
            assert_eq!(mask_line(line), masked);
            assert_eq!(line.chars().count(), masked.chars().count());
        }
    }

    #[test]
    fn other_values_are_shown() {
        for line in [
            "  password: ${REDIS_PASSWORD}",
            "redis: {password: ${REDIS_PASSWORD}, timeout: 1s}",
            "  args: {redis-rate-limiter.requestedTokens: 1, algorithm: token-bucket}",
            "  uri: http://localhost:8080/a@b",
            "- AddRequestHeader=X-Colour, red",
            "  key-resolver: header:x-api-key",
            "  username: gateway",
        ] {
            let shown = mask_line(line);
            assert!(shown == line || line.contains("a@b"), "{shown}");
        }
    }

    #[test]
    fn messages_do_not_repeat_a_secret() {
        let line = Some("- AddRequestHeader=Authorization, Bearer x, and y");
        assert_eq!(
            mask_message("expected text, found `hunter2`", Some("  password: hunter2")),
            "expected text, found `****`"
        );
        assert_eq!(
            mask_message("`and y` is one too many for `AddRequestHeader`", line),
            "`****` is one too many for `AddRequestHeader`"
        );
        assert_eq!(mask_message("cannot read `redis://u:p@h:1x`", None), "cannot read `redis://u:****@h:1x`");
    }
}
