//! HTTP POST of one batch to the collector, with or without TLS.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use tollgate_config::OtlpExport;

/// Most bytes of a response, which are read and ignored.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// Error of a batch.
#[derive(Debug, Error)]
pub(super) enum PostError {
    #[error("the URL has no host")]
    NoHost,
    #[error("no response in time")]
    Timeout,
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("the system has no trusted CA certificates; set SSL_CERT_FILE")]
    NoRoots,
    #[error("TLS handshake failed: {0}")]
    Tls(io::Error),
    #[error("the HTTP request failed: {0}")]
    Http(#[from] hyper::Error),
    #[error("a header is not valid: {0}")]
    Request(#[from] http::Error),
    #[error("the response status is {0}")]
    Status(StatusCode),
}

/// TLS settings of collectors, read on first use.
#[derive(Debug, Default)]
pub(super) struct Collectors(OnceCell<Arc<ClientConfig>>);

impl PostError {
    /// Text of the error for the log.
    pub(super) fn chain(&self) -> String {
        self.to_string()
    }
}

impl Collectors {
    /// Sends `body` to the collector, within the timeout of `settings`.
    pub(super) async fn post(&self, settings: &OtlpExport, body: Vec<u8>) -> Result<(), PostError> {
        let sent = tokio::time::timeout(settings.timeout, self.send(settings, body)).await;
        sent.unwrap_or(Err(PostError::Timeout))
    }

    async fn send(&self, settings: &OtlpExport, body: Vec<u8>) -> Result<(), PostError> {
        let uri = &settings.endpoint;
        let is_https = uri.scheme_str() == Some("https");
        let host = uri.host().ok_or(PostError::NoHost)?.trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let mut request = Request::post(uri.path_and_query().map_or("/", |target| target.as_str()))
            .header(HOST, uri.authority().map_or("", |authority| authority.as_str()))
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &settings.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let stream = TcpStream::connect((host, port)).await.map_err(PostError::Connect)?;
        if !is_https {
            return exchange(TokioIo::new(stream), request).await;
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|_| PostError::NoHost)?;
        let tls = TlsConnector::from(self.tls()?).connect(name, stream).await.map_err(PostError::Tls)?;
        exchange(TokioIo::new(tls), request).await
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, PostError> {
        if let Some(config) = self.0.get() {
            return Ok(Arc::clone(config));
        }
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if usable == 0 {
            return Err(PostError::NoRoots);
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| PostError::Tls(io::Error::other(error)))?;
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        Ok(Arc::clone(self.0.get_or_init(|| config)))
    }
}

async fn exchange(io: impl Read + Write + Unpin, request: Request<Full<Bytes>>) -> Result<(), PostError> {
    let (mut sender, connection) = http1::handshake(io).await?;
    let response = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let _ = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
        if status.is_success() { Ok(()) } else { Err(PostError::Status(status)) }
    };
    tokio::pin!(response);
    tokio::select! {
        outcome = &mut response => outcome,
        // The connection task can end before the body is read, when the server closes.
        _ = connection => response.await,
    }
}
