//! Lines in JSON.

use serde::Deserialize as _;

use super::fields::{Fields, Value};
use super::log_entry::LogEntry;
use super::map::{Map, Slot};
use super::usual;

type Object = serde_json::Map<String, serde_json::Value>;

/// Parses a line.
///
/// # Errors
/// The line is no JSON object, or lacks a necessary field.
pub(super) fn parse(line: &[u8], map: &Map, fields: &mut Fields) -> Result<Box<LogEntry>, String> {
    // One check of the line costs less than one of each text in it.
    let text = std::str::from_utf8(line).map_err(|_| "no JSON object: the text is not UTF-8")?;
    fields.clear();
    fields.counts.begin(text, map);
    match usual::parse(text, map, fields) {
        Some(outcome) => {
            outcome?;
            finish(fields, map)
        }
        None => parse_any(text, map, fields),
    }
}

/// Parses a line of any form.
pub(super) fn parse_any(text: &str, map: &Map, fields: &mut Fields) -> Result<Box<LogEntry>, String> {
    fields.clear();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let object = Object::deserialize(&mut deserializer).map_err(|error| format!("no JSON object: {error}"))?;
    deserializer.end().map_err(|_| "text behind the JSON object".to_owned())?;
    set_fields("", object, map, fields)?;
    finish(fields, map)
}

/// Copies the values of an object as `map` says. `prefix` is the path of the object with a final dot; empty for the line. Returns
/// the first error.
fn set_fields(prefix: &str, object: Object, map: &Map, fields: &mut Fields) -> Result<(), &'static str> {
    // Lines of one logger mostly have their fields in one order.
    let (mut expected, mut outcome) = (0, Ok(()));
    for (name, value) in object {
        if let Some((position, slot)) = map.find(prefix, &name, expected) {
            expected = position + 1;
            fields.counts.count(position);
            let value = Value::from(value);
            if value != Value::Other {
                outcome = outcome.and(fields.set(slot, value));
            }
        } else if let serde_json::Value::Object(inner) = value {
            outcome = outcome.and(set_fields(&format!("{prefix}{name}."), inner, map, fields));
        }
    }
    outcome
}

/// Returns the entry of the fields of a line.
pub(super) fn finish(fields: &mut Fields, map: &Map) -> Result<Box<LogEntry>, String> {
    fields.finish().map_err(|missing| missing_field(missing, map))
}

/// Names the field that a line lacks.
fn missing_field(missing: &str, map: &Map) -> String {
    let slot = if missing == "no time" { Slot::Time } else { Slot::Target };
    match map.fields.iter().find(|(_, mapped)| *mapped == slot) {
        Some((field, _)) => format!("{missing}: there is no field `{field}`"),
        None => missing.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::log_entry::LoggedVerdict;
    use super::*;

    #[test]
    fn our_own_lines_are_read() {
        let line = br#"{"time":"2026-11-22T10:00:00.000007Z","client":"192.0.2.1","host":"a","method":"POST",
            "target":"/a?b","status":429,"route":"r","verdict":"denied","rule":"x","key":"k\u0001","remaining":0,
            "decided_us":[1795341600000042],"more":{"a":[1,{}]},"user_agent":"u"}"#;
        let entry = parse(line, &Map::default(), &mut Fields::default()).unwrap();
        assert_eq!((entry.time_us, entry.at().us), (1_795_341_600_000_007, 1_795_341_600_000_042));
        assert_eq!((entry.method.as_str(), &entry.target()[..]), ("POST", &b"/a?b"[..]));
        assert_eq!(entry.verdict, Some(LoggedVerdict::Denied));
        // No field value has such a key.
        assert_eq!((entry.keys.len(), entry.key_of("x"), entry.key_of("y")), (1, None, None));
        assert_eq!(entry.headers().next().unwrap().1, "u");
    }

    #[test]
    fn other_lines_are_read_through_a_map() {
        let map = Map::parse("time=ts,ip=http.remote,path=http.uri,query=http.q,header.x-key=key").unwrap();
        let line = br#"{"ts":1795341600.5,"http":{"remote":"192.0.2.1:55","uri":"/a","q":"b=c"},"key":7}"#;
        let entry = parse(line, &map, &mut Fields::default()).unwrap();
        assert_eq!((entry.time_us, &entry.target()[..]), (1_795_341_600_500_000, &b"/a?b=c"[..]));
        assert_eq!((entry.client, entry.headers().next().unwrap().1), ("192.0.2.1".parse().ok(), "7".parse().unwrap()));
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let map = Map::parse("time=ts,path=uri").unwrap();
        for (line, problem) in [
            (&b"{"[..], "no JSON object"),
            (b"[1]", "no JSON object"),
            (b"{} {}", "text behind the JSON object"),
            (br#"{"uri":"/"}"#, "no time: there is no field `ts`"),
            (br#"{"ts":1}"#, "no path: there is no field `uri`"),
            (br#"{"ts":"soon","uri":"/"}"#, "the time is not readable"),
            (br#"{"ts":9999999999999999,"uri":"/"}"#, "the time is not readable"),
            (b"{\"ts\":1,\"uri\":\"\xff\"}", "no JSON object"),
        ] {
            let error = parse(line, &map, &mut Fields::default()).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
