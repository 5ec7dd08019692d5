//! Times at which keys expire, by RFC 3339. A file may have a million of them.

/// Returns the seconds from 1970 to `text`: `2027-01-01T00:00:00Z`, or `2027-01-01`, which begins in UTC.
pub(super) fn parse(text: &str) -> Option<u64> {
    let (date, time) = text.split_at_checked(10)?;
    let days = days_since_1970(date)?;
    let (seconds, offset) = if time.is_empty() { (0, 0) } else { clock(time)? };
    u64::try_from(days * 86_400 + seconds - offset).ok()
}

/// Returns the days from 1970-01-01 to `YYYY-MM-DD` (H. Hinnant, "chrono-compatible low-level date algorithms").
fn days_since_1970(date: &str) -> Option<i64> {
    let (year, month, day) = (number(date, 0..4)?, number(date, 5..7)?, number(date, 8..10)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if date.get(4..5)? != "-" || date.get(7..8)? != "-" || !(1..=length).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is the last one.
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

/// Returns the seconds of `Thh:mm:ss`, with or without a fraction, and those of the offset from UTC.
fn clock(time: &str) -> Option<(i64, i64)> {
    let separators = [0, 3, 6].map(|at| time.as_bytes().get(at).copied());
    if !matches!(separators, [Some(b'T' | b't' | b' '), Some(b':'), Some(b':')]) {
        return None;
    }
    let (hour, minute, second) = (number(time, 1..3)?, number(time, 4..6)?, number(time, 7..9)?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let rest = time.get(9..)?;
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    Some((hour * 3600 + minute * 60 + second, offset(rest)?))
}

fn offset(text: &str) -> Option<i64> {
    let sign = match text.as_bytes() {
        [b'Z' | b'z'] => return Some(0),
        [b'+', _, _, b':', _, _] => 1,
        [b'-', _, _, b':', _, _] => -1,
        _ => return None,
    };
    let (hours, minutes) = (number(text, 1..3)?, number(text, 4..6)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Returns the number whose digits are at `range`.
fn number(text: &str, range: std::ops::Range<usize>) -> Option<i64> {
    let digits = text.get(range)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_rfc_3339() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2027-01-01T00:00:00Z", Some(1_798_761_600)),
            ("2027-01-01", Some(1_798_761_600)),
            ("2027-01-01T01:30:00.25+01:30", Some(1_798_761_600)),
            ("2026-12-31T22:00:00-02:00", Some(1_798_761_600)),
            ("2024-02-29T12:00:00Z", Some(1_709_208_000)),
            ("2023-02-29T12:00:00Z", None),
            ("2027-13-01", None),
            ("2027-1-1", None),
            ("2027-01-01T00:00:00", None),
            ("2027-01-01T24:00:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("+027-01-01", None),
            ("tomorrow", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
