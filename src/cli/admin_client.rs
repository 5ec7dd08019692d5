//! Client of the admin port of a running gateway.

use std::io::{self, Read, Write};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use thiserror::Error;

use crate::cli::admin_connection::{AdminAddress, TlsFiles, remedy};
pub(super) use crate::explain::text::table;
pub(super) use tollgate_telemetry::logs::fields::printable;

/// Timeout for a part of the response. A reload may wait for DNS.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest response in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// Longest text of a refusal that is not JSON, in bytes.
const MAX_TEXT_BYTES: usize = 200;

/// Arguments that name the gateway.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// Admin port: HOST:PORT, https://HOST:PORT or unix:/PATH [default: localhost:PORT with PORT from MANAGEMENT_SERVER_PORT, otherwise 9090]
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
    #[command(flatten)]
    tls: TlsFiles,
}

impl Target {
    /// Returns the address, if the command line names one.
    pub(super) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }
}

/// Client of one admin port. The token comes from `TOLLGATE_TOKEN`.
#[derive(Debug)]
pub(super) struct AdminClient {
    address: String,
    tls: TlsFiles,
    token: Option<String>,
    timeout: Duration,
    /// Appended to the error message if the gateway does not respond.
    hint: &'static str,
}

/// Hint if no address was given and the default did not respond.
const NAME_THE_PORT: &str =
    "; if the admin port is at another address, name it (see --help) or set MANAGEMENT_SERVER_PORT";

/// Error of a call.
#[derive(Debug, Error)]
pub(super) enum CallError {
    #[error("no response from {address}: {source}{hint}")]
    Connection { address: String, source: io::Error, hint: String },
    #[error("no response from {address} within {timeout:?}{hint}")]
    Late { address: String, timeout: Duration, hint: &'static str },
    #[error("{address} does not respond as an admin port does{detail}")]
    Response { address: String, detail: String },
    #[error("`{0}` is no address of an admin port; a new limit is written `--set {0}`")]
    Setting(String),
    #[error("{}", refusal(*.status, .detail, *.has_token))]
    Refused { status: u16, detail: String, has_token: bool },
}

/// Returns the message of an error response. The status is omitted behind diagnostics, which have several lines.
fn refusal(status: u16, detail: &str, has_token: bool) -> String {
    match status {
        _ if detail.contains('\n') => detail.trim_end().to_owned(),
        401 if has_token => format!(
            "{detail} (status 401); the token is that of TOLLGATE_TOKEN, which is used in place of a client certificate"
        ),
        401 => format!("{detail} (status 401); the variable TOLLGATE_TOKEN gives the commands a token"),
        _ => format!("{detail} (status {status})"),
    }
}

/// Returns the `address` of the command line, or the default address of the admin port.
fn or_default(address: Option<String>) -> String {
    let port = || std::env::var("MANAGEMENT_SERVER_PORT").ok().filter(|port| !port.is_empty());
    address.unwrap_or_else(|| format!("localhost:{}", port().as_deref().unwrap_or("9090")))
}

impl AdminClient {
    pub(super) fn new(target: &Target) -> Self {
        Self::at(target.address.clone(), &target.tls)
    }

    /// Creates a client of the admin port at `address`, or at its default address.
    pub(super) fn at(address: Option<String>, tls: &TlsFiles) -> Self {
        let token = std::env::var("TOLLGATE_TOKEN").ok().map(|token| token.trim().to_owned());
        Self {
            hint: if address.is_some() { "" } else { NAME_THE_PORT },
            address: or_default(address),
            tls: tls.clone(),
            token: token.filter(|token| !token.is_empty()),
            timeout: READ_TIMEOUT,
        }
    }

    /// Replaces the timeout for each part of the response.
    pub(super) fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends a request, and returns the JSON of a successful response. It is an object with `member`, or a list of such
    /// objects: other servers respond otherwise.
    pub(super) fn call(&self, method: &str, path: &str, body: &str, member: &str) -> Result<Value, CallError> {
        let (status, body) = self.exchange(method, path, body)?;
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        if (200..300).contains(&status) {
            let is_expected = match &value {
                Value::Array(list) => list.iter().all(|it| it.get(member).is_some()),
                value => value.get(member).is_some(),
            };
            return if is_expected { Ok(value) } else { Err(self.no_admin_port("; is it the port for traffic?")) };
        }
        if let Some(detail) = value["detail"].as_str().or(value["reason"].as_str()) {
            let has_token = self.token.is_some();
            return Err(CallError::Refused { status, detail: printable_lines(detail), has_token });
        }
        let text = std::str::from_utf8(&body).map(str::trim).ok().filter(|text| text.len() < MAX_TEXT_BYTES);
        let detail = text.filter(|text| !text.is_empty() && value.is_null()).map_or_else(String::new, printable);
        Err(self.no_admin_port(&match detail.as_str() {
            "" => format!(": status {status}; is it the port for traffic?"),
            detail => format!(": {detail} (status {status})"),
        }))
    }

    /// Checks that the gateway is ready.
    pub(super) fn check_ready(&self) -> Result<(), CallError> {
        let health = self.call("GET", "/health/ready", "", "status")?;
        if health["status"] == "UP" { Ok(()) } else { Err(self.no_admin_port("; is it the port for traffic?")) }
    }

    fn no_admin_port(&self, detail: &str) -> CallError {
        CallError::Response { address: self.address.clone(), detail: detail.to_owned() }
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> Result<(u16, Vec<u8>), CallError> {
        let response = self.send(method, path, body);
        let response = response.map_err(|source| match source.kind() {
            // A read or write that timed out.
            io::ErrorKind::WouldBlock => CallError::Late {
                address: self.address.clone(),
                timeout: self.timeout,
                hint: if method == "GET" { "" } else { "; it may take effect later: see `tollgate status`" },
            },
            _ => CallError::Connection {
                address: self.address.clone(),
                hint: remedy(&source).map_or_else(|| self.hint.to_owned(), |remedy| format!("; {remedy}")),
                source,
            },
        })?;
        parse(&response).ok_or_else(|| self.no_admin_port(""))
    }

    fn send(&self, method: &str, path: &str, body: &str) -> io::Result<Vec<u8>> {
        let (mut stream, host) = AdminAddress::parse(&self.address).connect(&self.tls, self.timeout)?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        if let Some(token) = self.token.as_ref().filter(|token| !token.contains(['\r', '\n'])) {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        stream.flush()?;
        let mut response = Vec::new();
        match stream.take(MAX_BYTES).read_to_end(&mut response) {
            // The server may close a TLS connection without `close_notify`; `parse` detects a truncated response.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            Ok(_) | Err(_) => Ok(response),
        }
    }
}

/// Splits a response into its status and its body.
fn parse(response: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = response.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&response[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let body = &response[end + 4..];
    let length = head.lines().find_map(|field| {
        let (name, value) = field.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_none_or(|length| length == body.len()).then(|| (status, body.to_vec()))
}

/// Returns `text` with control characters escaped, except line breaks.
pub(super) fn printable_lines(text: &str) -> String {
    text.trim_end().split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// Returns `text` percent-encoded, for a segment of a path or the value of a query parameter.
pub(super) fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_split_into_status_and_body() {
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n{}"), Some((200, b"{}".to_vec())));
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"), Some((200, b"{}".to_vec())));
        let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}";
        for broken in [&b""[..], b"HTTP/1.1 200 OK\r\n", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 2\r\n\r\n", cut] {
            assert_eq!(parse(broken), None);
        }
    }
}
