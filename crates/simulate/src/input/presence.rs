//! Fields of a map that lines have or lack.

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
pub(super) struct Presence {
    /// Lines that were read.
    lines: u64,
    /// By position in the map: number of the latest line with the field, and of all such lines.
    fields: Vec<(u64, u64)>,
    /// Fields of the first lines.
    first: Vec<String>,
}

impl Presence {
    /// Begins a line.
    pub(super) fn begin(&mut self, line: &str, map: &Map) {
        self.lines += 1;
        if self.lines <= SHOWN_LINES && !map.is_own() {
            self.fields.resize(map.fields.len(), (0, 0));
            add_names("", &serde_json::from_str(line).unwrap_or_default(), &mut self.first);
        }
    }

    /// Notes that the line has the field at `position`.
    #[inline]
    pub(super) fn note(&mut self, position: usize) {
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
        let lines = all.clone().map(|presence| presence.lines).sum();
        let mut first: Vec<String> = Vec::new();
        for name in all.clone().flat_map(|presence| &presence.first) {
            if !first.contains(name) && first.len() < SHOWN_FIELDS {
                first.push(name.clone());
            }
        }
        if map.is_own() {
            return (Vec::new(), first);
        }
        let mut fields: Vec<LackingField> = Vec::new();
        for (position, (field, _)) in map.fields.iter().enumerate() {
            let present = all.clone().filter_map(|presence| presence.fields.get(position)).map(|(_, lines)| lines);
            let lacking = LackingField { field: field.clone(), lacking: lines - present.sum::<u64>(), lines };
            // The first of several items with one field is counted.
            if lacking.lacking > 0 && map.fields.iter().position(|(other, _)| other == field) == Some(position) {
                fields.push(lacking);
            }
        }
        (fields, first)
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
