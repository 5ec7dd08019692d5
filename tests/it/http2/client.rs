//! HTTP/2 client for conformance tests: writes raw frames over cleartext or TLS, and remembers the frames that it read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tollgate_test_support::Certificates;

use crate::support::PATIENCE;
use crate::support::gateway::Gateway;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

/// Connections to a gateway.
pub(super) enum Transport {
    /// HTTP/2 with prior knowledge.
    Clear(SocketAddr),
    /// TLS with ALPN.
    Tls(SocketAddr, Arc<ClientConfig>),
}

trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// A connection.
pub(super) struct Client {
    stream: Box<dyn Stream>,
    byte_by_byte: bool,
    /// Frames read so far: type, stream, start of the payload.
    pub(super) seen: Vec<(u8, u32, Vec<u8>)>,
}

impl Transport {
    /// Starts a gateway with TLS that forwards everything to `uri`.
    pub(super) fn tls(uri: &str) -> (Gateway, Self) {
        let certificates = Certificates::new();
        let gateway = Gateway::start(&format!(
            "server: {{address: 127.0.0.1, workers: 1, ssl: {{certificate: {}, certificate-private-key: {}}}}}\n\
             routes: [{{id: a, uri: '{uri}', predicates: [Path=/**]}}]",
            certificates.server().display(),
            certificates.server_key().display(),
        ));
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificates.ca()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let transport = Self::Tls(gateway.address, Arc::new(config));
        (gateway, transport)
    }

    fn connect(&self) -> Box<dyn Stream> {
        let open = |address: &SocketAddr| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        };
        match self {
            Self::Clear(address) => Box::new(open(address)),
            Self::Tls(address, config) => {
                let name = ServerName::try_from("localhost").unwrap();
                let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
                Box::new(StreamOwned::new(connection, open(address)))
            }
        }
    }
}

impl Client {
    /// Connects and exchanges SETTINGS.
    pub(super) fn open(transport: &Transport) -> Self {
        let mut client = Self::without_settings(transport, false);
        client.frame(SETTINGS, 0, 0, &[]);
        client.frame(SETTINGS, 1, 0, &[]);
        client
    }

    /// Connects and sends the preface alone.
    pub(super) fn without_settings(transport: &Transport, byte_by_byte: bool) -> Self {
        let mut client = Self { stream: transport.connect(), byte_by_byte, seen: Vec::new() };
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client
    }

    /// Writes a frame; the gateway may have closed already.
    pub(super) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        self.send(&[&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat());
    }

    fn send(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(if self.byte_by_byte { 1 } else { usize::MAX }) {
            let _ = self.stream.write_all(piece).and_then(|()| self.stream.flush());
        }
    }

    /// Returns the status of the first response on `stream`; `None` if the stream or the connection ends before.
    pub(super) fn status(&mut self, stream: u32) -> Option<u16> {
        loop {
            match self.read()? {
                (HEADERS, on, block) if on == stream => return status(&block),
                (RST_STREAM | GOAWAY, ..) => return None,
                _ => {}
            }
        }
    }

    /// Returns true if two PINGs are answered one after the other. The first answer may overtake frames that are due.
    pub(super) fn answers_ping(&mut self) -> bool {
        (1..=2).all(|n| {
            self.frame(PING, 0, 0, &[n; 8]);
            loop {
                match self.read() {
                    Some((PING, _, payload)) if payload == [n; 8] => return true,
                    Some((GOAWAY, ..)) | None => return false,
                    Some(_) => {}
                }
            }
        })
    }

    /// Returns the code with which the connection, or also a stream, ends: `Some(None)` if the connection closes without
    /// GOAWAY, and `None` if nothing ends.
    pub(super) fn end(&mut self, connection_only: bool) -> Option<Option<u32>> {
        let from = self.seen.len();
        let is_alive = self.answers_ping();
        let code = |payload: &[u8], at: usize| Some(u32::from_be_bytes(payload.get(at..at + 4)?.try_into().ok()?));
        let ends = self.seen[from..].iter().find_map(|(kind, _, payload)| match *kind {
            GOAWAY => Some(code(payload, 4)),
            RST_STREAM if !connection_only => Some(code(payload, 0)),
            _ => None,
        });
        ends.or((!is_alive).then_some(None))
    }

    /// Reads a frame; `None` if the connection has closed.
    fn read(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.fill(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.fill(&mut payload)?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        // A flag tells an answered PING from one of the gateway, which sends none.
        self.seen.push((head[3], stream, payload[..length.min(24)].to_vec()));
        Some((head[3], stream, payload))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(buffer) {
            Ok(()) => Some(()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no frame in {PATIENCE:?}"),
            Err(_) => None,
        }
    }
}

/// Returns `:status` of a header block, whose first field it is (RFC 7541 §6).
fn status(block: &[u8]) -> Option<u16> {
    const INDEXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    let block = &block[block.iter().position(|byte| byte & 0xe0 != 0x20)?..];
    match *block {
        [first @ 0x88..=0x8e, ..] => Some(INDEXED[usize::from(first - 0x88)]),
        [0x48 | 0x08 | 0x18, length, ref text @ ..] if length & 0x80 == 0 => {
            std::str::from_utf8(text.get(..usize::from(length))?).ok()?.parse().ok()
        }
        [0x48 | 0x08 | 0x18, length, ref text @ ..] => Some(digits(text.get(..usize::from(length & 0x7f))?)),
        _ => None,
    }
}

/// Decodes three digits of the Huffman code (RFC 7541, appendix B): five bits for 0 to 2, six bits for the others.
fn digits(bytes: &[u8]) -> u16 {
    let bits: Vec<u16> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |n| u16::from(byte >> n & 1))).collect();
    let number = |bits: &[u16]| bits.iter().fold(0, |number, bit| number * 2 + bit);
    let (mut at, mut value) = (0, 0);
    for _ in 0..3 {
        let five = number(&bits[at..at + 5]);
        let (digit, length) = if five <= 2 { (five, 5) } else { (number(&bits[at..at + 6]) - 0b01_1001 + 3, 6) };
        (value, at) = (value * 10 + digit, at + length);
    }
    value
}
