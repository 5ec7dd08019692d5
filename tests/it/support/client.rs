//! HTTP/1.1 client that sends bytes unchanged.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use super::PATIENCE;

/// One connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response, its body without chunking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The fields, in the order received.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Trailer fields of a chunked body.
    pub trailers: Vec<(String, String)>,
    /// True if the body ended as its framing announced.
    pub complete: bool,
}

impl Response {
    /// Returns the first field named `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// All fields named `name`.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// `GET path` on a connection of its own.
pub fn get(address: SocketAddr, path: &str) -> Response {
    Connection::open(address).request("GET", path, &[], b"")
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Self {
        Self::try_open(address).unwrap()
    }

    /// Connects, or returns the error.
    pub fn try_open(address: SocketAddr) -> std::io::Result<Self> {
        TcpStream::connect(address).map(Self::of)
    }

    /// Uses a connected socket.
    pub fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    /// Returns the socket itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Writes bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Writes bytes; the other side may have closed already.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Closes the sending side.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Sends a request with `Host: localhost` and, for a body, its `Content-Length`; reads the response.
    pub fn request(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.try_request(method, target, headers, body).expect("a response")
    }

    /// The same; `None` if the connection closed before a response.
    pub fn try_request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Response> {
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str("Host: localhost\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        self.try_send([head.as_bytes(), body].concat()).ok()?;
        self.read_response_to(method)
    }

    /// Reads a response to a `GET`.
    pub fn response(&mut self) -> Option<Response> {
        self.read_response_to("GET")
    }

    /// Reads a response to `method`, skipping 1xx; `None` if the connection closes before the head is complete.
    pub fn read_response_to(&mut self, method: &str) -> Option<Response> {
        loop {
            let (status, headers) = self.head()?;
            if (100..200).contains(&status) && status != 101 {
                continue;
            }
            let mut response = Response { status, headers, body: Vec::new(), trailers: Vec::new(), complete: true };
            let bodyless = method == "HEAD" || status == 204 || status == 304 || status == 101;
            if bodyless {
                return Some(response);
            }
            if response.header("transfer-encoding").is_some() {
                self.chunks(&mut response);
            } else if let Some(length) = response.header("content-length") {
                let length = length.parse().unwrap();
                response.body = self.take(length);
                response.complete = response.body.len() == length;
            } else {
                response.body = self.rest();
            }
            return Some(response);
        }
    }

    /// Reads until the other side closes.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.buffer)
    }

    /// Reads up to and including `end`, or until the other side closes.
    pub fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|window| window == end) {
                return self.buffer.drain(..at + end.len()).collect();
            }
            if !self.more() {
                return std::mem::take(&mut self.buffer);
            }
        }
    }

    /// Returns true if the other side has closed, or closes now, without another byte.
    pub fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && self.rest().is_empty()
    }

    fn head(&mut self) -> Option<(u16, Vec<(String, String)>)> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.more() {
                return None;
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let text = String::from_utf8_lossy(&head).into_owned();
        let mut lines = text.trim_end().split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        Some((status, lines.filter_map(field).collect()))
    }

    fn chunks(&mut self, response: &mut Response) {
        loop {
            let Some(line) = self.line() else {
                response.complete = false;
                return;
            };
            let size = usize::from_str_radix(line.split(';').next().unwrap().trim(), 16).unwrap();
            if size == 0 {
                break;
            }
            let data = self.take(size);
            response.complete = data.len() == size;
            response.body.extend(data);
            if !response.complete || self.line().is_none() {
                response.complete = false;
                return;
            }
        }
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            response.trailers.extend(field(&line));
        }
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..at + 2).collect();
                return Some(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// Reads `length` bytes, or fewer if the other side closes.
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length && self.more() {}
        self.buffer.drain(..length.min(self.buffer.len())).collect()
    }

    fn more(&mut self) -> bool {
        let mut piece = [0; 65536];
        match self.stream.read(&mut piece) {
            Ok(read @ 1..) => {
                self.buffer.extend_from_slice(&piece[..read]);
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("neither a byte nor an end in {PATIENCE:?}"),
            _ => false,
        }
    }
}

fn field(line: &str) -> Option<(String, String)> {
    line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
}
