//! Upstreams that use TLS, HTTP/2, or both.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tollgate_test_support::Certificates;

/// Body of a response.
pub type ResponseBody = BoxBody<Bytes, Infallible>;
type ResponseFuture = Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>;
type Handler = dyn Fn(Request<Incoming>) -> ResponseFuture + Send + Sync;

/// A listening upstream. Its thread ends with the test process.
pub struct Server {
    /// Listening address.
    pub address: SocketAddr,
    seen: Arc<Seen>,
}

/// Protocol settings of a server.
#[derive(Clone)]
pub struct ServerProtocol {
    /// TLS settings; `None` for clear text.
    pub tls: Option<Arc<ServerConfig>>,
    /// Streams that a client may have open at once.
    pub max_streams: u32,
    /// Number of requests on a connection after which the server sends GOAWAY.
    pub goes_after: usize,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    resumed: AtomicUsize,
    failed: AtomicUsize,
    names: Mutex<Vec<Option<String>>>,
    protocols: Mutex<Vec<String>>,
}

/// A body of frames.
pub enum Frames {
    /// These.
    Of(VecDeque<Frame<Bytes>>),
    /// 16 KB again and again.
    Endless,
}

impl Frames {
    /// These frames.
    pub fn of(frames: impl IntoIterator<Item = Frame<Bytes>>) -> Self {
        Self::Of(frames.into_iter().collect())
    }
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(match self.get_mut() {
            Self::Of(frames) => frames.pop_front().map(Ok),
            Self::Endless => Some(Ok(Frame::data(Bytes::from_static(&[0; 16384])))),
        })
    }
}

/// An answer with a text.
pub fn answer(text: impl Into<String>) -> Response<ResponseBody> {
    Response::new(Full::new(Bytes::from(text.into())).boxed())
}

/// Answers with the request in one line: version, method, whole target.
pub async fn echo_request(request: Request<Incoming>) -> Response<ResponseBody> {
    let host = request.headers().get("host").map_or("-", |host| host.to_str().unwrap());
    answer(format!("{:?} {} {} host={host}", request.version(), request.method(), request.uri()))
}

/// Certificate and key of a server.
pub struct Keys {
    certificate: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Keys {
    /// The server's certificate as it is now.
    pub fn of(certificates: &Certificates) -> Self {
        Self::read(&certificates.server(), &certificates.server_key())
    }

    /// From files.
    pub fn read(certificate: &Path, key: &Path) -> Self {
        let certificate = CertificateDer::pem_file_iter(certificate).unwrap().map(Result::unwrap).collect();
        Self { certificate, key: PrivateKeyDer::from_pem_file(key).unwrap() }
    }
}

impl ServerProtocol {
    /// No TLS.
    pub fn plain() -> Self {
        Self { tls: None, max_streams: 100, goes_after: usize::MAX }
    }

    /// TLS with `keys`, offering these protocols.
    pub fn tls(keys: Keys, protocols: &[&str]) -> Self {
        Self::tls_of(keys, protocols, rustls::DEFAULT_VERSIONS, None)
    }

    /// The same with certain versions, and for clients that `clients` has signed.
    pub fn tls_of(
        keys: Keys,
        protocols: &[&str],
        versions: &[&'static SupportedProtocolVersion],
        clients: Option<&Certificates>,
    ) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions).unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(certificates) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_file(certificates.ca()).unwrap()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(keys.certificate, keys.key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Self { tls: Some(Arc::new(config)), ..Self::plain() }
    }
}

impl Server {
    /// Answers with what the request was.
    pub fn echoing(protocol: ServerProtocol) -> Self {
        Self::start(protocol, |request| Box::pin(echo_request(request)))
    }

    /// Sends the response of `handler`. HTTP/2 without TLS is recognized by its preface.
    pub fn start(
        protocol: ServerProtocol,
        handler: impl Fn(Request<Incoming>) -> ResponseFuture + Send + Sync + 'static,
    ) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let seen = Arc::new(Seen::default());
        let noted = Arc::clone(&seen);
        let handler: Arc<Handler> = Arc::new(handler);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    noted.connections.fetch_add(1, SeqCst);
                    tokio::spawn(serve(stream, protocol.clone(), Arc::clone(&handler), Arc::clone(&noted)));
                }
            });
        });
        Self { address, seen }
    }

    /// A URI of it by the name `localhost`.
    pub fn uri(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}", self.address.port())
    }

    /// Returns the connections that it has accepted.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(SeqCst)
    }

    /// The TLS sessions among them that were resumed.
    pub fn resumed(&self) -> usize {
        self.seen.resumed.load(SeqCst)
    }

    /// Returns the names that it was asked for by (SNI).
    pub fn names(&self) -> Vec<Option<String>> {
        self.seen.names.lock().unwrap().clone()
    }

    /// Returns the protocols that were chosen, one for each TLS connection.
    pub fn protocols(&self) -> Vec<String> {
        self.seen.protocols.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, protocol: ServerProtocol, handler: Arc<Handler>, seen: Arc<Seen>) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = &protocol.tls else {
        let mut start = [0; 3];
        let is_http2 = stream.peek(&mut start).await.is_ok() && start == *b"PRI";
        return talk(stream, is_http2, &protocol, handler).await;
    };
    let Ok(stream) = TlsAcceptor::from(Arc::clone(tls)).accept(stream).await else {
        seen.failed.fetch_add(1, SeqCst);
        return;
    };
    let session = stream.get_ref().1;
    let alpn = String::from_utf8_lossy(session.alpn_protocol().unwrap_or_default()).into_owned();
    let is_http2 = alpn == "h2";
    seen.names.lock().unwrap().push(session.server_name().map(str::to_owned));
    seen.protocols.lock().unwrap().push(alpn);
    if session.handshake_kind() == Some(rustls::HandshakeKind::Resumed) {
        seen.resumed.fetch_add(1, SeqCst);
    }
    talk(stream, is_http2, &protocol, handler).await;
}

async fn talk<S>(stream: S, is_http2: bool, protocol: &ServerProtocol, handler: Arc<Handler>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (going, mut gone) = tokio::sync::mpsc::channel(1);
    let (goes_after, counted) = (protocol.goes_after, AtomicUsize::new(0));
    let service = service_fn(move |request| {
        if counted.fetch_add(1, SeqCst) + 1 == goes_after {
            let _ = going.try_send(());
        }
        let answering = handler(request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
    if !is_http2 {
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            _ = &mut connection => return,
            Some(()) = gone.recv() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
        return;
    }
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(protocol.max_streams)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = &mut connection => return,
        Some(()) = gone.recv() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
