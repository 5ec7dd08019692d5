//! Times in logs.

use jiff::Timestamp;

/// Reader of times. Lines of one second share all but the fraction of it.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Text of the latest second.
    second: String,
    /// Microseconds since 1970 at its start.
    start_us: u64,
}

/// Length of `2026-11-22T10:00:00`.
const SECOND: usize = 19;
/// Format of Apache and nginx: `22/Nov/2026:10:00:00 +0000`.
const COMMON: &str = "%d/%b/%Y:%H:%M:%S %z";

impl Clock {
    /// Parses a time as text: RFC 3339, the format of Apache and nginx, which may lack the zone, or a number. Returns
    /// microseconds since 1970.
    pub(super) fn parse(&mut self, text: &str) -> Option<u64> {
        self.rfc3339_utc(text).or_else(|| self.common(text)).or_else(|| match text.parse() {
            Ok(number) => from_number(number),
            Err(_) => microseconds(text.parse().ok()?),
        })
    }

    /// Parses RFC 3339 with `Z`, at a fraction of the cost of other forms.
    fn rfc3339_utc(&mut self, text: &str) -> Option<u64> {
        let (second, rest) = text.split_at_checked(SECOND)?;
        let fraction = rest.strip_suffix('Z')?;
        let start_us = self.start_us(second, || format!("{second}Z").parse().ok())?;
        let Some(digits) = fraction.strip_prefix('.') else { return fraction.is_empty().then_some(start_us) };
        let digits = digits.get(..6).unwrap_or(digits);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let count = u32::try_from(digits.len()).ok().filter(|_| is_number)?;
        Some(start_us + digits.parse::<u64>().ok()? * 10_u64.pow(6 - count))
    }

    fn common(&mut self, text: &str) -> Option<u64> {
        let parse = |text: &str| Timestamp::strptime(COMMON, text);
        let read = || parse(text).or_else(|_| parse(&format!("{text} +0000"))).ok();
        text.contains('/').then(|| self.start_us(text, read))?
    }

    /// Returns the start of a second, which is read if the latest one has another `text`.
    fn start_us(&mut self, text: &str, read: impl FnOnce() -> Option<Timestamp>) -> Option<u64> {
        if text != self.second {
            self.start_us = microseconds(read()?)?;
            text.clone_into(&mut self.second);
        }
        Some(self.start_us)
    }
}

fn microseconds(time: Timestamp) -> Option<u64> {
    u64::try_from(time.as_microsecond()).ok()
}

/// Reads a number as seconds, milliseconds, microseconds or nanoseconds since 1970, by its size.
pub(super) fn from_number(number: f64) -> Option<u64> {
    let factor = match number {
        n if !(0.0..1e20).contains(&n) => return None,
        n if n < 1e11 => 1e6,
        n if n < 1e14 => 1e3,
        n if n < 1e17 => 1.0,
        _ => 1e-3,
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above")]
    Some((number * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<u64> {
        Clock::default().parse(text)
    }

    #[test]
    fn times_of_common_loggers_are_read() {
        let expected = 1_795_341_600_000_000;
        for text in [
            "2026-11-22T10:00:00Z",
            "2026-11-22T11:00:00+01:00",
            "22/Nov/2026:10:00:00 +0000",
            "22/Nov/2026:05:00:00 -0500",
            "1795341600",
            "1795341600.000",
            "1795341600000",
            "1795341600000000",
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        assert_eq!(parse("2026-11-22T10:00:00.000042Z"), Some(expected + 42));
        assert_eq!(parse("2026-12-31T23:59:60.999999Z"), parse("2026-12-31T23:59:60.9999990Z"));
        for text in ["2026-11-22T24:00:00.000042Z", "2026-11-22T10:00:00.00004xZ", "2026-11-32T10:00:00.000042Z"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("2026-11-22T10:00:00.5Z"), Some(expected + 500_000));
        assert_eq!(parse("2024-02-29T00:00:00Z"), Some(1_709_164_800_000_000));
        let mut clock = Clock::default();
        for text in [
            "2026-11-22T10:00:00.000042Z",
            "2026-11-22T10:00:00.999999Z",
            "2026-11-22T10:00:01.000000Z",
            "2026-11-22T10:00:01.00000xZ",
            "2026-11-22T10:00:61.000000Z",
            "2026-11-22T10:00:61.000001Z",
            "2026-11-22T10:00:01.5Z",
            "2026-11-22T11:00:01.000000+01:00",
            "1795341600",
            "",
        ] {
            assert_eq!(clock.parse(text), parse(text), "{text}");
        }
        for text in
            ["", "-", "yesterday", "2026-13-01T00:00:00Z", "22/Nov/2026", "-5", "NaN", "99/Nov/2026:10:00:00 +0000"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
