//! Numbers as header values.

use http::HeaderValue;

/// `number` in decimal; up to 999 without an allocation.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn numbers_are_written_in_decimal_on_both_sides_of_the_table() {
        for n in (0..=1_100).chain([u64::from(u32::MAX), u64::MAX]) {
            assert_eq!(number_value(n).to_str().unwrap(), n.to_string());
        }
    }
}
