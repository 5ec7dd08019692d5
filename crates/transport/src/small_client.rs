//! Client for single requests beside the traffic: key sets, and collectors of traces. It follows no redirects, because
//! only the configured server is trusted, and keeps no connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::request::Builder;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::tls::TlsError;

/// Error of a request.
#[derive(Debug, Error)]
pub enum CallError {
    /// The URL names no server.
    #[error("the URL has no host")]
    NoHost,
    /// The response is not complete in time.
    #[error("timed out after {0:?}")]
    Timeout(Duration),
    /// The name is unknown, or the server refuses the connection.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The trust store of the system is empty.
    #[error("the system has no trusted CA certificates; set SSL_CERT_FILE")]
    NoRoots,
    /// The certificate is not trusted, or the server does not speak TLS.
    #[error("TLS handshake failed")]
    Tls(#[source] io::Error),
    /// The connection failed.
    #[error("the HTTP request failed")]
    Http(#[from] hyper::Error),
    /// The request cannot be sent.
    #[error("the request is not valid")]
    Request(#[from] http::Error),
    /// The response has another status.
    #[error("the response status is {0}")]
    Status(StatusCode),
    /// The body is longer than the limit.
    #[error("the response body has more than {0} bytes")]
    TooLong(usize),
    /// The body broke off.
    #[error("the response body is incomplete")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<TlsError> for CallError {
    fn from(error: TlsError) -> Self {
        Self::Tls(io::Error::other(error))
    }
}

/// Bounds of a response.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Timeout from the DNS lookup to the last byte.
    pub timeout: Duration,
    /// Most bytes of the body.
    pub max_bytes: usize,
}

/// Sends `request` with `body` to `uri`, whose target and host it gets, and returns the body of the response. `tls` is
/// called for `https`.
///
/// # Errors
/// There is no response with a status of 2xx and a complete body within `bounds`.
pub async fn call(
    uri: &Uri,
    request: Builder,
    body: Bytes,
    tls: impl FnOnce() -> Result<Arc<ClientConfig>, CallError>,
    bounds: Bounds,
) -> Result<Bytes, CallError> {
    let response = exchange(uri, request, body, tls, bounds).await?;
    if response.status().is_success() { Ok(response.into_body()) } else { Err(CallError::Status(response.status())) }
}

/// As [`call`], and returns the response with any status.
///
/// # Errors
/// There is no complete response within `bounds`.
pub async fn exchange(
    uri: &Uri,
    request: Builder,
    body: Bytes,
    tls: impl FnOnce() -> Result<Arc<ClientConfig>, CallError>,
    bounds: Bounds,
) -> Result<Response<Bytes>, CallError> {
    let response = tokio::time::timeout(bounds.timeout, connect_and_send(uri, request, body, tls, bounds.max_bytes));
    response.await.unwrap_or(Err(CallError::Timeout(bounds.timeout)))
}

/// Returns TLS settings with the trusted CA certificates of the system, as they are now.
///
/// # Errors
/// The system has none.
pub fn system_tls() -> Result<Arc<ClientConfig>, CallError> {
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if usable == 0 {
        return Err(CallError::NoRoots);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| CallError::Tls(io::Error::other(error)))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

async fn connect_and_send(
    uri: &Uri,
    request: Builder,
    body: Bytes,
    tls: impl FnOnce() -> Result<Arc<ClientConfig>, CallError>,
    max_bytes: usize,
) -> Result<Response<Bytes>, CallError> {
    let is_https = uri.scheme_str() == Some("https");
    let host = uri.host().ok_or(CallError::NoHost)?.trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    let request = request
        .uri(uri.path_and_query().map_or("/", |target| target.as_str()))
        .header(HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(body))?;
    let stream = TcpStream::connect((host, port)).await.map_err(CallError::Connect)?;
    if !is_https {
        return send(TokioIo::new(stream), request, max_bytes).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|_| CallError::NoHost)?;
    let stream = TlsConnector::from(tls()?).connect(name, stream).await.map_err(CallError::Tls)?;
    send(TokioIo::new(stream), request, max_bytes).await
}

async fn send(
    io: impl Read + Write + Unpin,
    request: Request<Full<Bytes>>,
    max_bytes: usize,
) -> Result<Response<Bytes>, CallError> {
    let (mut sender, connection) = http1::handshake(io).await?;
    let response = async {
        let response = sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, max_bytes).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { CallError::TooLong(max_bytes) } else { CallError::Body(error) }
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    tokio::pin!(response);
    tokio::select! {
        outcome = &mut response => outcome,
        // The connection task can end before the body is read, when the server closes.
        _ = connection => response.await,
    }
}
