//! Times in header fields.

#[cfg(feature = "retry")]
use std::time::{Duration, SystemTime};

/// Parses a date in one of the three formats of RFC 9110 §5.6.7, to seconds since 1970.
pub(crate) fn parse_date(date: &str) -> Option<i64> {
    if let Ok(zoned) = jiff::fmt::rfc2822::parse(date) {
        return Some(zoned.timestamp().as_second());
    }
    let civil = jiff::civil::DateTime::strptime("%A, %d-%b-%y %H:%M:%S GMT", date)
        .or_else(|_| jiff::civil::DateTime::strptime("%a %b %e %H:%M:%S %Y", date))
        .ok()?;
    civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp().as_second())
}

/// Returns the time from `now` that `Retry-After` names, in seconds or as a date (RFC 9110 §10.2.3). A date in the past is zero.
#[cfg(feature = "retry")]
pub(crate) fn retry_after(headers: &http::HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(parse_date(text)?).ok()?);
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(all(test, feature = "retry"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let at = |text: &str| {
            let headers = http::HeaderMap::from_iter([(http::header::RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 60))
        };
        assert_eq!([at("0"), at(" 7 ")], [Some(Duration::ZERO), Some(Duration::from_secs(7))]);
        assert_eq!(at("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(at("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(at("Sun, 06 Nov 1994 08:40:00 GMT"), Some(Duration::ZERO));
        assert_eq!([at(""), at("-1"), at("soon"), at("1.5")], [None; 4]);
    }
}
