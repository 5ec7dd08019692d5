//! Fields of certificates: expiry and names. The certificates are verified elsewhere, or are the gateway's own.

mod subject;

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};
use tollgate_filters::client_certificate::ClientCertificate;

pub use self::subject::subject;

/// Tag of `SEQUENCE` in DER.
const SEQUENCE: u8 = 0x30;
/// Tag of the version, the first field of a certificate (RFC 5280 §4.1.2.1).
const VERSION: u8 = 0xA0;
/// Tag of `UTCTime`, with a year of two digits.
const UTC_TIME: u8 = 0x17;
/// Tag of the extensions of a certificate.
const EXTENSIONS: u8 = 0xA3;
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

/// Returns the names and the digest of a certificate in DER. Unreadable names are left out.
pub fn client_certificate(certificate: &[u8]) -> ClientCertificate {
    let mut client = ClientCertificate { fingerprint: fingerprint(certificate), ..ClientCertificate::default() };
    for (kind, name) in names_of(certificate) {
        match kind {
            URI => client.uris.push(name),
            DNS => client.dns_names.push(name.to_ascii_lowercase()),
            EMAIL => client.emails.push(name),
            _ => client.common_names.push(name),
        }
    }
    client
}

/// Returns the SHA-256 of a certificate in hexadecimal.
fn fingerprint(certificate: &[u8]) -> String {
    Sha256::digest(certificate).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the names of a certificate, each with the tag of its kind, or [`SEQUENCE`] for a common name. Empty if it cannot be read.
fn names_of(certificate: &[u8]) -> Vec<(u8, String)> {
    let mut names = Vec::new();
    if read_names(certificate, &mut names).is_none() {
        names.clear();
    }
    names
}

/// Adds the names of a certificate; `None` if it cannot be read.
fn read_names(certificate: &[u8], names: &mut Vec<(u8, String)>) -> Option<()> {
    let fields = from_validity(certificate)?;
    for (_, attributes) in elements(fields.get(1)?.1)? {
        let attribute = elements(first_of(attributes)?)?;
        if attribute.first()?.1 == COMMON_NAME {
            add(SEQUENCE, attribute.get(1)?.1, names);
        }
    }
    for (_, extensions) in fields.iter().filter(|(tag, _)| *tag == EXTENSIONS) {
        for (_, extension) in elements(first_of(extensions)?)? {
            // Its OID, whether it is critical, and its value.
            let parts = elements(extension)?;
            if parts.first()?.1 != ALTERNATIVE_NAMES {
                continue;
            }
            for (tag, name) in elements(first_of(parts.last()?.1)?)? {
                if [EMAIL, DNS, URI].contains(&tag) {
                    add(tag, name, names);
                }
            }
        }
    }
    Some(())
}

fn add(kind: u8, name: &[u8], names: &mut Vec<(u8, String)>) {
    if let Ok(name) = std::str::from_utf8(name)
        && !name.is_empty()
    {
        names.push((kind, name.to_owned()));
    }
}

/// Returns the fields of a certificate in DER from its validity on.
fn from_validity(certificate: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let (_, certificate, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (_, fields, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let mut fields = elements(fields)?;
    // The fields before it are the version, which may be absent, the serial number, the algorithm and the issuer.
    let before = if fields.first()?.0 == VERSION { 4 } else { 3 };
    (fields.len() > before).then(|| fields.split_off(before))
}

/// Validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// First second.
    pub not_before: SystemTime,
    /// Last second.
    pub not_after: SystemTime,
}

impl Validity {
    /// Returns the time from the first to the last second.
    pub fn length(&self) -> Duration {
        self.not_after.duration_since(self.not_before).unwrap_or_default()
    }
}

/// Returns the validity of a certificate in DER, unless it begins before 1970.
pub fn validity(certificate: &[u8]) -> Option<Validity> {
    let at = |index| {
        let seconds = u64::try_from(time_of_validity(certificate, index)?).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    };
    Some(Validity { not_before: at(0)?, not_after: at(1)? })
}

/// Returns the end of the validity of a certificate in DER, in seconds since the Unix epoch (RFC 5280 §4.1.2.5).
pub fn not_after(certificate: &[u8]) -> Option<i64> {
    time_of_validity(certificate, 1)
}

fn time_of_validity(certificate: &[u8], index: usize) -> Option<i64> {
    let (_, validity) = *from_validity(certificate)?.first().filter(|(tag, _)| *tag == SEQUENCE)?;
    let (tag, time) = *elements(validity)?.get(index)?;
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

/// Returns tag and content of all elements of `der`.
fn elements(mut der: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut all = Vec::new();
    while !der.is_empty() {
        let (tag, content, rest) = element(der)?;
        all.push((tag, content));
        der = rest;
    }
    Some(all)
}

/// Returns the content of the first element of `der`.
fn first_of(der: &[u8]) -> Option<&[u8]> {
    element(der).map(|(_, content, _)| content)
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
        let days = validity(&read()).unwrap().length().as_secs() / 86_400;
        assert_eq!(days, 366, "2000 was a leap year");
    }

    #[test]
    fn names_are_the_common_name_and_the_alternative_names() {
        let certificates = Certificates::new();
        let of = |file| client_certificate(&CertificateDer::from_pem_file(file).unwrap());
        let server = of(certificates.server());
        let has = |name: &str| server.names().any(|own| own == name);
        assert!(has("server") && has("localhost") && !has("client"), "{server:?}");
        assert_eq!(of(certificates.client()).names().next(), Some("client"));
    }

    #[test]
    fn broken_certificates_have_no_expiry() {
        let certificates = Certificates::new();
        let whole = CertificateDer::from_pem_file(certificates.server()).unwrap();
        for length in 0..whole.len() {
            assert_eq!(not_after(&whole[..length]), None, "{length} bytes");
            assert_eq!(client_certificate(&whole[..length]).names().next(), None, "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0xFF;
            let _ = (not_after(&bytes), client_certificate(&bytes));
        }
    }
}
