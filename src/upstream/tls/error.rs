//! Why there is no TLS with an upstream, in words that say what to do.

use std::io;

use rustls::CertificateError::{
    ApplicationVerificationFailure, BadSignature, Expired, ExpiredContext, InvalidPurpose, InvalidPurposeContext,
    NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext, Revoked, UnknownIssuer,
};
use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage, PeerIncompatible};
use thiserror::Error;

use crate::upstream::tls::of_rustls;

/// Why there is no TLS with an upstream.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A certificate or key cannot be used.
    #[error("the TLS settings cannot be used")]
    Unusable(#[source] rustls::Error),
    /// The host is neither a name nor an address.
    #[error("the host cannot stand in a certificate: `tls.server-name` says which name to expect")]
    Name,
    /// The system trusts nobody.
    #[error("this system has no certificates to trust: SSL_CERT_FILE or `httpclient.tls.ca` can name some")]
    NoRoots,
    /// The two did not come to terms.
    #[error("{why}")]
    Handshake {
        /// Whose fault it is, as far as it shows.
        why: &'static str,
        /// What rustls or the system says.
        source: io::Error,
    },
}

impl TlsError {
    pub(super) fn handshake(source: io::Error) -> Self {
        let why = match of_rustls(&source) {
            Some(error) => explain(error),
            None if source.kind() == io::ErrorKind::UnexpectedEof => "the upstream closed the connection",
            None => "the connection broke off",
        };
        Self::Handshake { why, source }
    }
}

fn explain(error: &rustls::Error) -> &'static str {
    match error {
        InvalidCertificate(error) => match error {
            Expired | ExpiredContext { .. } => "the upstream's certificate has expired",
            NotValidYet | NotValidYetContext { .. } => "the upstream's certificate is not valid yet",
            UnknownIssuer => {
                "the upstream's certificate is of no authority that is trusted: `httpclient.tls.ca` names others"
            }
            NotValidForName | NotValidForNameContext { .. } => {
                "the upstream's certificate is for another name: `tls.server-name` says which to expect"
            }
            Revoked => "the upstream's certificate is revoked",
            InvalidPurpose | InvalidPurposeContext { .. } => "the upstream's certificate is not one for servers",
            BadSignature | ApplicationVerificationFailure => "the upstream's certificate is forged",
            _ => "the upstream's certificate cannot be used",
        },
        AlertReceived(_) => "the upstream refused: it may want a certificate (`httpclient.tls.cert`) or another name",
        PeerIncompatible(_) => "the upstream speaks no version of TLS, or no cipher, that the gateway speaks",
        InvalidMessage(_) => "what the upstream speaks is no TLS: is it `http://`?",
        _ => "TLS failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_certificate_is_said_first() {
        let error = io::Error::other(InvalidCertificate(UnknownIssuer));
        assert!(TlsError::handshake(error).to_string().contains("no authority that is trusted"));
        let error = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(TlsError::handshake(error).to_string(), "the connection broke off");
    }
}
