//! Number of the lines that have, or lack, each field of `--map`.

use serde::Serialize;
use serde_json::Value;

use super::map::Map;

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
