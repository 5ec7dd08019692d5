//! Secrets that are recognized by other parts of the file: key ids in lists and tables, values below a secret key, and
//! values beside a secret name.

use std::net::IpAddr;
use std::ops::Range;

use super::lines::FileLines;
use super::{block_end, entries, flow_end, is_secret_key, is_variable};

/// YAML keys whose values are key ids of clients, such as API keys.
const KEY_LISTS: [&str; 2] = ["exempt", "block"];
/// YAML key of a map from key ids to plans.
const TABLE: &str = "table";

/// Kind of the value of a YAML key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    /// List of key ids.
    KeyList,
    /// Map from key ids to plans.
    Table,
    /// Secret, such as a password.
    Secret,
    Other,
}

/// Adds to `found` the secrets on the line at `at`: key ids in lists and tables, and a secret whose YAML key is on an
/// earlier line.
pub(super) fn find(lines: &FileLines<'_>, at: usize, found: &mut Vec<Range<usize>>) {
    let line = lines.line(at);
    for (start, key) in keys(line) {
        let value = &line[start..];
        match key_kind(key) {
            ValueKind::KeyList => items(line, start..start + value_end(line, value), found),
            ValueKind::Table if value.starts_with('{') => table(line, start..start + value_end(line, value), found),
            _ => {}
        }
    }
    let text = line.trim_start();
    let start = line.len() - text.len();
    let start = start + text.strip_prefix("- ").map_or(0, |item| text.len() - item.trim_start().len());
    let end = start + line[start..].find(" #").unwrap_or(line.len() - start);
    match enclosing_kind(lines, at) {
        ValueKind::KeyList => items(line, start..end, found),
        ValueKind::Table => table(line, start..end, found),
        ValueKind::Secret if keys(line).next().is_none() => found.push(trimmed(line, start..end)),
        ValueKind::Secret | ValueKind::Other => {}
    }
}

/// Returns the YAML keys of a line, each with the column of its value.
fn keys(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.match_indices(':').filter_map(move |(colon, _)| {
        let after = &line[colon + 1..];
        let key = line[..colon].trim_end_matches(['"', '\'']).rsplit(['{', ',', ' ', '\t', '"', '\'']).next()?;
        let is_key = after.is_empty() || after.starts_with([' ', '\t']);
        is_key.then(|| (colon + 1 + (after.len() - after.trim_start().len()), key))
    })
}

/// Returns the kind of the value of `key`, which may be a property name with indexes, such as `exempt[0]`.
fn key_kind(key: &str) -> ValueKind {
    let last = key.rsplit('.').next().unwrap_or(key);
    let last = last.split('[').next().unwrap_or(last);
    match last {
        last if KEY_LISTS.contains(&last) => ValueKind::KeyList,
        TABLE => ValueKind::Table,
        _ if is_secret_key(last) => ValueKind::Secret,
        _ => ValueKind::Other,
    }
}

/// Returns the kind of the value that contains the line at `at`, if its YAML key is on an earlier line.
fn enclosing_kind(lines: &FileLines<'_>, at: usize) -> ValueKind {
    let Some(line) = lines.parent(at) else { return ValueKind::Other };
    // The last key whose value continues on the next line.
    let open = keys(line).filter(|(start, _)| {
        let value = line[*start..].trim();
        value.is_empty()
            || value.starts_with(['#', '>', '|'])
            || value.starts_with(['[', '{']) && block_end(value).is_none()
    });
    open.last().map_or(ValueKind::Other, |(_, key)| key_kind(key))
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

/// Adds the items of a list or of a comma-separated text, except addresses, networks and placeholders.
fn items(line: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut start = range.start;
    for item in line[range].split(',') {
        let place = trimmed(line, start..start + item.len());
        let text = &line[place.clone()];
        if !text.is_empty() && !is_block_scalar_header(text) && !is_network(text) && !is_variable(text) {
            found.push(place);
        }
        start += item.len() + 1;
    }
}

/// Adds the keys of a map, which are key ids.
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

/// Returns `range` without enclosing brackets, quotes and whitespace.
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

/// Returns true for the header of a block scalar, whose text is on the following lines.
fn is_block_scalar_header(text: &str) -> bool {
    matches!(text, ">" | ">-" | ">+" | "|" | "|-" | "|+")
}

fn is_network(text: &str) -> bool {
    let address = text.split('/').next().unwrap_or(text);
    let has_form = text.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':' | b'/'));
    has_form && (text.contains('/') || address.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use crate::diagnostics::secrets::{FileLines, UnknownNames, mask_line, mask_message};

    fn masked(text: &str) -> String {
        let lines = FileLines::of(text);
        (0..lines.all().len()).map(|at| mask_line(&lines, at, &UnknownNames::default())).collect::<Vec<_>>().join("\n")
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
        let lines = FileLines::of("exempt:\n  - abc\n  - 10.0.0.0/99");
        let message =
            |at| mask_message("`abc` is no network; `10.0.0.0/99` neither", &lines, Some(at), &UnknownNames::default());
        assert_eq!(message(1), "`****` is no network; `10.0.0.0/99` neither");
        assert_eq!(message(2), "`abc` is no network; `10.0.0.0/99` neither");
    }
}
