//! Access-log line of a request, from its head.

use std::rc::Rc;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::handler::ConnectionInfo;
use crate::instrumentation::access_log::{AccessLog, Details, LogLine};
use crate::instrumentation::record::Record;

/// `traceparent` field (W3C Trace Context).
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Starts the line of a request with the head as received.
pub(super) fn start(log: &Rc<AccessLog>, head: &Parts, connection: &ConnectionInfo, record: &mut Record) {
    let target = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut line = LogLine::new(connection.peer.ip(), target, head.version, &head.headers);
    if log.has_details() {
        let host = || HeaderValue::from_str(head.uri.authority()?.as_str()).ok();
        line.details = Some(Details {
            host: head.headers.get(HOST).cloned().or_else(host),
            tls: connection.tls_version,
            traceparent: valid_traceparent(&head.headers).cloned(),
            request_id: record.request_id().map(|id| id.value().clone()),
            upload: None,
            detail: None,
            facts: Some(Box::default()),
        });
    }
    record.logged(Rc::clone(log), line);
}

/// Returns the only `traceparent` field if its trace id and parent id are valid. A later version may have more fields.
fn valid_traceparent(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let (only, None) = (values.next()?, values.next()) else { return None };
    let text = only.as_bytes();
    let (fixed, rest) = text.split_at_checked(55)?;
    let parts: Vec<&[u8]> = fixed.split(|byte| *byte == b'-').collect();
    let [version, trace_id, parent_id, flags] = parts[..] else { return None };
    let is_hex =
        |part: &[u8], length| part.len() == length && part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == b'0');
    let has_form = is_hex(version, 2) && is_hex(trace_id, 32) && is_hex(parent_id, 16) && is_hex(flags, 2);
    let ends = rest.is_empty() || (version != b"00" && rest[0] == b'-');
    (has_form && ends && version != b"ff" && !is_zero(trace_id) && !is_zero(parent_id)).then_some(only)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_a_valid_traceparent_counts() {
        let is_valid = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            values.iter().for_each(|value| {
                headers.append(TRACEPARENT, value.parse().unwrap());
            });
            valid_traceparent(&headers).is_some()
        };
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(is_valid(&[valid]) && is_valid(&[&valid.replacen("00", "cc", 1)]));
        assert!(is_valid(&[&format!("cc{}-more", &valid[2..])]));
        for invalid in [
            "",
            "00",
            &valid.to_uppercase(),
            &valid.replacen("00", "ff", 1),
            &format!("{valid}-more"),
            &format!("{valid}0"),
            &valid.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &valid.replace("b7ad6b7169203331", &"0".repeat(16)),
            &valid.replace("-01", "-0g"),
        ] {
            assert!(!is_valid(&[invalid]), "{invalid}");
        }
        assert!(!is_valid(&[valid, valid]));
    }
}
