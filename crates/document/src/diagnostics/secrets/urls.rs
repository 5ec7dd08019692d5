//! Secrets within the URLs and servers of a text.

use std::ops::Range;

use super::names::is_secret_name;

/// Finds passwords of the URLs of a value: `scheme://user:password@host`. All signs before the last `@` of a URL may be of the
/// password.
pub(super) fn find_urls(text: &str, found: &mut Vec<Range<usize>>) {
    for (start, url) in urls(text) {
        found.extend(password(url).map(|range| start + range.start..start + range.end));
    }
    // Oracle's: `jdbc:oracle:thin:user/password@//host`.
    let mut start = 0;
    for (end, sign) in text.match_indices("@//") {
        let user = start + text[start..end].rfind(':').map_or(0, |colon| colon + 1);
        found.extend(text[user..end].find('/').map(|slash| user + slash + 1..end));
        start = end + sign.len();
    }
}

/// Finds what may be passwords of URLs whose host is missing: `redis://:secret`, `redis://user:secret/0`, with and without the
/// path. Digits are a port, a placeholder is none.
pub(super) fn find_urls_without_host(text: &str, found: &mut Vec<Range<usize>>) {
    for (start, url) in urls(text) {
        let Some(user) = url.find(|c: char| !(c.is_alphanumeric() || "-._~%".contains(c))) else { continue };
        let Some(behind) = url[user..].strip_prefix(':').filter(|behind| !behind.contains('@')) else { continue };
        let after_digits = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_longer = after_digits.starts_with(|c: char| c.is_alphanumeric() || "-_.~%!$&*+=:".contains(c));
        let is_port = (1..=5).contains(&(behind.len() - after_digits.len())) && !is_longer;
        let is_other = behind.trim_start().is_empty() || behind.starts_with(['$', '{', '#', ' ']);
        if !is_port && !is_other {
            let start = start + user + 1;
            let host = behind.find(['/', '?', '#']).filter(|end| *end > 0);
            found.extend(host.map(|end| start..start + end));
            found.push(start..start + behind.len());
        }
    }
}

/// Begin of the host of a URL.
pub(super) const SEPARATOR: &str = "//";

/// Returns the texts behind `//` with their positions.
fn urls(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut starts = text.match_indices(SEPARATOR).map(|(at, _)| at + SEPARATOR.len()).peekable();
    std::iter::from_fn(move || {
        let start = starts.next()?;
        let end = starts.peek().map_or(text.len(), |next| next - SEPARATOR.len());
        Some((start, text.get(start..end).unwrap_or_default()))
    })
}

/// Finds values of the parameters of URLs whose names say that they are secrets: `/a?key=secret&b=c`.
pub(super) fn find_parameters(text: &str, found: &mut Vec<Range<usize>>) {
    let is_of_name = |c: char| c.is_alphanumeric() || "-_.[]~%".contains(c);
    let mut masked = 0;
    for (at, _) in text.match_indices(['?', '&', ';', '#']) {
        if at < masked {
            continue;
        }
        let name = &text[at + 1..];
        let name = &name[..name.find(|c| !is_of_name(c)).unwrap_or(name.len())];
        let start = at + 1 + name.len() + 1;
        let Some(value) = text[start - 1..].strip_prefix('=').filter(|_| is_secret_name(name)) else { continue };
        if value.starts_with(['$', '{']) {
            continue;
        }
        let end = value.find(|c: char| c.is_whitespace() || "&;#,\"'`)}]".contains(c)).unwrap_or(value.len());
        masked = start + end;
        found.push(start..masked);
    }
}

/// Finds passwords in a list of servers without schemes, such as Ribbon's: `user:password@host:80`.
pub(super) fn find_servers(text: &str, found: &mut Vec<Range<usize>>) {
    if text.contains(SEPARATOR) {
        return;
    }
    let mut start = 0;
    for server in text.split(',') {
        found.extend(password(server).map(|range| start + range.start..start + range.end));
        start += server.len() + 1;
    }
}

/// Returns the password before the last `@` of a URL. The signs around it may be escaped. The `@` at the end of a placeholder of
/// Maven, `@name@`, is followed by neither a host nor a port, and ends none.
fn password(url: &str) -> Option<Range<usize>> {
    let url = url.to_ascii_lowercase();
    let (end, sign) = ["@", "%40"].iter().filter_map(|sign| Some((url.rfind(sign)?, sign))).max()?;
    let start = [":", "%3a"].iter().filter_map(|sign| url[..end].find(sign).map(|at| at + sign.len())).min()?;
    let begins_host = |c: char| c.is_alphanumeric() || "[${:_".contains(c);
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
    let ends_placeholder = !url[end + sign.len()..].starts_with(begins_host)
        && url[..end].rsplit_once('@').is_some_and(|(_, name)| is_name(name));
    (!ends_placeholder).then_some(start..end)
}
