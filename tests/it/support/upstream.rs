//! Upstreams: one that behaves correctly, and scripts for faults.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::PATIENCE;

/// A listening upstream. Its threads end with the test process.
pub struct Upstream {
    /// Listening address.
    pub address: SocketAddr,
    received: Arc<Received>,
}

#[derive(Default)]
struct Received {
    connections: AtomicUsize,
    requests: Mutex<Vec<Request>>,
}

/// A request as received.
#[derive(Clone, Debug)]
pub struct Request {
    /// The request line.
    pub line: String,
    /// The fields, in the order received.
    pub headers: Vec<(String, String)>,
    /// The body, without chunking.
    pub body: Vec<u8>,
}

impl Request {
    /// Returns the first field named `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// All fields named `name`.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the request target.
    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap()
    }
}

impl Upstream {
    /// Starts an upstream that keeps connections open, and answers each request with the raw bytes that `answer`
    /// returns.
    pub fn start(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::scripted(move |stream, report| {
            while let Some(request) = read_request(stream) {
                let bytes = answer(&request);
                report(request);
                if stream.write_all(&bytes).is_err() {
                    return;
                }
            }
        })
    }

    /// Answers everything with 200 and `body`.
    pub fn ok(body: &'static str) -> Self {
        Self::start(move |_| response(200, &[], body.as_bytes()))
    }

    /// Starts an upstream that handles each connection with `script`, which reports the requests that it has read.
    pub fn scripted(script: impl Fn(&mut TcpStream, &dyn Fn(Request)) + Send + Sync + 'static) -> Self {
        Self::scripted_at(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    /// The same on `listener`.
    pub fn scripted_at(
        listener: TcpListener,
        script: impl Fn(&mut TcpStream, &dyn Fn(Request)) + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Received::default());
        let script = Arc::new(script);
        let record = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let (script, record) = (Arc::clone(&script), Arc::clone(&record));
                record.connections.fetch_add(1, SeqCst);
                let _ = stream.set_nodelay(true);
                let _ = stream.set_read_timeout(Some(PATIENCE));
                std::thread::spawn(move || {
                    script(&mut stream, &|request| record.requests.lock().unwrap().push(request));
                });
            }
        });
        Self { address, received }
    }

    /// URI of the upstream for a route.
    pub fn uri(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Complete requests received.
    pub fn requests(&self) -> Vec<Request> {
        self.received.requests.lock().unwrap().clone()
    }

    /// Targets of those requests.
    pub fn targets(&self) -> Vec<String> {
        self.requests().iter().map(|request| request.target().to_owned()).collect()
    }

    /// Returns the number of connections accepted.
    pub fn connections(&self) -> usize {
        self.received.connections.load(SeqCst)
    }
}

/// Returns the bytes of a response with a length.
pub fn response(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status} Some Reason\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    bytes.push_str("\r\n");
    [bytes.as_bytes(), body].concat()
}

/// Reads a request with its body; `None` if the connection closes before its end.
pub fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut reader = ByteReader { stream };
    let line = reader.line()?;
    let mut headers = Vec::new();
    loop {
        let field = reader.line()?;
        if field.is_empty() {
            break;
        }
        let (name, value) = field.split_once(':').unwrap();
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut request = Request { line, headers, body: Vec::new() };
    if let Some(length) = request.header("content-length") {
        request.body = reader.take(length.parse().unwrap())?;
    } else if request.header("transfer-encoding").is_some() {
        loop {
            let size = usize::from_str_radix(reader.line()?.trim(), 16).unwrap();
            if size == 0 {
                break;
            }
            request.body.extend(reader.take(size)?);
            reader.line()?;
        }
        while !reader.line()?.is_empty() {}
    }
    Some(request)
}

/// Writes zeros until less than one piece is accepted in a second, or all are written; returns the number written. A few bytes
/// now and then are no progress: the kernel lets a peer that reads nothing grow its receive buffer with each probe.
pub fn write_until_stalled(stream: &mut TcpStream, length: usize) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let piece = vec![0; 64 * 1024];
    let (mut written, mut since, mut written_then) = (0, Instant::now(), 0);
    while written < length {
        match stream.write(&piece[..piece.len().min(length - written)]) {
            Ok(more) => written += more,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
        if written - written_then >= piece.len() {
            (since, written_then) = (Instant::now(), written);
        } else if since.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    written
}

/// Reads no more bytes than requested, so that bytes after a request stay in the socket.
struct ByteReader<'a> {
    stream: &'a mut TcpStream,
}

impl ByteReader<'_> {
    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(self.take(1)?);
        }
        line.truncate(line.len() - 2);
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }
}
