//! Secrets whose key stands on an earlier line: items of lists, tables by key, and values beside a name.

use std::net::IpAddr;
use std::ops::Range;

use super::{block_end, entries, flow_end, is_secret_key, is_variable, names_secret};

/// Keys whose values are key ids of clients, such as API keys.
const KEY_LISTS: [&str; 2] = ["exempt", "block"];
/// Key of a table whose keys are key ids.
const TABLE: &str = "table";

/// Meaning of a line by the key that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parent {
    /// Items of a list of keys.
    KeyList,
    /// Entries of a table by key.
    Table,
    /// Parts of a secret.
    Secret,
    Other,
}

/// Finds keys in lists and tables on the line at `at`.
pub(super) fn find(lines: &[&str], at: usize, found: &mut Vec<Range<usize>>) {
    let line = lines[at];
    for (start, key) in keys(line) {
        let value = &line[start..];
        match key_kind(key) {
            Parent::KeyList => items(line, start..start + value_end(line, value), found),
            Parent::Table if value.starts_with('{') => table(line, start..start + value_end(line, value), found),
            _ => {}
        }
    }
    let text = line.trim_start();
    let start = line.len() - text.len();
    let start = start + text.strip_prefix("- ").map_or(0, |item| text.len() - item.trim_start().len());
    let end = start + line[start..].find(" #").unwrap_or(line.len() - start);
    match parent(lines, at) {
        Parent::KeyList => items(line, start..end, found),
        Parent::Table => table(line, start..end, found),
        Parent::Secret if keys(line).next().is_none() => found.push(trimmed(line, start..end)),
        Parent::Secret | Parent::Other => {}
    }
}

/// Returns true if a line of the same block names a secret: `name: X-Token` beside `value: secret`.
pub(super) fn has_secret_sibling(lines: &[&str], at: usize) -> bool {
    let Some(indent) = indent(lines[at]) else { return false };
    let in_block = |line: &&&str| self::indent(line).is_none_or(|other| other >= indent);
    let above = lines[..at].iter().rev().take_while(in_block);
    let below = lines[at + 1..].iter().take_while(in_block);
    above.chain(below).any(|line| self::indent(line) == Some(indent) && names_secret(line))
}

/// Returns the keys of a line, each with the start of its value.
fn keys(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.match_indices(':').filter_map(move |(colon, _)| {
        let after = &line[colon + 1..];
        let key = line[..colon].trim_end_matches(['"', '\'']).rsplit(['{', ',', ' ', '\t', '"', '\'']).next()?;
        let is_key = after.is_empty() || after.starts_with([' ', '\t']);
        is_key.then(|| (colon + 1 + (after.len() - after.trim_start().len()), key))
    })
}

/// Returns the meaning of the values of `key`. Properties have indexes: `exempt[0]`.
fn key_kind(key: &str) -> Parent {
    let last = key.rsplit('.').next().unwrap_or(key);
    let last = last.split('[').next().unwrap_or(last);
    match last {
        last if KEY_LISTS.contains(&last) => Parent::KeyList,
        TABLE => Parent::Table,
        _ if is_secret_key(last) => Parent::Secret,
        _ => Parent::Other,
    }
}

/// Returns the meaning of the line at `at` by the nearest line that it is a part of.
fn parent(lines: &[&str], at: usize) -> Parent {
    let Some(own) = lines.get(at).and_then(|line| structure(line)) else { return Parent::Other };
    let is_item = lines[at].trim_start().starts_with('-');
    let mut above = lines[..at].iter().rev().filter_map(|line| Some((line, structure(line)?)));
    let is_parent = |(line, indent): &(&&str, usize)| {
        *indent < own || is_item && *indent == own && !line.trim_start().starts_with('-')
    };
    let Some((line, _)) = above.find(is_parent) else { return Parent::Other };
    // The last key whose value goes on behind the line.
    let open = keys(line).filter(|(start, _)| {
        let value = line[*start..].trim();
        value.is_empty()
            || value.starts_with(['#', '>', '|'])
            || value.starts_with(['[', '{']) && block_end(value).is_none()
    });
    open.last().map_or(Parent::Other, |(_, key)| key_kind(key))
}

/// Returns the indentation of a line with content.
fn structure(line: &str) -> Option<usize> {
    let text = line.trim_start();
    (!text.is_empty() && !text.starts_with('#')).then(|| line.len() - text.len())
}

/// Returns the column of the first key or value of a line, behind the mark of a list.
fn indent(line: &str) -> Option<usize> {
    let start = structure(line)?;
    let text = &line[start..];
    Some(start + text.strip_prefix("- ").map_or(0, |item| text.len() - item.trim_start().len()))
}

/// Returns the length of the value at the start of `value`, a part of `line`.
fn value_end(line: &str, value: &str) -> usize {
    if value.starts_with(['[', '{']) {
        return block_end(value).map_or(value.len(), |end| end + 1);
    }
    let in_flow = line[..line.len() - value.len()].contains('{');
    let end = if in_flow { flow_end(value) } else { None };
    end.into_iter().chain(value.find(" #")).min().unwrap_or(value.len())
}

/// Adds the items of a list or of a text with commas. Networks and addresses are no secrets.
fn items(line: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut start = range.start;
    for item in line[range].split(',') {
        let place = trimmed(line, start..start + item.len());
        let text = &line[place.clone()];
        if !text.is_empty() && !is_block_mark(text) && !is_network(text) && !is_variable(text) {
            found.push(place);
        }
        start += item.len() + 1;
    }
}

/// Adds the keys of a table.
fn table(line: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let values: Vec<Range<usize>> = entries(line).map(|(_, value)| value).collect();
    let mut start = range.start;
    for entry in line[range].split(',') {
        // Keys may contain colons, so the last colon separates key and value.
        let key_end = values.iter().rfind(|value| (start..=start + entry.len()).contains(&value.start));
        let key_end = key_end.map_or(start + entry.len(), |value| value.start);
        let text = line[start..key_end].trim_end_matches(['"', '\'', ' ']).trim_end_matches(':');
        let place = trimmed(line, start..start + text.len());
        if !place.is_empty() {
            found.push(place);
        }
        start += entry.len() + 1;
    }
}

/// Returns the place without brackets, quotes and space around it.
fn trimmed(line: &str, range: Range<usize>) -> Range<usize> {
    let around = ['[', ']', '{', '}', '"', '\'', ' ', '\t'];
    let text = &line[range.clone()];
    // The braces of a placeholder belong to it.
    let end = if text.contains("${") {
        text.trim_end_matches([']', '"', '\'', ' ', '\t'])
    } else {
        text.trim_end_matches(around)
    };
    let start = end.trim_start_matches(around);
    range.start + (end.len() - start.len())..range.start + end.len()
}

/// Returns true for the mark of a text on the following lines.
fn is_block_mark(text: &str) -> bool {
    matches!(text, ">" | ">-" | ">+" | "|" | "|-" | "|+")
}

fn is_network(text: &str) -> bool {
    let address = text.split('/').next().unwrap_or(text);
    let has_form = text.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':' | b'/'));
    has_form && (text.contains('/') || address.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use crate::diagnostics::secrets::{UnknownNames, mask_line, mask_message};

    fn masked(text: &str) -> String {
        let lines: Vec<&str> = text.lines().collect();
        (0..lines.len()).map(|at| mask_line(&lines, at, &UnknownNames::default())).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn keys_in_lists_are_masked() {
        for (text, shown) in [
            ("exempt: [abc, 'd e', 10.0.0.0/8]", "exempt: [***, '***', 10.0.0.0/8]"),
            ("args: {exempt: [abc, d], block: [e], rate: 1}", "args: {exempt: [***, *], block: [*], rate: 1}"),
            ("args: {block: abc, rate: 1}", "args: {block: ***, rate: 1}"),
            ("  block: abc, def # note", "  block: ***, *** # note"),
            (
                "exempt:\n  - abc # one\n  # two\n  - 'd e'\nrate: 1",
                "exempt:\n  - *** # one\n  # two\n  - '***'\nrate: 1",
            ),
            ("  exempt:\n  - abc\n  - ::1\n  rate: x", "  exempt:\n  - ***\n  - ::1\n  rate: x"),
            ("exempt: [abc,\n  def,\n  g]\nrate: 1", "exempt: [***,\n  ***,\n  *]\nrate: 1"),
            ("args: {exempt: [abc], block: [\n  def]}", "args: {exempt: [***], block: [\n  ***]}"),
            ("exempt: >-\n  abc,\n  def", "exempt: >-\n  ***,\n  ***"),
            ("filters[0].args.exempt[0]: abc", "filters[0].args.exempt[0]: ***"),
            ("exempt: [${KEY}, ${KEY:abc}]", "exempt: [${KEY}, **********]"),
            ("table: {abc: gold, 'd e': silver}", "table: {***: gold, '***': silver}"),
            ("table:\n  abc: gold\n  'd:e': silver\ncache: 5s", "table:\n  ***: gold\n  '***': silver\ncache: 5s"),
            ("plan-resolver: {table: {\n  abc: gold}}", "plan-resolver: {table: {\n  ***: gold}}"),
            ("password:\n  abc", "password:\n  ***"),
            ("password: |\n  abc def", "password: *\n  *******"),
            ("args:\n  name: X-Token\n  value: abc", "args:\n  name: X-Token\n  value: ***"),
            ("- regexp: abc\n  name: X-Token", "- regexp: ***\n  name: X-Token"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }

    #[test]
    fn other_lists_are_shown() {
        for text in [
            "predicates:\n  - Path=/a",
            "filters:\n  - name: RequestRateLimiter\n    args:\n      exempt: []\n      rate: 1",
            "credentials:\n  username: gateway",
            "args:\n  name: X-Token\n  status: 401\nother:\n  value: a",
            "tokens: [{name: ops, role: write}]",
        ] {
            assert_eq!(masked(text), text);
        }
    }

    #[test]
    fn messages_do_not_repeat_a_key() {
        let lines = ["exempt:", "  - abc", "  - 10.0.0.0/99"];
        let message =
            |at| mask_message("`abc` is no network; `10.0.0.0/99` neither", &lines, Some(at), &UnknownNames::default());
        assert_eq!(message(1), "`****` is no network; `10.0.0.0/99` neither");
        assert_eq!(message(2), "`abc` is no network; `10.0.0.0/99` neither");
    }
}
