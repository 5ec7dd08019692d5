//! `Date` of responses that hyper does not write.

use std::cell::Cell;
use std::time::SystemTime;

use http::HeaderValue;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

thread_local! {
    /// Date of the latest response, and its second.
    static LATEST_DATE: Cell<Option<(i64, HeaderValue)>> = const { Cell::new(None) };
}

/// Returns the current date as a field value (RFC 9110 §5.6.7).
pub(super) fn date() -> Option<HeaderValue> {
    let second = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs().try_into().ok()?;
    let latest = LATEST_DATE.take().filter(|(at, _)| *at == second);
    let value = match latest {
        Some((_, value)) => value,
        None => {
            let now = Timestamp::from_second(second).ok()?;
            let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&now).ok()?;
            HeaderValue::try_from(text).ok()?
        }
    };
    LATEST_DATE.set(Some((second, value.clone())));
    Some(value)
}
