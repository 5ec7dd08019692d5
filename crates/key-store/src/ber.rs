//! BER (X.690) to DER, as far as the structure of a store needs it: definite lengths, and strings in one piece.

use crate::der::{self, CONSTRUCTED, OCTET_STRING, SEQUENCE};

/// Nesting at most.
const MAX_DEPTH: usize = 64;
/// `OCTET STRING` in several pieces.
const PIECES: u8 = OCTET_STRING | CONSTRUCTED;
/// Length of content that ends with [`END`].
const INDEFINITE: u8 = 0x80;
const END: [u8; 2] = [0, 0];

/// Returns the one value `input` in DER, with those in its strings. `None` if it is damaged.
pub(crate) fn to_der(mut input: &[u8]) -> Option<Vec<u8>> {
    whole(&mut input, 0)
}

/// Converts `input`, which is one value.
fn whole(input: &mut &[u8], depth: usize) -> Option<Vec<u8>> {
    value(input, depth).filter(|_| input.is_empty())
}

/// Takes the first value of `input`, and converts it.
fn value(input: &mut &[u8], depth: usize) -> Option<Vec<u8>> {
    let tag = *input.first()?;
    if depth > MAX_DEPTH {
        return None;
    }
    if tag & CONSTRUCTED == 0 {
        let content = der::take(input)?.content;
        // Strings hold the parts of a store.
        let nested = (tag == OCTET_STRING && content.first() == Some(&SEQUENCE))
            .then(|| whole(&mut { content }, depth + 1))
            .flatten();
        return Some(der::write(tag, &[nested.as_deref().unwrap_or(content)]));
    }
    let mut values = Vec::new();
    if input.get(1) == Some(&INDEFINITE) {
        *input = &input[2..];
        while !input.starts_with(&END) {
            values.push(value(input, depth + 1)?);
        }
        *input = &input[END.len()..];
    } else {
        let mut content = der::take(input)?.content;
        while !content.is_empty() {
            values.push(value(&mut content, depth + 1)?);
        }
    }
    if tag == PIECES {
        let pieces = values.iter().map(|piece| der::take_tagged(&mut piece.as_slice(), OCTET_STRING));
        let joined = pieces.collect::<Option<Vec<_>>>()?.concat();
        return value(&mut der::write(OCTET_STRING, &[&joined]).as_slice(), depth + 1);
    }
    Some(der::write(tag, &values.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn indefinite_lengths_and_pieces_become_definite_and_one() {
        // SEQUENCE { INTEGER 3, [0] { OCTET STRING in two pieces, which hold SEQUENCE { INTEGER 5 } } }
        let ber = b"\x30\x80\x02\x01\x03\xA0\x80\x24\x80\x04\x03\x30\x80\x02\x04\x04\x01\x05\x00\x00\0\0\0\0\0\0";
        let der = b"\x30\x0C\x02\x01\x03\xA0\x07\x04\x05\x30\x03\x02\x01\x05";
        assert_eq!(to_der(ber).unwrap(), der);
        assert_eq!(to_der(der).unwrap(), der);
        for end in 0..ber.len() {
            assert_eq!(to_der(&ber[..end]), None, "{end}");
        }
        assert_eq!(to_der(&[0x30; 1 << 20]), None);
        assert_eq!(to_der(&[0x30, 0x80].repeat(1 << 20)), None);
    }
}
