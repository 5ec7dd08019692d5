//! Reading of a whole tree and of the fields of its maps, with all errors in one run.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use serde::Deserializer;
use serde::de::{DeserializeOwned, Error, Visitor};

use crate::de::deserializer::{Context, De};
use crate::de::error::{DeError, HELP};
use crate::diagnostics::{Diagnostics, Reported, UnknownKey};
use crate::yaml::{Node, Span};

/// Maximum number of errors of values, after which reading stops.
const MAX_PROBLEMS: usize = 100;

/// Reads `node` as a `T`, reports its errors and returns its unknown keys.
pub(crate) fn read<T: DeserializeOwned + Default>(node: &Node, diagnostics: &mut Diagnostics) -> (T, Vec<UnknownKey>) {
    let reading = read_all::<T>(node, diagnostics);
    match reading.value {
        Ok(value) => (value, reading.unknown),
        Err(error) => {
            report(error.span.unwrap_or(node.span), &error.message, diagnostics);
            (T::default(), Vec::new())
        }
    }
}

/// Reads the struct `T` from `node`: an argument that may be absent is an `Option` or has a default. Reports values of the
/// wrong type, and returns the struct without them with the proof; calls `report_unknown` for each unknown key, and
/// `report_missing` for a required field that is absent.
///
/// # Errors
/// There is no struct: a required field is absent or wrong.
pub(crate) fn read_struct<T: DeserializeOwned>(
    node: &Node,
    diagnostics: &mut Diagnostics,
    report_unknown: impl Fn(&UnknownKey, &mut Diagnostics),
    report_missing: impl Fn(&str, &mut Diagnostics) -> Reported,
) -> Result<(T, Option<Reported>), Reported> {
    let reading = read_all::<T>(node, diagnostics);
    reading.unknown.iter().for_each(|unknown| report_unknown(unknown, diagnostics));
    match (reading.value, reading.reported) {
        (Ok(value), reported) => Ok((value, reported)),
        (Err(_), Some(reported)) => Err(reported),
        (Err(DeError { missing: Some(field), .. }), None) => Err(report_missing(field, diagnostics)),
        (Err(error), None) => Err(report(error.span.unwrap_or(node.span), &error.message, diagnostics)),
    }
}

/// Result of [`read_all`].
struct Reading<T> {
    /// The value, or an error of the whole node, which is not reported.
    value: Result<T, DeError>,
    unknown: Vec<UnknownKey>,
    /// Set if a value has the wrong type, which is reported.
    reported: Option<Reported>,
}

/// Reads `node` as a `T`. Reports values of the wrong type, and reads on without them.
fn read_all<T: DeserializeOwned>(node: &Node, diagnostics: &mut Diagnostics) -> Reading<T> {
    let mut blank = HashSet::new();
    let mut reported = None;
    loop {
        let context = Context {
            blank: &blank,
            unknown: RefCell::default(),
            path: RefCell::default(),
            bare_millis: RefCell::default(),
            found: RefCell::default(),
            lacks_values: Cell::default(),
            around: Cell::default(),
        };
        let value = T::deserialize(De { node, context: &context });
        let (found, unknown, bare_millis) = (context.found.take(), context.unknown.take(), context.bare_millis.take());
        match value {
            Err(DeError { message, span: Some(span), .. })
                if span != node.span && blank.len() < MAX_PROBLEMS && blank.insert(identity(span)) =>
            {
                reported = Some(report(span, &message, diagnostics));
            }
            value => {
                let mut warned = HashSet::new();
                for (span, name, number) in bare_millis {
                    if warned.insert(identity(span)) {
                        warn_of_bare_millis(&name, number, span, diagnostics);
                    }
                }
                for (span, message) in found {
                    reported = Some(report(span, &message, diagnostics));
                }
                return Reading { value, unknown, reported };
            }
        }
    }
}

/// Warns of a `number` without a unit, which is milliseconds.
pub(crate) fn warn_of_bare_millis(name: &str, number: u64, at: Span, diagnostics: &mut Diagnostics) {
    diagnostics
        .warn(at, format!("`{name}: {number}` is {number} ms: a bare number is milliseconds"))
        .help(format!("write `{number}s`, or `{number}ms` to keep it"));
}

/// Reports the error of a value, with its help.
fn report(span: Span, message: &str, diagnostics: &mut Diagnostics) -> Reported {
    match message.split_once(HELP) {
        Some((message, help)) => diagnostics.error(span, message).reported_with(help),
        None => diagnostics.error(span, message).reported(),
    }
}

/// Returns the node of a span, and which argument of a shortcut it is.
pub(super) fn identity(span: Span) -> (u32, u8) {
    (span.node, span.argument)
}

/// Returns the names of the fields of the struct `T`, in their order.
pub(crate) fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // The struct is not read: its names are all that is asked for.
    let _ = T::deserialize(Fields(&mut names));
    names
}

/// Deserializer that keeps the names of the fields of a struct.
struct Fields<'f>(&'f mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, DeError> {
        Err(DeError::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
