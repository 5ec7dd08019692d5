//! Fields of certificates: expiry and names. The certificates are verified elsewhere, or are the gateway's own.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Tag of `SEQUENCE` in DER.
const SEQUENCE: u8 = 0x30;
/// Tag of the version, the first field of a certificate (RFC 5280 §4.1.2.1).
const VERSION: u8 = 0xA0;
/// Tag of `UTCTime`, with a year of two digits.
const UTC_TIME: u8 = 0x17;
/// Tag of the extensions of a certificate.
const EXTENSIONS: u8 = 0xA3;
/// Tag of `BOOLEAN`: an extension is critical.
const BOOLEAN: u8 = 0x01;
/// Tag of an e-mail address among alternative names (RFC 5280 §4.2.1.6).
const EMAIL: u8 = 0x81;
/// Tag of a DNS name among alternative names.
const DNS: u8 = 0x82;
/// Tag of a URI among alternative names.
const URI: u8 = 0x86;
/// OID 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// OID 2.5.29.17.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1D, 0x11];
/// Tag of `GeneralizedTime`.
const GENERALIZED_TIME: u8 = 0x18;

/// Names of a client: its common name, and its DNS names, URIs and e-mail addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames(Vec<String>);

impl CertificateNames {
    /// Reads the names of a certificate in DER. Unreadable names are left out.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Self {
        let mut names = Vec::new();
        if read_names(certificate, &mut names).is_none() {
            names.clear();
        }
        Self(names)
    }

    /// Returns the first name: the common name if there is one.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    /// Returns true if `name` is one of the names. Upper and lower case differ.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|own_name| own_name == name)
    }
}

/// Adds the names of a certificate; `None` if it cannot be read.
fn read_names(certificate: &[u8], names: &mut Vec<String>) -> Option<()> {
    let (_, mut subject, mut fields) = element(element(from_validity(certificate)?)?.2)?;
    while !subject.is_empty() {
        let (_, attributes, rest) = element(subject)?;
        subject = rest;
        let (_, oid, value) = element(element(attributes)?.1)?;
        if oid == COMMON_NAME {
            add(element(value)?.1, names);
        }
    }
    while !fields.is_empty() {
        let (tag, content, rest) = element(fields)?;
        fields = rest;
        if tag == EXTENSIONS {
            let mut extensions = element(content)?.1;
            while !extensions.is_empty() {
                let (_, extension, rest) = element(extensions)?;
                extensions = rest;
                let (_, oid, value) = element(extension)?;
                if oid == ALTERNATIVE_NAMES {
                    read_alternative_names(value, names)?;
                }
            }
        }
    }
    Some(())
}

/// Adds the names of the extension whose OID comes before `value`.
fn read_alternative_names(value: &[u8], names: &mut Vec<String>) -> Option<()> {
    let (tag, content, rest) = element(value)?;
    let octets = if tag == BOOLEAN { element(rest)?.1 } else { content };
    let mut listed = element(octets)?.1;
    while !listed.is_empty() {
        let (tag, name, rest) = element(listed)?;
        listed = rest;
        if [EMAIL, DNS, URI].contains(&tag) {
            add(name, names);
        }
    }
    Some(())
}

fn add(name: &[u8], names: &mut Vec<String>) {
    if let Ok(name) = std::str::from_utf8(name)
        && !name.is_empty()
    {
        names.push(name.to_owned());
    }
}

/// Returns the fields of a certificate from its validity on (RFC 5280 §4.1).
fn from_validity(certificate: &[u8]) -> Option<&[u8]> {
    let (_, certificate, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (_, mut fields, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    if let Some((VERSION, _, rest)) = element(fields) {
        fields = rest;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    Some(fields)
}

/// Returns the end of the validity of a certificate in DER, in seconds since the Unix epoch (RFC 5280 §4.1.2.5).
pub fn not_after(certificate: &[u8]) -> Option<i64> {
    let (_, validity, _) = element(from_validity(certificate)?).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (_, _, rest) = element(validity)?;
    let (tag, time, _) = element(rest)?;
    let digits = std::str::from_utf8(time).ok()?.strip_suffix('Z')?;
    let full = match tag {
        UTC_TIME if digits.len() == 12 => {
            let century = if digits.get(..2)?.parse::<u8>().ok()? < 50 { "20" } else { "19" };
            format!("{century}{digits}")
        }
        GENERALIZED_TIME => digits.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%S", &full).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// Splits `der` into the tag and content of its first element, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, length, rest @ ..] = der else { return None };
    let (length, rest) = match length {
        0..=0x7F => (usize::from(*length), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use tollgate_test_support::Certificates;

    use super::*;

    #[test]
    fn the_expiry_is_read_from_the_certificate() {
        let certificates = Certificates::new();
        let read = || CertificateDer::from_pem_file(certificates.server()).unwrap();
        assert_eq!(not_after(&read()), Some(67_090_118_400), "4096-01-01, as GeneralizedTime");
        certificates.sign_expired();
        assert_eq!(not_after(&read()), Some(978_307_200), "2001-01-01, as UTCTime");
    }

    #[test]
    fn names_are_the_common_name_and_the_alternative_names() {
        let certificates = Certificates::new();
        let of = |file| CertificateNames::of(&CertificateDer::from_pem_file(file).unwrap());
        let server = of(certificates.server());
        assert!(server.contains("server") && server.contains("localhost") && !server.contains("client"), "{server:?}");
        assert_eq!(of(certificates.client()).first(), Some("client"));
    }

    #[test]
    fn broken_certificates_have_no_expiry() {
        let certificates = Certificates::new();
        let whole = CertificateDer::from_pem_file(certificates.server()).unwrap();
        for length in 0..whole.len() {
            assert_eq!(not_after(&whole[..length]), None, "{length} bytes");
            assert_eq!(CertificateNames::of(&whole[..length]), CertificateNames::default(), "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0xFF;
            let _ = (not_after(&bytes), CertificateNames::of(&bytes));
        }
    }
}
