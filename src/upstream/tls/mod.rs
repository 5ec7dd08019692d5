//! TLS to upstreams: rustls with the process' one cryptography.

mod error;
mod verify;

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub use self::error::TlsError;
use tollgate_config::{Tls, TlsVersion, Trust};

/// Sessions that are remembered for each origin, to resume them (RFC 8446 §2.2).
const SESSIONS: usize = 8;

/// How TLS is set up with one origin.
#[derive(Clone)]
pub struct Connectors {
    name: ServerName<'static>,
    /// Offers HTTP/1.1 alone.
    http1: TlsConnector,
    /// Offers HTTP/2 as well.
    http2: TlsConnector,
}

impl Connectors {
    /// Connectors to `host` under `tls`.
    ///
    /// # Errors
    /// The host cannot have a certificate, or nobody's certificates are trusted.
    pub fn new(tls: &Tls, host: &str) -> Result<Self, TlsError> {
        let name = tls.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name)?;
        let mut config = client_config(tls)?;
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let http1 = TlsConnector::from(Arc::new(config.clone()));
        config.alpn_protocols.insert(0, b"h2".to_vec());
        Ok(Self { name, http1, http2: TlsConnector::from(Arc::new(config)) })
    }

    /// Sets up TLS over `stream`; with `offer_http2` the server may choose it.
    ///
    /// # Errors
    /// The server's certificate is none to be believed, it does not believe ours, or it speaks no TLS.
    pub async fn connect(&self, stream: TcpStream, offer_http2: bool) -> Result<TlsStream<TcpStream>, TlsError> {
        let connector = if offer_http2 { &self.http2 } else { &self.http1 };
        connector.connect(self.name.clone(), stream).await.map_err(TlsError::handshake)
    }
}

impl std::fmt::Debug for Connectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connectors").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The settings as rustls wants them. Whether they can be used is found out when they are read: what fails here is
/// at most that the system trusts nobody.
///
/// # Errors
/// A certificate or key that cannot be used, or nobody to trust.
pub fn client_config(tls: &Tls) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions: &[_] = match tls.min_version {
        TlsVersion::Tls12 => &[&TLS13, &TLS12],
        TlsVersion::Tls13 => &[&TLS13],
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(TlsError::Unusable)?;
    let builder = match &tls.trust {
        Trust::System => builder.with_root_certificates(system_roots().ok_or(TlsError::NoRoots)?),
        Trust::Authorities(certificates) => verify::authorities(builder, certificates, provider)?,
        Trust::Anybody => verify::anybody(builder, &provider),
    };
    match &tls.identity {
        None => Ok(builder.with_no_client_auth()),
        Some(identity) => {
            let chain = identity.chain.iter().map(|certificate| CertificateDer::from(certificate.clone())).collect();
            let key = PrivateKeyDer::from_pem_slice(&identity.key)
                .map_err(|error| TlsError::Unusable(rustls::Error::General(error.to_string())))?;
            builder.with_client_auth_cert(chain, key).map_err(TlsError::Unusable)
        }
    }
}

/// The authorities that the system trusts, read once; `None` where it trusts none. `SSL_CERT_FILE` and `SSL_CERT_DIR`
/// say where they are.
pub fn system_roots() -> Option<Arc<RootCertStore>> {
    static ROOTS: OnceLock<Option<Arc<RootCertStore>>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        (usable > 0).then(|| Arc::new(roots))
    };
    ROOTS.get_or_init(read).clone()
}

/// The rustls error in `error`, if that is what it is.
fn of_rustls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}
