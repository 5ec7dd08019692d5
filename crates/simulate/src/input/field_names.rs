//! Number of the lines that have, or lack, each field of `--map`.

use serde::Serialize;
use serde_json::Value;

use crate::input::map::Map;

/// Number of first lines whose fields are listed.
const SHOWN_LINES: u64 = 3;
/// Number of fields that are listed.
const SHOWN_FIELDS: usize = 40;

/// Field of `--map` that lines lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LackingField {
    /// Name in the log.
    pub field: String,
    /// JSON lines without it.
    pub lacking: u64,
    /// JSON lines.
    pub lines: u64,
}

/// Number of the lines that have each field of a map.
#[derive(Debug, Default)]
pub(super) struct FieldCounts {
    /// Lines that were read.
    lines: u64,
    /// By position in the map: number of the latest line with the field, and of all such lines.
    fields: Vec<(u64, u64)>,
    /// Fields of the first lines.
    sample_names: Vec<String>,
}

impl FieldCounts {
    /// Begins a line.
    pub(super) fn begin(&mut self, line: &str, map: &Map) {
        self.lines += 1;
        if self.lines <= SHOWN_LINES && !map.is_tollgate_format() {
            self.fields.resize(map.fields.len(), (0, 0));
            add_names("", &serde_json::from_str(line).unwrap_or_default(), &mut self.sample_names);
        }
    }

    /// Counts that the line has the field at `position`.
    #[inline]
    pub(super) fn count(&mut self, position: usize) {
        if let Some((latest, lines)) = self.fields.get_mut(position) {
            *lines += u64::from(*latest != self.lines);
            *latest = self.lines;
        }
    }

    /// Returns the fields of `map` that lines of `all` logs lack, and the fields of their first lines.
    pub(super) fn lacking<'p>(
        all: impl Iterator<Item = &'p Self> + Clone,
        map: &Map,
    ) -> (Vec<LackingField>, Vec<String>) {
        let lines = all.clone().map(|counts| counts.lines).sum();
        let mut sample_names: Vec<String> = Vec::new();
        for name in all.clone().flat_map(|counts| &counts.sample_names) {
            if !sample_names.contains(name) && sample_names.len() < SHOWN_FIELDS {
                sample_names.push(name.clone());
            }
        }
        if map.is_tollgate_format() {
            return (Vec::new(), sample_names);
        }
        let mut fields: Vec<LackingField> = Vec::new();
        for (position, (field, _)) in map.fields.iter().enumerate() {
            let present = all.clone().filter_map(|counts| counts.fields.get(position)).map(|(_, lines)| lines);
            let lacking = LackingField { field: field.clone(), lacking: lines - present.sum::<u64>(), lines };
            // The first of several items with one field is counted.
            if lacking.lacking > 0 && map.fields.iter().position(|(other, _)| other == field) == Some(position) {
                fields.push(lacking);
            }
        }
        (fields, sample_names)
    }
}

/// Adds the names of the fields of an object, with those of objects in it.
fn add_names(prefix: &str, object: &Value, names: &mut Vec<String>) {
    let Value::Object(fields) = object else { return };
    for (name, value) in fields {
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(_) => add_names(&format!("{name}."), value, names),
            _ if names.contains(&name) || names.len() >= SHOWN_FIELDS => {}
            _ => names.push(name),
        }
    }
}

/// Upper bound of the names that are kept.
const MAX_NAMES: usize = 64;

/// Names of fields, each with the one that followed it last.
#[derive(Debug, Default)]
pub(super) struct FieldNames {
    names: Vec<FieldName>,
    /// Position of the first name of a line.
    first: usize,
}

/// Name of a field.
#[derive(Debug)]
struct FieldName {
    /// The name with its quotes and the colon.
    text: Box<str>,
    field: Field,
    /// Position of the name that followed last.
    next: usize,
}

/// Field of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Position among the names; `None` if it is not kept.
    name: Option<usize>,
    /// Position in the map; `None` for a field without a meaning.
    pub(super) slot: Option<usize>,
}

impl FieldNames {
    /// Returns the field that `rest` begins with, if it is the expected one behind `previous`, and the length of its name
    /// with quotes and colon.
    #[inline]
    pub(super) fn expected(&self, previous: Option<Field>, rest: &[u8]) -> Option<(Field, usize)> {
        let position = match previous {
            None => self.first,
            Some(field) => self.names.get(field.name?)?.next,
        };
        let expected = self.names.get(position)?;
        rest.starts_with(expected.text.as_bytes()).then_some((expected.field, expected.text.len()))
    }

    /// Returns the field `name`, which follows `previous`, and expects it there in the next line.
    pub(super) fn find(&mut self, previous: Option<Field>, name: &str, map: &Map) -> Field {
        let is_same = |kept: &FieldName| kept.text.len() == name.len() + 3 && kept.text[1..].starts_with(name);
        let position = self.names.iter().position(is_same).or_else(|| {
            (self.names.len() < MAX_NAMES).then(|| {
                let position = self.names.len();
                let field = Field { name: Some(position), slot: map.find_flat(name) };
                let text: Box<str> = format!("\"{name}\":").into();
                self.names.push(FieldName { text, field, next: usize::MAX });
                position
            })
        });
        let Some(position) = position else { return Field { name: None, slot: map.find_flat(name) } };
        match previous {
            None => self.first = position,
            Some(Field { name: Some(previous), .. }) => self.names[previous].next = position,
            Some(Field { name: None, .. }) => {}
        }
        self.names[position].field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_expected_where_it_was_last() {
        let map = Map::parse("time=ts,path=uri").unwrap();
        let mut names = FieldNames::default();
        assert_eq!(names.expected(None, b"\"ts\":1"), None);
        let time = names.find(None, "ts", &map);
        let other = names.find(Some(time), "level", &map);
        let path = names.find(Some(other), "uri", &map);
        assert_eq!((time.slot, other.slot, path.slot), (Some(0), None, Some(1)));
        assert_eq!(names.expected(None, b"\"ts\":1"), Some((time, 5)));
        assert_eq!(names.expected(Some(time), b"\"level\":1"), Some((other, 8)));
        assert_eq!(names.expected(Some(time), b"\"levels\":1"), None);
        assert_eq!(names.expected(Some(time), b"\"level\" :1"), None, "left to the search");
        // A line without the field in between.
        assert_eq!(names.find(Some(time), "uri", &map), path);
        assert_eq!(names.expected(Some(time), b"\"uri\":1"), Some((path, 6)));
        assert_eq!(names.expected(Some(path), b"\"ts\":1"), None);
    }

    #[test]
    fn names_are_compared_whole() {
        let map = Map::parse("time=ts,path=uri").unwrap();
        for length in 1..=30 {
            let mut names = FieldNames::default();
            let name = "n".repeat(length);
            let field = names.find(None, &name, &map);
            let line = format!("\"{name}\":1").into_bytes();
            assert_eq!(names.expected(None, &line), Some((field, length + 3)));
            for at in 0..length + 3 {
                let mut other = line.clone();
                other[at] = b'm';
                assert_eq!(names.expected(None, &other), None, "{at} of {length}");
            }
        }
    }

    #[test]
    fn many_names_are_looked_up_and_not_kept() {
        let map = Map::parse("time=ts,path=uri").unwrap();
        let mut names = FieldNames::default();
        for number in 0..1000 {
            assert_eq!(names.find(None, &format!("f{number}"), &map).slot, None);
        }
        let field = names.find(None, "uri", &map);
        assert_eq!((field.slot, names.names.len()), (Some(1), MAX_NAMES));
        assert_eq!((names.expected(Some(field), b"\"f1\":"), names.find(Some(field), "f1", &map).slot), (None, None));
    }
}
