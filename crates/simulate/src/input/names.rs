//! Names of the fields of a log, in the order in which its lines have them.
//!
//! A logger writes its fields in one order, of which a line leaves out some. The name that followed another one last time is
//! compared first, so that most names of a line are neither searched nor looked up.

use super::map::Map;

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
    #![allow(clippy::unwrap_used)]
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
