//! Percent-encoding and Base64, in which a text may have a secret.

use std::ops::Range;

/// Shortest Base64 of a value that is masked everywhere.
const SHORTEST_RUN: usize = 8;

/// Returns the bytes of `text` without percent-encoding, and the position of each in `text`; the last one is its end.
pub(super) fn percent_decoded(text: &str) -> (Vec<u8>, Vec<usize>) {
    let (mut decoded, mut positions, mut at) = (Vec::with_capacity(text.len()), Vec::new(), 0);
    while let Some(byte) = text.as_bytes().get(at) {
        let digits = text.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let encoded = digits.filter(|_| *byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(encoded.unwrap_or(*byte));
        positions.push(at);
        at += if encoded.is_some() { 3 } else { 1 };
    }
    positions.push(at);
    (decoded, positions)
}

/// Returns the parts of `text` that may be Base64, of either alphabet, with its padding.
pub(super) fn base64_runs(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut next = 0;
    std::iter::from_fn(move || {
        loop {
            let start = next + text.as_bytes().get(next..)?.iter().position(|byte| sextet(*byte).is_some())?;
            let rest = &text[start..];
            let end = start + rest.bytes().position(|byte| sextet(byte).is_none()).unwrap_or(rest.len());
            next = end;
            if end - start >= SHORTEST_RUN {
                return Some(start..end + text[end..].bytes().take_while(|byte| *byte == b'=').count());
            }
        }
    })
}

/// Returns the bytes of Base64 up to the first other sign.
pub(super) fn base64(run: &[u8]) -> Vec<u8> {
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(run.len()), 0_u32, 0);
    for sextet in run.iter().map_while(|byte| sextet(*byte)) {
        (bits, count) = (bits << 6 | u32::from(sextet), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count).to_le_bytes()[0]);
        }
    }
    bytes
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}
