//! Header values of numbers and durations.

use std::time::Duration;

use http::header::Entry;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Returns `number` in decimal, without an allocation up to 999.
#[must_use]
pub fn number_value(number: u64) -> HeaderValue {
    match usize::try_from(number) {
        Ok(small) if small < SMALL.len() => HeaderValue::from_static(small_number(small)),
        _ => HeaderValue::from(number),
    }
}

/// The numbers below 1000, three digits each.
static SMALL: [[u8; 3]; 1000] = {
    let mut table = [[b'0'; 3]; 1000];
    let mut n = 0;
    while n < 1000 {
        table[n] = [b'0' + (n / 100) as u8, b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    table
};

fn small_number(number: usize) -> &'static str {
    let leading_zeros = if number < 10 {
        2
    } else if number < 100 {
        1
    } else {
        0
    };
    std::str::from_utf8(&SMALL[number][leading_zeros..]).unwrap_or_default()
}

/// Returns the seconds of `Retry-After` (RFC 9110 §10.2.3): `wait` rounded up, at least 1, since clients read 0 as "at
/// once".
#[must_use]
pub fn retry_after_secs(wait: Duration) -> u64 {
    whole_secs(wait).max(1)
}

/// Returns `time` in seconds, rounded up.
pub(super) fn whole_secs(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

/// Inserts `value` before the present values of `name`. A full map (32,768 headers) stays as it is.
pub(crate) fn prepend(headers: &mut HeaderMap, name: &HeaderName, value: HeaderValue) {
    match headers.try_entry(name) {
        Ok(Entry::Vacant(vacant)) => {
            let _ = vacant.try_insert(value);
        }
        Ok(Entry::Occupied(mut occupied)) => {
            // Not `insert_mult`: of http 1.5, it panics for three or more present values.
            let present: Vec<_> = occupied.iter().cloned().collect();
            occupied.insert(value);
            for value in present {
                occupied.append(value);
            }
        }
        Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_wait_is_rounded_up_and_at_least_one_second() {
        for (wait, secs) in [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_secs(1), 1),
            (Duration::from_millis(1_001), 2),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(retry_after_secs(wait), secs, "{wait:?}");
        }
    }

    #[test]
    fn a_value_is_put_before_any_number_of_present_ones() {
        let name = HeaderName::from_static("x-ratelimit-remaining");
        let mut headers = HeaderMap::new();
        headers.append("set-cookie", HeaderValue::from_static("a"));
        for count in 1..=8_u64 {
            prepend(&mut headers, &name, number_value(count));
            headers.append("set-cookie", HeaderValue::from_static("b"));
            let values: Vec<_> = headers.get_all(&name).iter().map(|value| value.to_str().unwrap()).collect();
            let expected: Vec<_> = (1..=count).rev().map(|count| count.to_string()).collect();
            assert_eq!(values, expected);
        }
        assert_eq!(headers.get_all("set-cookie").iter().count(), 9);
    }

    #[test]
    fn numbers_are_written_in_decimal_on_both_sides_of_the_table() {
        for n in (0..=1_100).chain([u64::from(u32::MAX), u64::MAX]) {
            assert_eq!(number_value(n).to_str().unwrap(), n.to_string());
        }
    }
}
