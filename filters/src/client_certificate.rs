//! Certificates of clients, for keys and permissions.

use std::borrow::Cow;
use std::sync::Arc;

/// Names of a client's certificate, and its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// URIs among the alternative names, such as SPIFFE ids.
    pub uris: Vec<String>,
    /// DNS names among the alternative names, in lower case.
    pub dns_names: Vec<String>,
    /// E-mail addresses among the alternative names.
    pub emails: Vec<String>,
    /// Common names of the subject.
    pub common_names: Vec<String>,
    /// SHA-256 of the certificate, in hexadecimal and lower case.
    pub fingerprint: String,
}

/// Request extension: the certificate of the client. A TLS handshake, or a trusted proxy, has verified it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedClient(pub Arc<ClientCertificate>);

tollgate_limiter::labelled! {
    /// Part of a certificate that is a key, with its name behind `tls:`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CertificatePart {
        /// URI among the alternative names.
        SanUri = "san-uri",
        /// DNS name among the alternative names.
        SanDns = "san-dns",
        /// E-mail address among the alternative names.
        SanEmail = "san-email",
        /// Common name of the subject.
        SubjectCn = "subject-cn",
        /// SHA-256 of the certificate.
        Fingerprint = "fingerprint-sha256",
    }
}

impl ClientCertificate {
    /// Returns all names: common names, DNS names, URIs and e-mail addresses.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [&self.common_names, &self.dns_names, &self.uris, &self.emails].into_iter().flatten().map(String::as_str)
    }

    /// Returns the values of `part`.
    #[must_use]
    pub fn values(&self, part: CertificatePart) -> &[String] {
        match part {
            CertificatePart::SanUri => &self.uris,
            CertificatePart::SanDns => &self.dns_names,
            CertificatePart::SanEmail => &self.emails,
            CertificatePart::SubjectCn => &self.common_names,
            CertificatePart::Fingerprint => std::slice::from_ref(&self.fingerprint),
        }
    }
}

/// Name that selects certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSelector {
    /// A name of any kind.
    Name(String),
    /// The only value of this part. A certificate with another value of it is not selected, as it has no key.
    Part(CertificatePart, String),
}

impl CertificateSelector {
    /// Parses `tls:PART=VALUE`, or else a name. Returns `None` for an unknown part.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let Some((part, value)) = text.strip_prefix("tls:").and_then(|rest| rest.split_once('=')) else {
            return (!text.starts_with("tls:")).then(|| Self::Name(text.to_owned()));
        };
        let part = CertificatePart::parse(part.trim())?;
        Some(Self::Part(part, String::from_utf8_lossy(&part.normal(value.trim().as_bytes())).into_owned()))
    }

    /// Returns true if `certificate` is selected.
    #[must_use]
    pub fn selects(&self, certificate: &ClientCertificate) -> bool {
        match self {
            Self::Name(name) => {
                let is_dns = certificate.dns_names.iter().any(|dns_name| dns_name.eq_ignore_ascii_case(name));
                is_dns || certificate.names().any(|other| other == name)
            }
            Self::Part(part, value) => {
                let values = certificate.values(*part);
                !values.is_empty() && values.iter().all(|other| other == value)
            }
        }
    }
}

impl CertificatePart {
    /// Returns `value` as certificates have it: fingerprints in lower case and without colons, DNS names in lower case.
    pub(crate) fn normal(self, value: &[u8]) -> Cow<'_, [u8]> {
        let has_upper = value.iter().any(u8::is_ascii_uppercase);
        match self {
            Self::Fingerprint if has_upper || value.contains(&b':') => {
                value.iter().filter(|byte| **byte != b':').map(u8::to_ascii_lowercase).collect::<Vec<u8>>().into()
            }
            Self::SanDns if has_upper => value.to_ascii_lowercase().into(),
            _ => value.into(),
        }
    }

    /// Returns the part called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_selector_names_any_part_or_the_only_value_of_one() {
        let certificate = |uris: &[&str]| ClientCertificate {
            uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
            dns_names: vec!["ops.example".into()],
            common_names: vec!["spiffe://a/ops".into()],
            fingerprint: "ab01".into(),
            ..ClientCertificate::default()
        };
        let (ops, both, none) =
            (certificate(&["spiffe://a/ops"]), certificate(&["spiffe://a/ops", "x:y"]), certificate(&[]));
        for (text, expected) in [
            ("spiffe://a/ops", [true, true, true]),
            ("OPS.example", [true, true, true]),
            ("tls:san-uri=spiffe://a/ops", [true, false, false]),
            ("tls:subject-cn = spiffe://a/ops", [true, true, true]),
            ("tls:san-dns=Ops.Example", [true, true, true]),
            ("tls:fingerprint-sha256=AB:01", [true, true, true]),
            ("tls:san-email=", [false, false, false]),
        ] {
            let selector = CertificateSelector::parse(text).unwrap();
            assert_eq!([&ops, &both, &none].map(|it| selector.selects(it)), expected, "{text}");
        }
        for text in ["tls:san-ip=10.0.0.1", "tls:san-uri", "tls:"] {
            assert_eq!(CertificateSelector::parse(text), None, "{text}");
        }
    }
}
