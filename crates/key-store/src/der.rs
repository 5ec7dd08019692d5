//! DER (X.690) with definite lengths, as far as stores and certificates need it, and its making from the BER of a store.

/// `SEQUENCE`.
pub(crate) const SEQUENCE: u8 = 0x30;
/// `OCTET STRING`.
pub(crate) const OCTET_STRING: u8 = 0x04;
/// `UTCTime`.
const UTC_TIME: u8 = 0x17;
/// `GeneralizedTime`.
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]`, constructed.
pub(crate) const TAGGED: u8 = 0xA0;

/// Bit of a tag: the content has values.
pub(crate) const CONSTRUCTED: u8 = 0x20;

/// One value.
#[derive(Clone, Copy)]
pub(crate) struct Element<'d> {
    pub(crate) tag: u8,
    pub(crate) content: &'d [u8],
    /// With tag and length.
    pub(crate) whole: &'d [u8],
}

impl<'d> Element<'d> {
    /// Returns the content if the value has the tag.
    pub(crate) fn expect(&self, tag: u8) -> Option<&'d [u8]> {
        (self.tag == tag).then_some(self.content)
    }
}

/// Takes the first value of `input`.
pub(crate) fn take<'d>(input: &mut &'d [u8]) -> Option<Element<'d>> {
    let all = *input;
    let (&tag, rest) = all.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7F => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
            (digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    *input = after;
    Some(Element { tag, content, whole: &all[..all.len() - after.len()] })
}

/// Takes the first value of `input` if it has the tag, and returns its content.
pub(crate) fn take_tagged<'d>(input: &mut &'d [u8], tag: u8) -> Option<&'d [u8]> {
    take(input)?.expect(tag)
}

/// Returns all values of `input`.
pub(crate) fn all(mut input: &[u8]) -> Option<Vec<Element<'_>>> {
    std::iter::from_fn(|| (!input.is_empty()).then(|| take(&mut input))).collect()
}

/// Writes a value.
pub(crate) fn write(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![tag];
    match u8::try_from(length) {
        Ok(short @ 0..=0x7F) => bytes.push(short),
        _ => {
            let digits: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|&digit| digit == 0).collect();
            bytes.push(0x80 | digits.len() as u8);
            bytes.extend(digits);
        }
    }
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// Returns the indexes of a certificate and of its issuers, by their names, as far as `certificates` has them.
pub(crate) fn chain(certificates: &[Vec<u8>], leaf: usize) -> Vec<usize> {
    let names: Vec<_> = certificates.iter().map(|certificate| names(certificate)).collect();
    let mut chain = vec![leaf];
    let mut last = leaf;
    while let Some((issuer, subject)) = names[last]
        && issuer != subject
        && let Some(next) =
            (0..names.len()).find(|at| !chain.contains(at) && names[*at].is_some_and(|(_, subject)| subject == issuer))
    {
        chain.push(next);
        last = next;
    }
    chain
}

/// Returns the issuer and the subject of a certificate.
fn names(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let [issuer, _validity, subject] = fields(certificate)?;
    Some((issuer.whole, subject.whole))
}

/// Returns the begin and the end of a certificate's validity (RFC 5280 §4.1.2.5), as `YYYYMMDDHHMMSSZ`.
pub(crate) fn validity(certificate: &[u8]) -> Option<[String; 2]> {
    let [_issuer, validity, _subject] = fields(certificate)?;
    let times: [Element<'_>; 2] = all(validity.expect(SEQUENCE)?)?.try_into().ok()?;
    let [begin, end] = times.map(|time| {
        let text = std::str::from_utf8(time.content).ok()?;
        match time.tag {
            UTC_TIME => Some(format!("{}{text}", if text < "50" { "20" } else { "19" })),
            GENERALIZED_TIME => Some(text.to_owned()),
            _ => None,
        }
    });
    Some([begin?, end?])
}

/// Returns the issuer, the validity and the subject of a certificate (RFC 5280 §4.1).
fn fields(mut certificate: &[u8]) -> Option<[Element<'_>; 3]> {
    let mut signed = take_tagged(&mut take_tagged(&mut certificate, SEQUENCE)?, SEQUENCE)?;
    if signed.first() == Some(&TAGGED) {
        take(&mut signed)?; // version
    }
    let [_serial, _algorithm] = [take(&mut signed)?, take(&mut signed)?];
    Some([take(&mut signed)?, take(&mut signed)?, take(&mut signed)?])
}

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
        let content = take(input)?.content;
        // Strings hold the parts of a store.
        let nested = (tag == OCTET_STRING && content.first() == Some(&SEQUENCE))
            .then(|| whole(&mut { content }, depth + 1))
            .flatten();
        return Some(write(tag, &[nested.as_deref().unwrap_or(content)]));
    }
    let mut values = Vec::new();
    if input.get(1) == Some(&INDEFINITE) {
        *input = &input[2..];
        while !input.starts_with(&END) {
            values.push(value(input, depth + 1)?);
        }
        *input = &input[END.len()..];
    } else {
        let mut content = take(input)?.content;
        while !content.is_empty() {
            values.push(value(&mut content, depth + 1)?);
        }
    }
    if tag == PIECES {
        let pieces = values.iter().map(|piece| take_tagged(&mut piece.as_slice(), OCTET_STRING));
        let joined = pieces.collect::<Option<Vec<_>>>()?.concat();
        return value(&mut write(OCTET_STRING, &[&joined]).as_slice(), depth + 1);
    }
    Some(write(tag, &values.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
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
