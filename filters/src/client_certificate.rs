//! Certificates of clients, for keys.

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

/// Part of a certificate that is a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificatePart {
    /// URI among the alternative names.
    SanUri,
    /// DNS name among the alternative names.
    SanDns,
    /// E-mail address among the alternative names.
    SanEmail,
    /// Common name of the subject.
    SubjectCn,
    /// SHA-256 of the certificate.
    Fingerprint,
}

impl ClientCertificate {
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

impl CertificatePart {
    /// All parts.
    pub const ALL: [Self; 5] = [Self::SanUri, Self::SanDns, Self::SanEmail, Self::SubjectCn, Self::Fingerprint];

    /// Returns the name behind `tls:`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SanUri => "san-uri",
            Self::SanDns => "san-dns",
            Self::SanEmail => "san-email",
            Self::SubjectCn => "subject-cn",
            Self::Fingerprint => "fingerprint-sha256",
        }
    }

    /// Returns the part called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == name)
    }
}
