//! Expiry of the gateway's certificates.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::telemetry::encode::{family, gauge};
use tollgate_config::Config;

/// Collector of the expiry of certificates, read once per scrape.
#[derive(Debug)]
pub struct CertificateCollector(Vec<Certificate>);

/// Certificate of the gateway.
#[derive(Debug)]
struct Certificate {
    /// `server` for clients, `client` for upstreams.
    role: &'static str,
    /// Name that clients request; empty for the default and for upstreams.
    server_name: String,
    /// Route with a client certificate of its own; empty for all others.
    route: String,
    /// Expiry in seconds since the Unix epoch.
    expiry: i64,
}

impl CertificateCollector {
    /// Reads the expiry of the certificates of `config`. A certificate without a readable date is left out.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let mut all = Vec::new();
        let mut add = |role, server_name: &str, route: &str, der: Option<&[u8]>| {
            if let Some(expiry) = der.and_then(not_after) {
                all.push(Certificate { role, server_name: server_name.to_owned(), route: route.to_owned(), expiry });
            }
        };
        for (name, certificate) in config.server.tls.iter().flat_map(|tls| &tls.certificates) {
            add("server", name, "", Some(certificate));
        }
        let first = |identity: &tollgate_config::Identity| identity.chain.first().cloned();
        let shared = config.http_client.tls.identity.as_ref();
        add("client", "", "", shared.and_then(first).as_deref());
        for route in config.routes.iter() {
            let own = route.tls.as_ref().and_then(|tls| tls.identity.as_ref()).filter(|own| Some(*own) != shared);
            add("client", "", &route.id, own.and_then(first).as_deref());
        }
        Self(all)
    }
}

impl Collector for CertificateCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let series = self.0.iter().map(|certificate| {
            let labels = [
                ("role", certificate.role),
                ("server_name", certificate.server_name.as_str()),
                ("route", certificate.route.as_str()),
            ];
            (labels, gauge(certificate.expiry))
        });
        let help = "Time at which a certificate of the gateway expires";
        family(&mut encoder, "tollgate_certificate_expiry_timestamp_seconds", help, series)
    }
}

/// Tag of `SEQUENCE` in DER.
const SEQUENCE: u8 = 0x30;
/// Tag of the version, the first field of a certificate (RFC 5280 §4.1.2.1).
const VERSION: u8 = 0xA0;
/// Tag of `UTCTime`, with a year of two digits.
const UTC_TIME: u8 = 0x17;
/// Tag of `GeneralizedTime`.
const GENERALIZED_TIME: u8 = 0x18;

/// Returns the end of the validity of a certificate in DER, in seconds since the Unix epoch (RFC 5280 §4.1.2.5).
fn not_after(certificate: &[u8]) -> Option<i64> {
    let (_, certificate, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (_, mut fields, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    if let Some((VERSION, _, rest)) = element(fields) {
        fields = rest;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields).filter(|(tag, ..)| *tag == SEQUENCE)?;
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
    fn broken_certificates_have_no_expiry() {
        let certificates = Certificates::new();
        let whole = CertificateDer::from_pem_file(certificates.server()).unwrap();
        for length in 0..whole.len() {
            assert_eq!(not_after(&whole[..length]), None, "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0xFF;
            let _ = not_after(&bytes);
        }
    }
}
