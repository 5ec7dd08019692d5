//! Outer structure of a store (RFC 7292 §4), which is not encrypted: the names of private keys, and copies with one key.

use crate::der::{self, CONSTRUCTED, Element, OCTET_STRING, SEQUENCE, TAGGED};

/// 1.2.840.113549.1.7.1, `data`.
const DATA: [u8; 9] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x01];
/// 1.2.840.113549.1.12.10.1: `.1` is a key, `.2` an encrypted key.
const BAG: [u8; 10] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x0C, 0x0A, 0x01];
/// 1.2.840.113549.1.9.20, `friendlyName`.
const FRIENDLY_NAME: [u8; 9] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x09, 0x14];
const OBJECT_IDENTIFIER: u8 = 0x06;
const INTEGER: u8 = 0x02;
const SET: u8 = 0x31;
const BMP_STRING: u8 = 0x1E;

/// A store.
pub(crate) struct Pfx<'s> {
    version: Element<'s>,
    parts: Vec<Part<'s>>,
    checksum: &'s [u8],
}

/// Part of a store.
enum Part<'s> {
    /// Values in plain; keys among them are encrypted each.
    Plain(Vec<Bag<'s>>),
    /// Encrypted values, as certificates usually are.
    Opaque(&'s [u8]),
}

struct Bag<'s> {
    whole: &'s [u8],
    /// True for a private key.
    is_key: bool,
    name: Option<String>,
}

impl<'s> Pfx<'s> {
    /// Reads the structure. `None` if it has another form.
    pub(crate) fn parse(mut store: &'s [u8]) -> Option<Self> {
        let mut whole = der::take_tagged(&mut store, SEQUENCE)?;
        let version = der::take(&mut whole)?;
        let parts = data(der::take_tagged(&mut whole, SEQUENCE)?)?;
        let parts = parts.iter().map(Part::parse).collect::<Option<_>>()?;
        Some(Self { version, parts, checksum: whole })
    }

    /// Returns the rounds of hashing that it takes to read the store: for the checksum, each encrypted part, and one key.
    pub(crate) fn rounds(&self) -> u64 {
        let of_parts = self.parts.iter().map(|part| match part {
            Part::Opaque(whole) => rounds(whole),
            Part::Plain(bags) => bags.iter().map(|bag| rounds(bag.whole)).max().unwrap_or(0),
        });
        of_parts.fold(rounds(self.checksum), u64::saturating_add)
    }

    /// Returns the names of the private keys. A key without a name has its number.
    pub(crate) fn aliases(&self) -> Vec<String> {
        let keys = self.parts.iter().flat_map(Part::bags).filter(|bag| bag.is_key);
        keys.enumerate().map(|(at, key)| key.name.clone().unwrap_or_else(|| (at + 1).to_string())).collect()
    }

    /// Returns the store with the private key number `at` only. Its checksum is wrong.
    pub(crate) fn with_key(&self, at: usize) -> Vec<u8> {
        let mut keys = 0..;
        let parts: Vec<Vec<u8>> = self
            .parts
            .iter()
            .map(|part| match part {
                Part::Opaque(whole) => whole.to_vec(),
                Part::Plain(bags) => {
                    let kept = bags.iter().filter(|bag| !bag.is_key || keys.next() == Some(at));
                    write_data(&kept.map(|bag| bag.whole).collect::<Vec<_>>())
                }
            })
            .collect();
        let parts = write_data(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        der::write(SEQUENCE, &[self.version.whole, &parts, self.checksum])
    }
}

impl<'s> Part<'s> {
    fn parse(part: &Element<'s>) -> Option<Self> {
        let Some(bags) = data(part.expect(SEQUENCE)?) else { return Some(Self::Opaque(part.whole)) };
        bags.iter().map(Bag::parse).collect::<Option<_>>().map(Self::Plain)
    }

    fn bags(&self) -> &[Bag<'s>] {
        match self {
            Self::Plain(bags) => bags,
            Self::Opaque(_) => &[],
        }
    }
}

impl<'s> Bag<'s> {
    fn parse(bag: &Element<'s>) -> Option<Self> {
        let mut content = bag.expect(SEQUENCE)?;
        let kind = der::take_tagged(&mut content, OBJECT_IDENTIFIER)?;
        let is_key = matches!(kind.strip_prefix(&BAG), Some([1 | 2]));
        let _value = der::take(&mut content)?;
        Some(Self { whole: bag.whole, is_key, name: der::take_tagged(&mut content, SET).and_then(name) })
    }
}

/// Returns the rounds of hashing that values name, in DER: each is an INTEGER right behind its salt, an OCTET STRING
/// (RFC 7292 §4 and App. C, RFC 8018 App. A.2).
pub(crate) fn rounds(mut values: &[u8]) -> u64 {
    let (mut sum, mut is_behind_salt) = (0_u64, false);
    while let Some(Element { tag, content, .. }) = der::take(&mut values) {
        let rounds_of_value = match tag {
            INTEGER if is_behind_salt => {
                content.iter().fold(0, |sum: u64, &digit| sum.saturating_mul(256).saturating_add(digit.into()))
            }
            // A string may hold a part of the store.
            OCTET_STRING => match der::take(&mut { content }) {
                Some(Element { tag: SEQUENCE, whole, .. }) if whole.len() == content.len() => rounds(content),
                _ => 0,
            },
            _ if tag & CONSTRUCTED != 0 => rounds(content),
            _ => 0,
        };
        sum = sum.saturating_add(rounds_of_value);
        is_behind_salt = tag == OCTET_STRING;
    }
    sum
}

/// Returns the name among the attributes of a value.
fn name(attributes: &[u8]) -> Option<String> {
    der::all(attributes)?.iter().find_map(|attribute| {
        let mut content = attribute.expect(SEQUENCE)?;
        if der::take_tagged(&mut content, OBJECT_IDENTIFIER)? != FRIENDLY_NAME {
            return None;
        }
        let text = der::take_tagged(&mut der::take_tagged(&mut content, SET)?, BMP_STRING)?;
        let units: Vec<u16> = text.chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]])).collect();
        Some(String::from_utf16_lossy(&units))
    })
}

/// Returns the values in the content of a `ContentInfo` of the type `data`.
fn data(mut content: &[u8]) -> Option<Vec<Element<'_>>> {
    if der::take_tagged(&mut content, OBJECT_IDENTIFIER)? != DATA {
        return None;
    }
    let mut octets = der::take_tagged(&mut der::take_tagged(&mut content, TAGGED)?, OCTET_STRING)?;
    der::all(der::take_tagged(&mut octets, SEQUENCE)?)
}

/// Writes a `ContentInfo` of the type `data`.
fn write_data(values: &[&[u8]]) -> Vec<u8> {
    let values = der::write(OCTET_STRING, &[&der::write(SEQUENCE, values)]);
    der::write(SEQUENCE, &[&der::write(OBJECT_IDENTIFIER, &[&DATA]), &der::write(TAGGED, &[&values])])
}
