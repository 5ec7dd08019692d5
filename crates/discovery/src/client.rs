//! HTTP/1.1 client for the server of a registry, with limits of size and time, and a pool of idle connections.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::instance::ReadError;
use tollgate_config::{RegistryServer, Scheme, Tls};
use tollgate_transport::executor::spawn_boxed;
use tollgate_transport::small_client::CallError;
use tollgate_transport::tls::TlsConnectors;

/// Maximum size of a response body, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Maximum size of a response header, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Time after the start of a request on an idle connection. An error within it means that the server had closed the connection.
const IDLE_CLOSE: Duration = Duration::from_millis(500);
/// Maximum number of idle connections.
const MAX_IDLE: usize = 256;
/// Size above which a body counts as large, in bytes.
const LARGE: usize = 64 << 10;
/// Maximum number of large bodies that are read at the same time. A gateway may watch a thousand services.
const MAX_LARGE: usize = 4;

/// Error of a registry.
#[derive(Debug, Error)]
pub(super) enum RegistryError {
    #[error("no usable response")]
    Client(#[from] CallError),
    #[error("the response cannot be read")]
    Read(#[from] ReadError),
    #[error("login failed")]
    Login(#[source] CallError),
    #[error("the response to the login cannot be read")]
    LoginShape(#[source] ReadError),
    #[error("cannot read the token in {0}")]
    TokenFile(String, #[source] io::Error),
    #[error("the token cannot be sent in a header field")]
    Token,
    #[error("there are more than {0} EndpointSlices")]
    TooMany(usize),
    #[error("the list changed while it was read")]
    ListGone,
    #[error("no address from which the registry can be reached")]
    Address(#[from] io::Error),
}

/// Response to a request.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Request to a registry.
#[derive(Clone, Debug)]
pub(super) struct Call<'c> {
    pub(super) method: Method,
    /// Path and query, which follow the path of the server's URL.
    pub(super) target: &'c str,
    pub(super) headers: &'c [(HeaderName, HeaderValue)],
    pub(super) body: Bytes,
    pub(super) timeout: Duration,
    /// False if a lost connection fails the request, even if it was kept.
    pub(super) may_repeat: bool,
}

/// Client of one server.
#[derive(Debug)]
pub(super) struct HttpClient {
    server: RegistryServer,
    tls: Tls,
    authorization: Option<HeaderValue>,
    idle: RefCell<Vec<SendRequest<Full<Bytes>>>>,
    large: Semaphore,
}

impl<'c> Call<'c> {
    /// Creates a `GET` of `target`.
    pub(super) fn get(target: &'c str, timeout: Duration) -> Self {
        Self::new(Method::GET, target, timeout)
    }

    /// Creates a request without a body.
    pub(super) fn new(method: Method, target: &'c str, timeout: Duration) -> Self {
        Self { method, target, headers: &[], body: Bytes::new(), timeout, may_repeat: true }
    }

    /// Adds a body.
    #[must_use]
    pub(super) fn body(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// Adds header fields.
    #[must_use]
    pub(super) fn headers(self, headers: &'c [(HeaderName, HeaderValue)]) -> Self {
        Self { headers, ..self }
    }
}

impl Reply {
    /// Returns the body of a response with status 200.
    ///
    /// # Errors
    /// The status is another one.
    pub(super) fn ok(self) -> Result<Bytes, CallError> {
        if self.status == StatusCode::OK { Ok(self.body) } else { Err(CallError::Status(self.status)) }
    }
}

/// Encodes `text` as one segment of a path, or one value of a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl HttpClient {
    /// Creates a client without connections.
    pub(super) fn new(server: &RegistryServer, tls: &Tls) -> Self {
        let login = server.login.as_ref().map(|(name, password)| STANDARD.encode(format!("{name}:{}", password.0)));
        let authorization = login.and_then(|login| {
            let mut value = HeaderValue::try_from(format!("Basic {login}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Self {
            server: server.clone(),
            tls: tls.clone(),
            authorization,
            idle: RefCell::default(),
            large: Semaphore::new(MAX_LARGE),
        }
    }

    /// Sends `call` and returns the whole response, whatever its status is. Redirects are not followed: only the
    /// configured server is trusted.
    ///
    /// # Errors
    /// The server does not respond in time, or with too many bytes.
    pub(super) async fn send(&self, call: &Call<'_>) -> Result<Reply, CallError> {
        let sent = tokio::time::timeout(call.timeout, self.exchange(call)).await;
        sent.unwrap_or(Err(CallError::Timeout(call.timeout)))
    }

    async fn exchange(&self, call: &Call<'_>) -> Result<Reply, CallError> {
        loop {
            let kept = self.idle.borrow_mut().pop();
            let is_kept = kept.is_some();
            let mut sender = match kept {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            if sender.ready().await.is_err() && is_kept {
                continue;
            }
            let sent = Instant::now();
            match sender.send_request(self.request(call)?).await {
                // The server closed the connection while it was idle.
                Err(error)
                    if is_kept
                        && call.may_repeat
                        && sent.elapsed() < IDLE_CLOSE
                        && (error.is_canceled() || error.is_incomplete_message()) => {}
                Err(error) => return Err(error.into()),
                Ok(response) => return self.read(sender, response).await,
            }
        }
    }

    /// Reads a response, and keeps the connection.
    async fn read(&self, sender: SendRequest<Full<Bytes>>, response: Response<Incoming>) -> Result<Reply, CallError> {
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Limited::new(response.into_body(), MAX_BYTES);
        let mut bytes = BytesMut::new();
        let mut slot = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                if error.is::<LengthLimitError>() { CallError::TooLong(MAX_BYTES) } else { CallError::Body(error) }
            })?;
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            if bytes.len() > LARGE && slot.is_none() {
                slot = self.large.acquire().await.ok();
            }
        }
        let mut idle = self.idle.borrow_mut();
        if !sender.is_closed() && idle.len() < MAX_IDLE {
            idle.push(sender);
        }
        Ok(Reply { status, headers, body: bytes.freeze() })
    }

    pub(super) fn request(&self, call: &Call<'_>) -> Result<Request<Full<Bytes>>, http::Error> {
        let RegistryServer { scheme, host, port, path, .. } = &self.server;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let authority = if *port == scheme.default_port() { host } else { format!("{host}:{port}") };
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{path}{}", call.target))
            .header(HOST, authority)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        for (name, value) in call.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(call.body.clone()))
    }

    pub(super) async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, CallError> {
        let stream = TcpStream::connect((self.server.host.as_str(), self.server.port)).await;
        let stream = stream.map_err(CallError::Connect)?;
        let _ = stream.set_nodelay(true);
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD_BYTES);
        Ok(match self.server.scheme {
            Scheme::Http => {
                let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
                spawn_boxed(async move { drop(connection.await) });
                sender
            }
            Scheme::Https => {
                let stream = TlsConnectors::new(&self.tls, &self.server.host)?.connect(stream, false).await?;
                let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
                spawn_boxed(async move { drop(connection.await) });
                sender
            }
        })
    }
}

/// Pause after the first failure. It doubles with each further one …
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// … up to this pause.
const LAST_RETRY: Duration = Duration::from_secs(8);

/// Returns the pause after a failure that followed `failures` others, randomized by a fifth: all gateways lose a registry
/// at the same moment.
pub(super) fn retry_after(failures: u32) -> Duration {
    let pause = FIRST_RETRY.saturating_mul(1 << failures.min(8)).min(LAST_RETRY);
    pause.mul_f64(0.8 + 0.4 * fastrand::f64())
}
