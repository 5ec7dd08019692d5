//! Errors of TLS to upstreams, with the setting that corrects them.

use std::io;

use rustls::CertificateError::{
    ApplicationVerificationFailure, BadSignature, Expired, ExpiredContext, InvalidPurpose, InvalidPurposeContext,
    NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext, Revoked, UnknownIssuer,
};
use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage, PeerIncompatible};
use thiserror::Error;

/// Error of TLS to an upstream.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A configured certificate or key is invalid.
    #[error("invalid TLS settings")]
    InvalidSettings(#[source] rustls::Error),
    /// The host is neither a DNS name nor an IP address.
    #[error("the host is not a valid server name: set `tls.server-name` to the name in its certificate")]
    InvalidServerName,
    /// The system's trust store is empty.
    #[error("the system has no CA certificates: set SSL_CERT_FILE or `httpclient.tls.ca`")]
    NoCaCertificates,
    /// The handshake failed.
    #[error("{reason}")]
    Handshake {
        /// Cause of the failure, as far as it is known.
        reason: &'static str,
        /// Error of rustls or of the system.
        source: io::Error,
    },
}

impl TlsError {
    pub(super) fn handshake(source: io::Error) -> Self {
        let reason = match as_rustls_error(&source) {
            Some(error) => reason(error),
            None if source.kind() == io::ErrorKind::UnexpectedEof => "the upstream closed the connection",
            None => "the connection failed",
        };
        Self::Handshake { reason, source }
    }
}

fn as_rustls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn reason(error: &rustls::Error) -> &'static str {
    match error {
        InvalidCertificate(error) => match error {
            Expired | ExpiredContext { .. } => "the upstream's certificate has expired",
            NotValidYet | NotValidYetContext { .. } => "the upstream's certificate is not valid yet",
            UnknownIssuer => "the upstream's certificate is not signed by a trusted CA: set `httpclient.tls.ca`",
            NotValidForName | NotValidForNameContext { .. } => {
                "the upstream's certificate is for another name: set `tls.server-name` to the expected name"
            }
            Revoked => "the upstream's certificate is revoked",
            InvalidPurpose | InvalidPurposeContext { .. } => "the upstream's certificate is not for servers",
            BadSignature | ApplicationVerificationFailure => "the upstream's certificate has an invalid signature",
            _ => "the upstream's certificate is invalid",
        },
        AlertReceived(_) => {
            "the upstream refused: it may require a certificate (`httpclient.tls.cert`) or another name"
        }
        PeerIncompatible(_) => "the upstream supports no TLS version or cipher suite that the gateway supports",
        InvalidMessage(_) => "the upstream does not use TLS: change `https://` to `http://`",
        _ => "TLS handshake failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_the_fault_of_the_certificate() {
        let error = io::Error::other(InvalidCertificate(UnknownIssuer));
        assert!(TlsError::handshake(error).to_string().contains("not signed by a trusted CA"));
        let error = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(TlsError::handshake(error).to_string(), "the connection failed");
    }
}
