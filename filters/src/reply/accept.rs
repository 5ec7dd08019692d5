//! Content negotiation between a problem (RFC 9457) and plain text.

use http::HeaderMap;
use http::header::ACCEPT;

/// Returns true if `Accept` names JSON or problem JSON, and does not prefer plain text (RFC 9110 §12.5.1).
///
/// Wildcards do not count: a client that accepts anything gets the text that a person can read.
#[must_use]
pub fn prefers_problem(headers: &HeaderMap) -> bool {
    let (mut json, mut text) = (0, 0);
    // Comparing the few names of a head costs less than a look-up.
    let values = headers.iter().filter(|(name, _)| *name == ACCEPT).map(|(_, value)| value.as_bytes());
    for range in values.flat_map(|value| value.split(|b| *b == b',')) {
        let mut fields = range.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let name = fields.next().unwrap_or_default();
        let best = if name.eq_ignore_ascii_case(b"application/json")
            || name.eq_ignore_ascii_case(b"application/problem+json")
        {
            &mut json
        } else if name.eq_ignore_ascii_case(b"text/plain") {
            &mut text
        } else {
            continue;
        };
        *best = (*best).max(fields.find_map(quality).unwrap_or(1000));
    }
    json > 0 && json >= text
}

/// Returns the value of a `q=0.5` parameter in thousandths, `None` for any other parameter.
fn quality(parameter: &[u8]) -> Option<u32> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else { return None };
    let (whole, fraction) = value.split_first().unwrap_or((&b'0', &[]));
    if *whole == b'1' {
        return Some(1000);
    }
    let digits = fraction.strip_prefix(b".").unwrap_or_default();
    let digit = |at: usize| digits.get(at).filter(|d| d.is_ascii_digit()).map_or(0, |d| u32::from(d - b'0'));
    Some(digit(0) * 100 + digit(1) * 10 + digit(2))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_client_that_names_json_prefers_a_problem() {
        for (accept, expected) in [
            ("application/json", true),
            ("Application/Problem+JSON", true),
            ("application/json, text/plain, */*", true),
            ("text/plain, application/json;q=0.5", false),
            ("text/plain;q=0.4, application/json; q=0.5", true),
            ("application/json;q=0", false),
            ("application/json;q=0.000", false),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false),
            ("*/*", false),
            ("", false),
            (";;,,q=,application/json;q", true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(prefers_problem(&headers), expected, "{accept}");
        }
        assert!(!prefers_problem(&HeaderMap::new()));
    }
}
