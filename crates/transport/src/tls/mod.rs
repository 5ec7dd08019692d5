//! TLS to upstreams, with rustls, and its errors with the setting that corrects them.

mod verify;

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError::ApplicationVerificationFailure, CertificateError::BadSignature, CertificateError::Expired,
    CertificateError::ExpiredContext, CertificateError::InvalidPurpose, CertificateError::InvalidPurposeContext,
    CertificateError::NotValidForName, CertificateError::NotValidForNameContext, CertificateError::NotValidYet,
    CertificateError::NotValidYetContext, CertificateError::Revoked, CertificateError::UnknownIssuer, ClientConfig,
    Error::AlertReceived, Error::InvalidCertificate, Error::InvalidMessage, Error::PeerIncompatible, RootCertStore,
};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use tollgate_config::{Tls, TlsVersion, Trust};

/// Number of TLS sessions kept for resumption, for each origin (RFC 8446 §2.2).
const SESSIONS: usize = 8;

/// TLS connectors for one origin.
#[derive(Clone)]
pub struct TlsConnectors {
    name: ServerName<'static>,
    /// Offers HTTP/1.1 only.
    http1: TlsConnector,
    /// Offers HTTP/2 and HTTP/1.1.
    http2: TlsConnector,
}

impl TlsConnectors {
    /// Creates connectors to `host` with the settings `tls`.
    ///
    /// # Errors
    /// The host is not a valid server name, or the settings are invalid.
    pub fn new(tls: &Tls, host: &str) -> Result<Self, TlsError> {
        let name = tls.server_name.as_deref().unwrap_or(host);
        let name = server_name(name)?;
        let mut config = client_config(tls)?;
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let http1 = TlsConnector::from(Arc::new(config.clone()));
        config.alpn_protocols.insert(0, b"h2".to_vec());
        Ok(Self { name, http1, http2: TlsConnector::from(Arc::new(config)) })
    }

    /// Performs the TLS handshake on `stream`. If `offer_http2` is true, the server may choose HTTP/2.
    ///
    /// # Errors
    /// The server's certificate is not trusted, the server refuses the client's certificate, or it does not use TLS.
    pub async fn connect(&self, stream: TcpStream, offer_http2: bool) -> Result<TlsStream<TcpStream>, TlsError> {
        let connector = if offer_http2 { &self.http2 } else { &self.http1 };
        connector.connect(self.name.clone(), stream).await.map_err(TlsError::handshake)
    }
}

/// Returns the name of the server in SNI and in its certificate: lower case, without a final dot.
fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    ServerName::try_from(name).map_err(|_| TlsError::InvalidServerName)
}

impl std::fmt::Debug for TlsConnectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsConnectors").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Builds rustls' settings. Certificates and keys were validated when the configuration was read, so the only expected
/// error is an empty trust store.
///
/// # Errors
/// A certificate or key is invalid, or the system's trust store is empty.
fn client_config(tls: &Tls) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions: &[_] = match tls.min_version {
        TlsVersion::Tls12 => &[&TLS13, &TLS12],
        TlsVersion::Tls13 => &[&TLS13],
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(TlsError::InvalidSettings)?;
    let builder = match &tls.trust {
        Trust::System => builder.with_root_certificates(system_roots().ok_or(TlsError::NoCaCertificates)?),
        Trust::Authorities(certificates) => verify::with_ca_certificates(builder, certificates, provider)?,
        Trust::AnyCertificate => verify::without_verification(builder, &provider),
    };
    match &tls.identity {
        None => Ok(builder.with_no_client_auth()),
        Some(identity) => {
            let chain = identity.chain.iter().map(|certificate| CertificateDer::from(certificate.clone())).collect();
            let key = PrivateKeyDer::from_pem_slice(&identity.key)
                .map_err(|error| TlsError::InvalidSettings(rustls::Error::General(error.to_string())))?;
            builder.with_client_auth_cert(chain, key).map_err(TlsError::InvalidSettings)
        }
    }
}

/// Returns the system's trust store, read once; `None` if it is empty. `SSL_CERT_FILE` and `SSL_CERT_DIR` override its
/// location.
fn system_roots() -> Option<Arc<RootCertStore>> {
    static ROOTS: OnceLock<Option<Arc<RootCertStore>>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        (usable > 0).then(|| Arc::new(roots))
    };
    ROOTS.get_or_init(read).clone()
}

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
    fn handshake(source: io::Error) -> Self {
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
    fn a_server_has_one_name_in_all_spellings() {
        for host in ["A.Example", "a.example.", "a.example"] {
            assert_eq!(server_name(host).unwrap(), ServerName::try_from("a.example").unwrap());
        }
        assert!(server_name(".").is_err());
    }

    #[test]
    fn the_message_names_the_fault_of_the_certificate() {
        let error = io::Error::other(InvalidCertificate(UnknownIssuer));
        assert!(TlsError::handshake(error).to_string().contains("not signed by a trusted CA"));
        let error = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(TlsError::handshake(error).to_string(), "the connection failed");
    }
}
