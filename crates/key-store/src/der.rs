//! DER (X.690) with definite lengths, as far as stores and certificates need it.

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
