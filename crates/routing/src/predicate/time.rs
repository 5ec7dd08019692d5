//! The moments of `After`, `Before` and `Between`.

use std::fmt;

use jiff::Timestamp;

use super::PredicateError;

/// A moment, to the millisecond, shown as it was written.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    written: Box<str>,
    epoch_ms: i64,
}

// === impl Moment ===

impl Moment {
    pub(super) fn parse(written: &str) -> Result<Self, PredicateError> {
        let epoch_ms = match written.parse() {
            Ok(epoch_ms) => epoch_ms,
            Err(_) => zoned(written).ok_or_else(|| PredicateError::Datetime { text: written.to_owned() })?,
        };
        Ok(Self { written: written.into(), epoch_ms })
    }

    /// Milliseconds since 1970.
    pub(super) fn epoch_ms(&self) -> i64 {
        self.epoch_ms
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// Reads a date-time with an offset. The offset alone says which moment is meant, in Java as well, so the zone after it
/// is passed over.
fn zoned(text: &str) -> Option<i64> {
    let without_zone = match text.split_once('[') {
        Some((before, zone)) if zone.len() > 1 && zone.find(']') == Some(zone.len() - 1) => before,
        Some(_) => return None,
        None => text,
    };
    without_zone.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}
