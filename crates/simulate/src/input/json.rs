//! Lines in JSON.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::fields::{Fields, Value};
use super::log_entry::LogEntry;
use super::map::{Map, Slot};
use super::usual;

/// Parses a line.
///
/// # Errors
/// The line is no JSON object, or lacks a necessary field.
pub(super) fn parse(line: &[u8], map: &Map, fields: &mut Fields) -> Result<Box<LogEntry>, String> {
    // One check of the line costs less than one of each text in it.
    let text = std::str::from_utf8(line).map_err(|_| "no JSON object: the text is not UTF-8")?;
    fields.clear();
    fields.presence.begin(text, map);
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
    let mut problem = None;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let object = Object { map, prefix: "", fields, problem: &mut problem };
    object.deserialize(&mut deserializer).map_err(|error| format!("no JSON object: {error}"))?;
    deserializer.end().map_err(|_| "text behind the JSON object".to_owned())?;
    match problem {
        Some(problem) => Err(problem.to_owned()),
        None => finish(fields, map),
    }
}

/// Returns the entry of the fields of a line.
pub(super) fn finish(fields: &mut Fields, map: &Map) -> Result<Box<LogEntry>, String> {
    fields.finish().map_err(|missing| missing_field(missing, map))
}

/// Names the field that a line lacks.
fn missing_field(missing: &str, map: &Map) -> String {
    let slot = if missing == "no time" { Slot::Time } else { Slot::Target };
    match map.fields.iter().find(|(_, known)| *known == slot) {
        Some((field, _)) => format!("{missing}: there is no field `{field}`"),
        None => missing.to_owned(),
    }
}

/// Object whose fields are copied as the map says.
struct Object<'m> {
    map: &'m Map,
    /// Path of the object with a final dot; empty for the line.
    prefix: &'m str,
    fields: &'m mut Fields,
    problem: &'m mut Option<&'static str>,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        // Lines of one logger mostly have their fields in one order.
        let mut expected = 0;
        while let Some(Name(name)) = access.next_key()? {
            if let Some((position, slot)) = self.map.find(self.prefix, &name, expected) {
                expected = position + 1;
                self.fields.presence.note(position);
                let value = access.next_value_seed(Any)?;
                if value != Value::Other
                    && let Err(error) = self.fields.set(slot, value)
                {
                    self.problem.get_or_insert(error);
                }
                continue;
            }
            // Our own lines are flat.
            let inner = if self.map.is_own() { String::new() } else { format!("{}{name}.", self.prefix) };
            if !inner.is_empty() && self.map.fields.iter().any(|(field, _)| field.starts_with(&inner)) {
                let (fields, problem) = (&mut *self.fields, &mut *self.problem);
                access.next_value_seed(Object { map: self.map, prefix: &inner, fields, problem })?;
            } else {
                access.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Name of a field, borrowed from the line unless it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Any value.
struct Any;

impl<'de> DeserializeSeed<'de> for Any {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value<'de>, E> {
        Ok(Value::Whole(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value<'de>, E> {
        Ok(Value::Number(number))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = access.next_element_seed(Self)? {
            if let Value::Whole(number) = value {
                list.push(number);
            }
        }
        Ok(Value::List(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(name) = access.next_key::<String>()? {
            if let Value::Text(text) = access.next_value_seed(Self)? {
                pairs.push((name, text.into_owned()));
            }
        }
        Ok(Value::Pairs(pairs))
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
