//! Times in logs.

/// Reader of times. Lines of one second share all but the fraction of it.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Date and time of day of the latest time with `Z`.
    second: String,
    /// Microseconds since 1970 at its start.
    start_us: u64,
}

/// Length of `2026-11-22T10:00:00`.
const SECOND: usize = 19;

impl Clock {
    /// Parses a time as text: RFC 3339, the format of Apache and nginx (`22/Nov/2026:10:00:00 +0000`), or a number.
    /// Returns microseconds since 1970.
    pub(super) fn parse(&mut self, text: &str) -> Option<u64> {
        self.rfc3339_utc(text).or_else(|| common(text)).or_else(|| match text.parse() {
            Ok(number) => from_number(number),
            Err(_) => u64::try_from(text.parse::<jiff::Timestamp>().ok()?.as_microsecond()).ok(),
        })
    }

    /// Parses RFC 3339 with `Z`, at a fraction of the cost of other forms.
    fn rfc3339_utc(&mut self, text: &str) -> Option<u64> {
        let (second, rest) = text.split_at_checked(SECOND)?;
        let fraction_us = match rest.strip_suffix('Z')? {
            "" => 0,
            fraction => {
                let shown = fraction.strip_prefix('.')?;
                let shown = shown.get(..6).unwrap_or(shown);
                digits(shown)? * 10_u64.pow(6 - u32::try_from(shown.len()).ok()?)
            }
        };
        if second != self.second {
            self.start_us = second_us(second)?;
            second.clone_into(&mut self.second);
        }
        Some(self.start_us + fraction_us)
    }
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

/// Returns the microseconds since 1970 at the start of a second, such as `2026-11-22T10:00:00`.
fn second_us(text: &str) -> Option<u64> {
    let (date, clock) = text.split_once('T')?;
    let mut parts = date.splitn(3, '-');
    let days = days(digits(parts.next()?)?, digits(parts.next()?)?, digits(parts.next()?)?)?;
    Some((days * 86_400 + time_of_day(clock)?) * 1_000_000)
}

/// Parses `22/Nov/2026:10:00:00 +0100`.
fn common(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once(':')?;
    let mut parts = date.split('/');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let (clock, zone) = rest.split_once(' ').unwrap_or((rest, "+0000"));
    let local = days(digits(year)?, month, digits(day)?)? * 86_400 + time_of_day(clock)?;
    let offset = digits(zone.get(1..3)?)? * 3600 + digits(zone.get(3..5)?)? * 60;
    let seconds = match zone.as_bytes().first()? {
        b'+' => local.checked_sub(offset)?,
        b'-' => local + offset,
        _ => return None,
    };
    seconds.checked_mul(1_000_000)
}

/// Parses `10:00:00` as seconds.
fn time_of_day(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if bytes.len() != 8 || bytes[2] != b':' || bytes[5] != b':' {
        return None;
    }
    let (hours, minutes, seconds) = (digits(text.get(..2)?)?, digits(text.get(3..5)?)?, digits(text.get(6..)?)?);
    (hours < 24 && minutes < 60 && seconds <= 60).then_some(hours * 3600 + minutes * 60 + seconds)
}

fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || text.len() > 9 {
        return None;
    }
    text.bytes().try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0')))
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March: the leap day is the last of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    (year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1).checked_sub(719_468)
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
