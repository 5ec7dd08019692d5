//! Java's `.properties` files, as Spring Boot reads them.
//!
//! The grammar is that of `java.util.Properties`: comments with `#` and `!`, separators `=`, `:` and blanks, escapes, and
//! lines that a backslash continues. Spring Boot adds documents between lines `#---` or `!---`, and lists: `key[]=a,b`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use crate::yaml::key::canonical;
use crate::yaml::{self, Bytes, Node, NodeKind, Parsed, Problem, Span, Unused};

/// One property, with the bytes of its key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Property {
    key: String,
    value: String,
    key_at: Range<usize>,
    value_at: Range<usize>,
}

/// Malformed `\u` escape, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEscape(pub usize);

/// Line of a file and its position.
type Line<'t> = (usize, &'t str);

/// Returns the text of a file: ISO-8859-1 as in Spring Boot, or UTF-8 if `is_utf8`. `None` if it is not UTF-8 then.
pub fn decode(bytes: &[u8], is_utf8: bool) -> Option<String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if is_utf8 {
        String::from_utf8(bytes.to_vec()).ok()
    } else {
        Some(bytes.iter().map(|byte| char::from(*byte)).collect())
    }
}

/// Returns the properties of each document of `text`. An error is the first escape `\u` without four digits.
fn parse(text: &str) -> Result<Vec<Vec<Property>>, BadEscape> {
    let mut documents = vec![Vec::new()];
    let lines: Vec<Line<'_>> = yaml::lines(text).collect();
    let mut at = 0;
    while let Some((_, line)) = lines.get(at) {
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

/// Returns the documents of `text` as maps with dotted keys. Of two equal keys the last one counts, as in Java, with a warning.
pub fn read(text: &str, file: usize) -> Result<Parsed, BadEscape> {
    let mut parsed = Parsed::default();
    for properties in parse(text)? {
        let first = properties.first().map_or(0, |property| property.key_at.start);
        let last = properties.last().map_or(0, |property| property.value_at.end);
        let span = Span::new(file, Bytes::new(first..last));
        let mut entries: Vec<(String, Node)> = Vec::with_capacity(properties.len());
        let mut positions: HashMap<String, usize> = HashMap::new();
        for property in properties {
            let span = Span::new(file, Bytes::new(property.value_at)).keyed(Bytes::new(property.key_at));
            let node = Node { span, kind: NodeKind::Scalar(property.value) };
            match positions.entry(canonical(&property.key)) {
                Entry::Occupied(position) => {
                    let (key, earlier) = &mut entries[*position.get()];
                    parsed.warnings.push(Problem {
                        at: node.span.key(),
                        message: format!("duplicate key `{}`: the last one counts, as in Java", property.key),
                        help: Some("remove one of the two, or join their values".to_owned()),
                        first: Some(earlier.span.key()),
                    });
                    let earlier = std::mem::replace(earlier, node);
                    parsed.unused.push(Unused { above: String::new(), entry: (key.clone(), earlier) });
                }
                Entry::Vacant(position) => {
                    position.insert(entries.len());
                    entries.push((property.key, node));
                }
            }
        }
        parsed.documents.push(Node { span, kind: NodeKind::Map(entries) });
    }
    Ok(parsed)
}

/// Characters that separate without being line ends.
const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// Returns true if the line at `at` separates documents: it has no blank in front, and no comment beside it.
fn is_separator(lines: &[Line<'_>], at: usize) -> bool {
    let line = lines[at].1.trim_end_matches(BLANKS);
    let Some(sign) = ["#---", "!---"].iter().find(|known| **known == line).and_then(|known| known.chars().next())
    else {
        return false;
    };
    let is_comment = |line: Option<&Line<'_>>| line.is_some_and(|(_, line)| line.starts_with(sign));
    !is_comment(at.checked_sub(1).and_then(|before| lines.get(before))) && !is_comment(lines.get(at + 1))
}

/// Line with those that continue it: its characters, each with its position.
struct LogicalLine {
    chars: Vec<(char, usize)>,
    /// Number of lines of the file.
    lines: usize,
    end: usize,
}

impl LogicalLine {
    fn read(lines: &[Line<'_>], first: usize) -> Self {
        let mut logical = Self { chars: Vec::new(), lines: 0, end: 0 };
        for (start, line) in &lines[first..] {
            logical.lines += 1;
            let content = line.trim_start_matches(BLANKS);
            let start = start + line.len() - content.len();
            let backslashes = content.chars().rev().take_while(|c| *c == '\\').count();
            let is_continued = backslashes % 2 == 1;
            let content = &content[..content.len() - usize::from(is_continued)];
            logical.chars.extend(content.char_indices().map(|(at, c)| (c, start + at)));
            logical.end = start + content.len();
            if !is_continued {
                break;
            }
        }
        logical
    }

    /// Returns the bytes of the characters `from..to`.
    fn bytes(&self, from: usize, to: usize) -> Range<usize> {
        let start = self.chars.get(from).map_or(self.end, |(_, at)| *at);
        let last = to.checked_sub(1).and_then(|last| self.chars.get(last));
        start..last.map_or(start, |(c, at)| at + c.len_utf8()).max(start)
    }
}

/// Adds the property of a line; several ones for `key[]=a,b`.
fn property(line: &LogicalLine, into: &mut Vec<Property>) -> Result<(), BadEscape> {
    let mut index = 0;
    let key = text(line, &mut index, &|c| BLANKS.contains(&c) || c == '=' || c == ':')?;
    let key_at = line.bytes(0, index);
    skip(line, &mut index, &BLANKS);
    if line.chars.get(index).is_some_and(|(c, _)| ['=', ':'].contains(c)) {
        index += 1;
        skip(line, &mut index, &BLANKS);
    }
    let Some(list) = key.strip_suffix("[]") else {
        let from = index;
        let value = text(line, &mut index, &|_| false)?;
        into.push(Property { key, value, key_at, value_at: line.bytes(from, index) });
        return Ok(());
    };
    for number in 0.. {
        let from = index;
        let value = text(line, &mut index, &|c| c == ',')?;
        let (key, key_at) = (format!("{list}[{number}]"), key_at.clone());
        into.push(Property { key, value, key_at, value_at: line.bytes(from, index) });
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
                        let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| is_hex).ok_or(BadEscape(at))?;
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
        assert_eq!(of("# no\ra=b\\\r  c\r#---\rd=e\r"), "a→bc | d→e");
    }

    #[test]
    fn escapes_are_javas() {
        assert_eq!(of(r"a\ b\:c\=d=\t\n\\\q\u00e9\uD83D\uDE00"), "a b:c=d→\t\n\\qé😀");
        assert_eq!(parse("x=1\n y=\\u12").unwrap_err().0, 7);
        assert_eq!(parse("y=\\u+123").unwrap_err().0, 2);
        assert_eq!(of("a=\\ud800"), "a→\u{fffd}");
    }

    #[test]
    fn a_backslash_continues_a_line() {
        assert_eq!(of("a=b,\\\n   c\\\\\nd=e\\\n"), "a→b,c\\; d→e");
        assert_eq!(of("a=b\\\n# c\n"), "a→b# c", "a continued line is no comment");
        let found = parse("\n  key = \\\n    value").unwrap();
        assert_eq!((found[0][0].key_at.clone(), found[0][0].value_at.clone()), (3..6, 15..20));
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
        let parsed = read("my-key=1\nmyKey=2", 0).unwrap();
        let entries = parsed.documents[0].entries().unwrap();
        assert_eq!((entries.len(), entries[0].1.scalar()), (1, Some("2")));
        assert_eq!((parsed.unused[0].entry.1.scalar(), parsed.warnings.len()), (Some("1"), 1));
    }

    #[test]
    fn bytes_are_latin_1_unless_told_otherwise() {
        assert_eq!(decode(b"a=\xe9", false).unwrap(), "a=é");
        assert_eq!(decode("a=é".as_bytes(), false).unwrap(), "a=Ã©");
        assert_eq!(decode("\u{feff}a=é".as_bytes(), true).unwrap(), "a=é");
        assert_eq!(decode(b"a=\xe9", true), None);
    }
}
