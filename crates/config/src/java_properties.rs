//! Java's `.properties` files, as Spring Boot reads them.
//!
//! The grammar is that of `java.util.Properties`: comments with `#` and `!`, separators `=`, `:` and blanks, escapes, and
//! lines that a backslash continues. Spring Boot adds documents between lines `#---` or `!---`, and lists: `key[]=a,b`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::yaml::key::canonical;
use crate::yaml::{Node, NodeKind, Place, Places};

/// One property, with the 1-based position of its key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Property {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) key_at: (usize, usize),
    pub(crate) value_at: (usize, usize),
}

/// Malformed `\u` escape, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadEscape {
    pub(crate) at: (usize, usize),
}

/// Returns the text of a file: ISO-8859-1 as in Spring Boot, or UTF-8 if `is_utf8`. `None` if it is not UTF-8 then.
pub(crate) fn decode(bytes: &[u8], is_utf8: bool) -> Option<String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if is_utf8 {
        String::from_utf8(bytes.to_vec()).ok()
    } else {
        Some(bytes.iter().map(|byte| char::from(*byte)).collect())
    }
}

/// Returns the properties of each document of `text`. An error is the first escape `\u` without four digits.
pub(crate) fn parse(text: &str) -> Result<Vec<Vec<Property>>, BadEscape> {
    let mut documents = vec![Vec::new()];
    let lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let content = line.trim_start_matches(BLANKS);
        if content.is_empty() || content.starts_with(['#', '!']) {
            if is_separator(&lines, at) {
                documents.push(Vec::new());
            }
            at += 1;
            continue;
        }
        let logical = LogicalLine::read(&lines, at);
        at += logical.lines;
        if let Some(document) = documents.last_mut() {
            property(&logical, document)?;
        }
    }
    Ok(documents)
}

/// Returns the documents of `text` as maps with dotted keys. Adds their nodes to `places`.
pub(crate) fn nodes(text: &str, file: usize, places: &mut Places) -> Result<Vec<Node>, BadEscape> {
    let documents = parse(text)?;
    let nodes = documents.into_iter().enumerate().map(|(document, properties)| {
        let span = places.push(Place { file, document, path: Vec::new() });
        let mut entries: Vec<(String, Node)> = Vec::with_capacity(properties.len());
        let mut positions: HashMap<String, usize> = HashMap::new();
        for (number, property) in properties.into_iter().enumerate() {
            let path = vec![u32::try_from(number).unwrap_or(u32::MAX)];
            let span = places.push(Place { file, document, path });
            let node = Node { span, kind: NodeKind::Scalar(property.value) };
            // The last one counts, as in Java.
            match positions.entry(canonical(&property.key)) {
                Entry::Occupied(position) => entries[*position.get()].1 = node,
                Entry::Vacant(position) => {
                    position.insert(entries.len());
                    entries.push((property.key, node));
                }
            }
        }
        Node { span, kind: NodeKind::Map(entries) }
    });
    Ok(nodes.collect())
}

/// Characters that separate without being line ends.
const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// Returns true if the line at `at` separates documents: it has no blank in front, and no comment beside it.
fn is_separator(lines: &[&str], at: usize) -> bool {
    let line = lines[at].trim_end_matches(BLANKS);
    let Some(sign) = ["#---", "!---"].iter().find(|known| **known == line).and_then(|known| known.chars().next())
    else {
        return false;
    };
    let is_comment = |line: Option<&&str>| line.is_some_and(|line| line.starts_with(sign));
    !is_comment(at.checked_sub(1).and_then(|before| lines.get(before))) && !is_comment(lines.get(at + 1))
}

/// Line with those that continue it: its characters, each with its position.
struct LogicalLine {
    chars: Vec<(char, (usize, usize))>,
    /// Number of lines of the file.
    lines: usize,
    end: (usize, usize),
}

impl LogicalLine {
    fn read(lines: &[&str], first: usize) -> Self {
        let mut logical = Self { chars: Vec::new(), lines: 0, end: (first + 1, 1) };
        for (index, line) in lines.iter().enumerate().skip(first) {
            logical.lines += 1;
            let content = line.trim_start_matches(BLANKS);
            let indent = line.chars().count() - content.chars().count();
            let backslashes = content.chars().rev().take_while(|c| *c == '\\').count();
            let is_continued = backslashes % 2 == 1;
            let length = content.chars().count() - usize::from(is_continued);
            let placed = content.chars().take(length).enumerate();
            logical.chars.extend(placed.map(|(column, c)| (c, (index + 1, indent + column + 1))));
            logical.end = (index + 1, indent + length + 1);
            if !is_continued {
                break;
            }
        }
        logical
    }

    fn at(&self, index: usize) -> (usize, usize) {
        self.chars.get(index).map_or(self.end, |(_, at)| *at)
    }
}

/// Adds the property of a line; several ones for `key[]=a,b`.
fn property(line: &LogicalLine, into: &mut Vec<Property>) -> Result<(), BadEscape> {
    let mut index = 0;
    let key = text(line, &mut index, &|c| BLANKS.contains(&c) || c == '=' || c == ':')?;
    skip(line, &mut index, &BLANKS);
    if line.chars.get(index).is_some_and(|(c, _)| ['=', ':'].contains(c)) {
        index += 1;
        skip(line, &mut index, &BLANKS);
    }
    let key_at = line.at(0);
    let Some(list) = key.strip_suffix("[]") else {
        let value_at = line.at(index);
        let value = text(line, &mut index, &|_| false)?;
        into.push(Property { key, value, key_at, value_at });
        return Ok(());
    };
    for number in 0.. {
        let value_at = line.at(index);
        let value = text(line, &mut index, &|c| c == ',')?;
        into.push(Property { key: format!("{list}[{number}]"), value, key_at, value_at });
        if index >= line.chars.len() {
            break;
        }
        index += 1;
        skip(line, &mut index, &BLANKS);
    }
    Ok(())
}

fn skip(line: &LogicalLine, index: &mut usize, signs: &[char]) {
    while line.chars.get(*index).is_some_and(|(c, _)| signs.contains(c)) {
        *index += 1;
    }
}

/// Reads a key or value from `index` on, up to a character that `ends` it, with its escapes resolved.
fn text(line: &LogicalLine, index: &mut usize, ends: &dyn Fn(char) -> bool) -> Result<String, BadEscape> {
    // Java's texts are UTF-16: an escape may be half of a character.
    let mut units: Vec<u16> = Vec::new();
    while let Some((c, at)) = line.chars.get(*index).copied().filter(|(c, _)| !ends(*c)) {
        *index += 1;
        let c = match (c, line.chars.get(*index)) {
            ('\\', Some((escaped, _))) => {
                *index += 1;
                match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'f' => '\u{c}',
                    'u' => {
                        let digits: String = line.chars.iter().skip(*index).take(4).map(|(c, _)| *c).collect();
                        let is_hex = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                        let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| is_hex).ok_or(BadEscape { at })?;
                        *index += 4;
                        units.push(unit);
                        continue;
                    }
                    other => *other,
                }
            }
            _ => c,
        };
        units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    }
    Ok(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pairs(text: &str) -> Vec<Vec<(String, String)>> {
        let pair = |property: Property| (property.key, property.value);
        parse(text).unwrap().into_iter().map(|document| document.into_iter().map(pair).collect()).collect()
    }

    fn of(text: &str) -> String {
        let documents = pairs(text);
        let shown = documents.iter().map(|document| {
            let pairs: Vec<String> = document.iter().map(|(key, value)| format!("{key}→{value}")).collect();
            pairs.join("; ")
        });
        shown.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn separators_are_signs_or_blanks() {
        assert_eq!(of("a=1\nb:2\nc 3\nd = 4\ne\t:\t5\n  f  6  \n"), "a→1; b→2; c→3; d→4; e→5; f→6  ");
        assert_eq!(of("a==1\nb=:2\nc\nd=\n=e\n"), "a→=1; b→:2; c→; d→; →e");
        assert_eq!(of("# no\n ! no\n\na=#b\r\nc=d\r\n"), "a→#b; c→d");
    }

    #[test]
    fn escapes_are_javas() {
        assert_eq!(of(r"a\ b\:c\=d=\t\n\\\q\u00e9\uD83D\uDE00"), "a b:c=d→\t\n\\qé😀");
        assert_eq!(parse("x=1\n y=\\u12").unwrap_err().at, (2, 4));
        assert_eq!(parse("y=\\u+123").unwrap_err().at, (1, 3));
        assert_eq!(of("a=\\ud800"), "a→\u{fffd}");
    }

    #[test]
    fn a_backslash_continues_a_line() {
        assert_eq!(of("a=b,\\\n   c\\\\\nd=e\\\n"), "a→b,c\\; d→e");
        assert_eq!(of("a=b\\\n# c\n"), "a→b# c", "a continued line is no comment");
        let found = parse("\n  key = \\\n    value").unwrap();
        assert_eq!((found[0][0].key_at, found[0][0].value_at), ((2, 3), (3, 5)));
    }

    #[test]
    fn documents_are_separated_by_a_bare_comment_of_hyphens() {
        assert_eq!(of("a=1\n#---\nb=2\n!---\nc=3\n"), "a→1 | b→2 | c→3");
        assert_eq!(of("a=1\n # x\n #---\nb=2\n#----\nc=3\n# x\n#---\nd=4\n#---\n# x\ne=5"), "a→1; b→2; c→3; d→4; e→5");
    }

    #[test]
    fn a_list_may_stand_in_one_line() {
        assert_eq!(of("a[]=x, y,z"), "a[0]→x; a[1]→y; a[2]→z");
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let mut places = Places::default();
        let nodes = nodes("my-key=1\nmyKey=2", 0, &mut places).unwrap();
        let NodeKind::Map(entries) = &nodes[0].kind else { unreachable!() };
        assert_eq!((entries.len(), entries[0].1.scalar()), (1, Some("2")));
    }

    #[test]
    fn bytes_are_latin_1_unless_told_otherwise() {
        assert_eq!(decode(b"a=\xe9", false).unwrap(), "a=é");
        assert_eq!(decode("a=é".as_bytes(), false).unwrap(), "a=Ã©");
        assert_eq!(decode("\u{feff}a=é".as_bytes(), true).unwrap(), "a=é");
        assert_eq!(decode(b"a=\xe9", true), None);
    }
}
