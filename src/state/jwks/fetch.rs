//! HTTP GET of one small document, with or without TLS.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Largest document, in bytes. Key sets have a few thousand bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Timeout from the DNS lookup to the last byte.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Error of a fetch.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    #[error("the URL has no host")]
    NoHost,
    #[error("timed out after {TIMEOUT:?}")]
    Timeout,
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("the system has no trusted CA certificates; set SSL_CERT_FILE")]
    NoRoots,
    #[error("TLS handshake failed")]
    Tls(#[source] io::Error),
    #[error("the HTTP request failed")]
    Http(#[from] hyper::Error),
    #[error("the response status is {0}, not 200")]
    Status(StatusCode),
    #[error("the response body has more than {MAX_BYTES} bytes")]
    TooLong,
    #[error("the response body is incomplete")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Returns the response body of a `GET` of `uri`. Does not follow redirects: only the configured server is trusted.
///
/// # Errors
/// The server does not send a 200 with at most [`MAX_BYTES`] within [`TIMEOUT`].
pub(super) async fn fetch(uri: &Uri) -> Result<Bytes, FetchError> {
    tokio::time::timeout(TIMEOUT, get(uri)).await.unwrap_or(Err(FetchError::Timeout))
}

async fn get(uri: &Uri) -> Result<Bytes, FetchError> {
    let is_https = uri.scheme_str() == Some("https");
    let host = uri.host().ok_or(FetchError::NoHost)?.trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await.map_err(FetchError::Connect)?;
    if !is_https {
        return send(TokioIo::new(stream), uri).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|_| FetchError::NoHost)?;
    let tls = TlsConnector::from(tls_config()?).connect(name, stream).await.map_err(FetchError::Tls)?;
    send(TokioIo::new(tls), uri).await
}

/// Returns a TLS configuration with the system's trusted CA certificates, read for each fetch: they change, and
/// fetches are rare.
fn tls_config() -> Result<Arc<ClientConfig>, FetchError> {
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if usable == 0 {
        return Err(FetchError::NoRoots);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| FetchError::Tls(io::Error::other(error)))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

async fn send(io: impl Read + Write + Unpin, uri: &Uri) -> Result<Bytes, FetchError> {
    let (mut sender, connection) = http1::handshake(io).await?;
    let request = Request::get(uri.path_and_query().map_or("/", |target| target.as_str()))
        .header(HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(ACCEPT, "application/jwk-set+json, application/json")
        .header(USER_AGENT, "tollgate")
        .body(Empty::<Bytes>::new());
    let response = async {
        let response = sender.send_request(request.map_err(|_| FetchError::NoHost)?).await?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
        body.map(http_body_util::Collected::to_bytes)
            .map_err(|error| if error.is::<LengthLimitError>() { FetchError::TooLong } else { FetchError::Body(error) })
    };
    tokio::pin!(response);
    tokio::select! {
        outcome = &mut response => outcome,
        // The connection task can end before the body is read, when the server closes.
        _ = connection => response.await,
    }
}
