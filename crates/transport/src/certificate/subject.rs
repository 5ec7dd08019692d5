//! Subject of a certificate as text.

use std::fmt::Write as _;

use super::{COMMON_NAME, elements, from_validity};

/// Tags of texts in UTF-8 or ASCII.
const TEXTS: [u8; 3] = [0x0C, 0x13, 0x16];
/// OIDs of attributes with short names (RFC 4514 §3, and e-mail addresses).
const ATTRIBUTES: [(&[u8], &str); 11] = [
    (COMMON_NAME, "CN"),
    (&[0x55, 0x04, 0x05], "serialNumber"),
    (&[0x55, 0x04, 0x06], "C"),
    (&[0x55, 0x04, 0x07], "L"),
    (&[0x55, 0x04, 0x08], "ST"),
    (&[0x55, 0x04, 0x09], "STREET"),
    (&[0x55, 0x04, 0x0A], "O"),
    (&[0x55, 0x04, 0x0B], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 0x01, 0x19], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 0x01, 0x01], "UID"),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x09, 0x01], "emailAddress"),
];

/// Returns the subject of a certificate in DER as text, the common name first: `CN=client,O=Example` (RFC 4514).
pub fn subject(certificate: &[u8]) -> Option<String> {
    let fields = from_validity(certificate)?;
    let mut relative_names = Vec::new();
    for (_, attributes) in elements(fields.get(1)?.1)? {
        let mut parts = Vec::new();
        for (_, attribute) in elements(attributes)? {
            let attribute = elements(attribute)?;
            let ((_, kind), (tag, value)) = (attribute.first()?, attribute.get(1)?);
            parts.push(attribute_text(kind, *tag, value));
        }
        relative_names.push(parts.join("+"));
    }
    relative_names.reverse();
    Some(relative_names.join(","))
}

/// Returns an attribute of a name as `KIND=value`, with special characters escaped.
fn attribute_text(kind: &[u8], tag: u8, value: &[u8]) -> String {
    let name = ATTRIBUTES.iter().find(|(oid, _)| *oid == kind).map(|(_, name)| *name);
    let text = if TEXTS.contains(&tag) { std::str::from_utf8(value).ok() } else { None };
    let (Some(name), Some(text)) = (name, text) else {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        return format!("{}=#{}", name.map_or_else(|| format!("oid.{}", hex(kind)), str::to_owned), hex(value));
    };
    let mut escaped = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        let is_outer_space = character == ' ' && (at == 0 || at + 1 == text.len());
        if is_outer_space || r#"",+;<>\"#.contains(character) || (character == '#' && at == 0) {
            escaped.push('\\');
        }
        if character.is_control() {
            let _ = write!(escaped, "\\{:02x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    format!("{name}={escaped}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_a_subject_are_escaped() {
        let text = |value: &str| attribute_text(COMMON_NAME, 0x0C, value.as_bytes());
        assert_eq!(text("a,b+c\"d"), r#"CN=a\,b\+c\"d"#);
        assert_eq!(text(" #x "), r"CN=\ #x\ ");
        assert_eq!(text("#x"), r"CN=\#x");
        assert_eq!(text("a\nb"), r"CN=a\0ab");
        assert_eq!(attribute_text(&[0x2A, 0x03], 0x0C, b"x"), "oid.2a03=#78");
        assert_eq!(attribute_text(COMMON_NAME, 0x1E, b"\0x"), "CN=#0078");
    }
}
