//! Trace context of Zipkin: B3, in the field `b3` or in several fields `X-B3-…`.

use http::header::HeaderValue;
use http::{HeaderMap, HeaderName};

use crate::trace_context::{CallerContext, TraceContext};

/// Field of the context in one.
const B3: HeaderName = HeaderName::from_static("b3");
const TRACE_ID: HeaderName = HeaderName::from_static("x-b3-traceid");
const SPAN_ID: HeaderName = HeaderName::from_static("x-b3-spanid");
const PARENT: HeaderName = HeaderName::from_static("x-b3-parentspanid");
const SAMPLED: HeaderName = HeaderName::from_static("x-b3-sampled");
const FLAGS: HeaderName = HeaderName::from_static("x-b3-flags");

/// Fields of the context in several.
pub(crate) static FIELDS: [HeaderName; 5] = [TRACE_ID, SPAN_ID, PARENT, SAMPLED, FLAGS];
/// Field of the context in one, as a list.
pub(crate) static FIELD: [HeaderName; 1] = [B3];

/// Reads `b3`: `TRACE-SPAN`, `TRACE-SPAN-DECISION`, `TRACE-SPAN-DECISION-PARENT`, or a decision alone.
pub(crate) fn single(headers: &HeaderMap) -> Option<CallerContext> {
    let value = only(headers, &B3).ok()??;
    let mut parts = value.split('-');
    let (first, span_id) = (parts.next()?, parts.next());
    let (decision, parent) = (parts.next(), parts.next());
    let Some(span_id) = span_id else {
        return Some(CallerContext { ids: None, is_sampled: Some(self::decision(first)?), is_random: false });
    };
    let is_valid = parent.is_none_or(|parent| id(parent, &[16]).is_some()) && parts.next().is_none();
    let ids = ids(first, span_id)?;
    let is_sampled = match decision {
        Some(decision) => Some(self::decision(decision)?),
        None => None,
    };
    is_valid.then_some(CallerContext { ids: Some(ids), is_sampled, is_random: false })
}

/// Reads the fields `X-B3-…`.
pub(crate) fn several(headers: &HeaderMap) -> Option<CallerContext> {
    let [trace_id, span_id, sampled, flags] = [TRACE_ID, SPAN_ID, SAMPLED, FLAGS].map(|name| only(headers, &name));
    let is_sampled = match (sampled.ok()?, flags.ok()?) {
        (_, Some("1")) | (Some("true"), _) => Some(true),
        (Some("false"), _) => Some(false),
        (Some(sampled), _) => Some(decision(sampled)?),
        (None, _) => None,
    };
    let ids = match (trace_id.ok()?, span_id.ok()?) {
        (Some(trace_id), Some(span_id)) => Some(ids(trace_id, span_id)?),
        (None, None) => None,
        _ => return None,
    };
    (ids.is_some() || is_sampled.is_some()).then_some(CallerContext { ids, is_sampled, is_random: false })
}

/// Writes the field `b3`.
pub(crate) fn write_single(headers: &mut HeaderMap, context: &TraceContext) {
    let sampled = u8::from(context.is_sampled);
    insert(headers, B3, &format!("{:032x}-{:016x}-{sampled}", context.trace_id, context.span_id));
}

/// Writes the fields `X-B3-…`.
pub(crate) fn write_several(headers: &mut HeaderMap, context: &TraceContext) {
    FIELDS.iter().for_each(|name| drop(headers.remove(name)));
    insert(headers, TRACE_ID, &format!("{:032x}", context.trace_id));
    insert(headers, SPAN_ID, &format!("{:016x}", context.span_id));
    insert(headers, SAMPLED, if context.is_sampled { "1" } else { "0" });
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // Digits and dashes are always a valid value.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Several fields of one name, or one that is no text.
struct Unusable;

/// Returns the field `name`, if there is one.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Unusable> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Unusable),
        (Some(_), Some(_)) => Err(Unusable),
    }
}

/// Reads the decision of the caller; `d` asks for a trace to debug.
fn decision(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" | "d" => Some(true),
        _ => None,
    }
}

fn ids(trace_id: &str, span_id: &str) -> Option<(u128, u64)> {
    Some((id(trace_id, &[16, 32])?, u64::try_from(id(span_id, &[16])?).ok()?))
}

/// Reads an id of one of these lengths, never 0.
fn id(text: &str, lengths: &[usize]) -> Option<u128> {
    let is_hex = lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|id| is_hex && *id != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";
    const IDS: Option<(u128, u64)> = Some((0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331));

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_str(value).unwrap_or_else(|_| HeaderValue::from_static("")));
        }
        headers
    }

    #[test]
    fn one_field_has_ids_and_a_decision_or_one_of_them() {
        let read = |value: &str| single(&headers(&[(B3, value)]));
        let short = Some((0x8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331));
        for (value, ids, is_sampled) in [
            (format!("{TRACE}-{SPAN}-1"), IDS, Some(true)),
            (format!("{TRACE}-{SPAN}-0-05e3ac9a4f6e3b90"), IDS, Some(false)),
            (format!("{TRACE}-{SPAN}-d"), IDS, Some(true)),
            (format!("{TRACE}-{SPAN}"), IDS, None),
            (format!("{}-{SPAN}-1", &TRACE[16..]), short, Some(true)),
            ("0".to_owned(), None, Some(false)),
        ] {
            assert_eq!(read(&value), Some(CallerContext { ids, is_sampled, is_random: false }), "{value}");
        }
        let zeros = format!("{}-{SPAN}-1", "0".repeat(32));
        let long = format!("{TRACE}-{SPAN}-1-{SPAN}-x");
        for value in [
            "",
            "2",
            "a-b",
            "-",
            TRACE,
            &zeros,
            &long,
            &format!("{TRACE}-{SPAN}-x"),
            &format!("+{}-{SPAN}", &TRACE[1..]),
        ] {
            assert_eq!(read(value), None, "{value}");
        }
        assert_eq!(single(&headers(&[(B3, "0"), (B3, "1")])), None, "which of the two is the caller?");
    }

    #[test]
    fn several_fields_have_ids_and_a_decision_or_one_of_them() {
        let ids = [(TRACE_ID, TRACE), (SPAN_ID, SPAN)];
        let read = |further: &[(HeaderName, &str)]| several(&headers(&[&ids[..], further].concat()));
        for (further, is_sampled) in [
            (&[][..], None),
            (&[(SAMPLED, "1")], Some(true)),
            (&[(SAMPLED, "false")], Some(false)),
            (&[(FLAGS, "1")], Some(true)),
            (&[(SAMPLED, "0"), (PARENT, SPAN)], Some(false)),
        ] {
            assert_eq!(read(further), Some(CallerContext { ids: IDS, is_sampled, is_random: false }), "{further:?}");
        }
        assert_eq!(read(&[(SAMPLED, "perhaps")]), None);
        let decision = several(&headers(&[(SAMPLED, "0")]));
        assert_eq!(decision, Some(CallerContext { ids: None, is_sampled: Some(false), is_random: false }));
        assert_eq!(several(&headers(&ids[..1])), None, "a trace without a span");
        assert_eq!(several(&HeaderMap::new()), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for is_sampled in [true, false] {
            let context = TraceContext { trace_id: 0x8448, span_id: 7, is_sampled, is_random: true };
            let expected =
                Some(CallerContext { ids: Some((0x8448, 7)), is_sampled: Some(is_sampled), is_random: false });
            let mut headers = headers(&[(FLAGS, "1"), (PARENT, SPAN)]);
            write_single(&mut headers, &context);
            write_several(&mut headers, &context);
            assert_eq!((single(&headers), several(&headers)), (expected, expected));
        }
    }
}
