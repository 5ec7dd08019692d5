//! Statuses by number or by Spring's constant names.

use http::StatusCode;

/// Names of Spring's `HttpStatus` that differ from the registered reason phrase.
const OTHER_NAMES: [(&str, u16); 7] = [
    ("movedtemporarily", 302),
    ("requestentitytoolarge", 413),
    ("contenttoolarge", 413),
    ("requesturitoolong", 414),
    ("iamateapot", 418),
    ("unprocessablecontent", 422),
    ("bandwidthlimitexceeded", 509),
];

/// Parses a status: `429`, `TOO_MANY_REQUESTS` or `too-many-requests`.
pub(crate) fn parse_status(text: &str) -> Result<StatusCode, String> {
    let text = text.trim();
    if let Ok(number) = text.parse::<u16>() {
        // Non-standard numbers are accepted, as in Spring. A 1xx is rejected: it is never a final response.
        return match StatusCode::from_u16(number) {
            Ok(status) if number >= 200 => Ok(status),
            _ => Err(format!("expected a status from 200 to 999, found `{text}`")),
        };
    }
    let name = normalized(text);
    OTHER_NAMES
        .iter()
        .find(|(other, _)| *other == name)
        .map(|(_, number)| *number)
        .or_else(|| (200..600).find(|n| reason(*n).is_some_and(|r| normalized(r) == name)))
        .and_then(|number| StatusCode::from_u16(number).ok())
        .ok_or_else(|| format!("expected a status such as `429` or `TOO_MANY_REQUESTS`, found `{text}`"))
}

fn reason(number: u16) -> Option<&'static str> {
    StatusCode::from_u16(number).ok()?.canonical_reason()
}

fn normalized(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_status_is_a_number_or_a_name() {
        for (text, number) in
            [("429", 429), ("TOO_MANY_REQUESTS", 429), ("bad-gateway", 502), ("I_AM_A_TEAPOT", 418), ("480", 480)]
        {
            assert_eq!(parse_status(text).unwrap().as_u16(), number, "{text}");
        }
        for text in ["", "99", "100", "1000", "TOO_MANY", "-1"] {
            assert!(parse_status(text).is_err(), "{text}");
        }
    }
}
