//! Connections through a proxy: `CONNECT` (RFC 9110 §9.3.6) and SOCKS. The proxy resolves host names.
//!
//! `CONNECT` is used for plain HTTP too, as Netty does for Spring. Requests are then the same with and without a proxy.
//!
//! hyper-util's connectors are not used. They drop bytes that follow the proxy's reply, accept status 200 only, omit the
//! SOCKS 4 user, and refuse a SOCKS 5 proxy that needs no login although one is configured.

use std::io;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::http::upgrade::TunnelStream;
use tollgate_config::{Proxy, ProxyKind, ProxyLogin, Secret};

/// Maximum size in bytes of the response head to `CONNECT`.
const MAX_HEAD_BYTES: usize = 8 * 1024;

/// Error of a connection through a proxy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The connection to the proxy failed.
    #[error("the connection to the proxy failed")]
    Io(#[from] io::Error),
    /// The proxy refused `CONNECT`.
    #[error("the proxy responded `{0}`")]
    Refused(String),
    /// The proxy refused with a SOCKS code.
    #[error("the proxy refused: {0}")]
    Socks(&'static str),
    /// The proxy uses another protocol.
    #[error("the response is not of the protocol in `httpclient.proxy.type`")]
    WrongProtocol,
}

/// Returns true if connections to `host` use `proxy`.
pub fn applies_to(proxy: &Proxy, host: &str) -> bool {
    !proxy.except.as_ref().is_some_and(|except| except.is_match(host))
}

/// Asks the proxy connected by `stream` for a connection to `host` and `port`. All bytes after that come from the
/// upstream.
///
/// # Errors
/// The proxy refuses or uses another protocol.
pub async fn open_tunnel(
    stream: &mut dyn TunnelStream,
    proxy: &Proxy,
    host: &str,
    port: u16,
) -> Result<(), ProxyError> {
    match proxy.kind {
        ProxyKind::Http => http_connect(stream, proxy, host, port).await,
        ProxyKind::Socks4 => socks4(stream, proxy, host, port).await,
        ProxyKind::Socks5 => socks5(stream, proxy, host, port).await,
    }
}

async fn http_connect(stream: &mut dyn TunnelStream, proxy: &Proxy, host: &str, port: u16) -> Result<(), ProxyError> {
    let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some(ProxyLogin { username, password: Secret(password) }) = &proxy.login {
        let credentials = BASE64.encode(format!("{username}:{password}"));
        request.push_str(&format!("Proxy-Authorization: Basic {credentials}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    // Read byte by byte: the bytes after the head come from the upstream.
    let mut head = Vec::with_capacity(128);
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD_BYTES {
            return Err(ProxyError::WrongProtocol);
        }
        head.push(stream.read_u8().await?);
    }
    let line = String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next().unwrap_or_default()).into_owned();
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse::<u16>().ok());
    match status {
        Some(200..=299) => Ok(()),
        Some(_) => Err(ProxyError::Refused(line)),
        None => Err(ProxyError::WrongProtocol),
    }
}

/// Opens a SOCKS 4 connection. A host that is not an IPv4 address is sent as a name (SOCKS 4a).
async fn socks4(stream: &mut dyn TunnelStream, proxy: &Proxy, host: &str, port: u16) -> Result<(), ProxyError> {
    let address = match host.parse() {
        Ok(IpAddr::V4(address)) => Some(address.octets()),
        _ => None,
    };
    let mut request = vec![4, 1];
    request.extend(port.to_be_bytes());
    request.extend(address.unwrap_or([0, 0, 0, 1]));
    request.extend(proxy.login.as_ref().map_or("", |login| &login.username).bytes());
    request.push(0);
    if address.is_none() {
        request.extend(host.bytes());
        request.push(0);
    }
    stream.write_all(&request).await?;
    let mut reply = [0; 8];
    stream.read_exact(&mut reply).await?;
    match reply {
        [0, 90, ..] => Ok(()),
        [0, 91, ..] => Err(ProxyError::Socks("the upstream is unreachable or forbidden")),
        [0, 92 | 93, ..] => Err(ProxyError::Socks("the user was not accepted")),
        _ => Err(ProxyError::WrongProtocol),
    }
}

/// Opens a SOCKS 5 connection (RFC 1928), with user name and password (RFC 1929).
async fn socks5(stream: &mut dyn TunnelStream, proxy: &Proxy, host: &str, port: u16) -> Result<(), ProxyError> {
    let login = proxy.login.as_ref();
    stream.write_all(if login.is_some() { &[5, 2, 0, 2] } else { &[5, 1, 0] }).await?;
    let mut method = [0; 2];
    stream.read_exact(&mut method).await?;
    match (method, login) {
        ([5, 0], _) => {}
        ([5, 2], Some(login)) => socks5_login(stream, login).await?,
        ([5, _], _) => return Err(ProxyError::Socks("a login is required: set `httpclient.proxy.username`")),
        _ => return Err(ProxyError::WrongProtocol),
    }
    let mut request = vec![5, 1, 0];
    match host.parse() {
        Ok(IpAddr::V4(address)) => request.extend([&[1][..], &address.octets()].concat()),
        Ok(IpAddr::V6(address)) => request.extend([&[4][..], &address.octets()].concat()),
        Err(_) => {
            request.extend([3, u8::try_from(host.len()).map_err(|_| ProxyError::Socks("the host name is too long"))?]);
            request.extend(host.bytes());
        }
    }
    request.extend(port.to_be_bytes());
    stream.write_all(&request).await?;
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).await?;
    match reply {
        [5, 0, ..] => {}
        [5, 2, ..] => return Err(ProxyError::Socks("its rules forbid the upstream")),
        [5, 3..=6, ..] => return Err(ProxyError::Socks("the upstream is unreachable")),
        [5, ..] => return Err(ProxyError::Socks("general failure")),
        _ => return Err(ProxyError::WrongProtocol),
    }
    // The bound address follows and must be read.
    let length = match reply[3] {
        1 => 4,
        4 => 16,
        _ => usize::from(stream.read_u8().await?),
    };
    stream.read_exact(&mut vec![0; length + 2]).await?;
    Ok(())
}

async fn socks5_login(stream: &mut dyn TunnelStream, login: &ProxyLogin) -> Result<(), ProxyError> {
    let mut request = vec![1];
    for text in [&login.username, &login.password.0] {
        let too_long = ProxyError::Socks("user name or password is longer than 255 bytes");
        request.push(u8::try_from(text.len()).map_err(|_| too_long)?);
        request.extend(text.bytes());
    }
    stream.write_all(&request).await?;
    let mut reply = [0; 2];
    stream.read_exact(&mut reply).await?;
    if reply[1] == 0 { Ok(()) } else { Err(ProxyError::Socks("the user was not accepted")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::duplex;

    use super::*;

    fn proxy(kind: ProxyKind, login: Option<(&str, &str)>) -> Proxy {
        let login = login
            .map(|(username, password)| ProxyLogin { username: username.into(), password: Secret(password.into()) });
        Proxy { kind, host: "proxy".into(), port: 1, login, except: None }
    }

    /// Returns the requests that a proxy with these `replies` receives, and the result of the connection.
    async fn tunnel(proxy: Proxy, host: &str, replies: &[&[u8]]) -> (Vec<Vec<u8>>, Result<u8, ProxyError>) {
        let (mut ours, mut theirs) = duplex(1024);
        let serving = async {
            let mut seen = Vec::new();
            for reply in replies {
                let mut piece = vec![0; 1024];
                let length = theirs.read(&mut piece).await.unwrap();
                seen.push(piece[..length].to_vec());
                theirs.write_all(reply).await.unwrap();
            }
            theirs.write_all(b"!").await.unwrap();
            seen
        };
        let connecting = async {
            open_tunnel(&mut ours, &proxy, host, 443).await?;
            Ok(ours.read_u8().await?)
        };
        tokio::join!(serving, connecting)
    }

    #[tokio::test]
    async fn connect_names_the_target_and_leaves_following_bytes_unread() {
        let ok = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n";
        let (seen, result) = tunnel(proxy(ProxyKind::Http, Some(("user", "pass"))), "shop.example", &[ok]).await;
        assert_eq!(result.unwrap(), b'!');
        let expected = "CONNECT shop.example:443 HTTP/1.1\r\nHost: shop.example:443\r\n\
                      Proxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&seen[0]), expected);
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
        let (seen, result) = tunnel(proxy(ProxyKind::Http, None), "::1", &[refusal]).await;
        assert!(seen[0].starts_with(b"CONNECT [::1]:443 "));
        assert!(matches!(result, Err(ProxyError::Refused(line)) if line.contains("407")));
        let (_, result) = tunnel(proxy(ProxyKind::Http, None), "a", &[b"\x05\x00 what\r\n\r\n"]).await;
        assert!(matches!(result, Err(ProxyError::WrongProtocol)));
    }

    #[tokio::test]
    async fn socks_5_logs_in_if_required_and_sends_host_names() {
        let bound = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50";
        let login = Some(("me", "pw"));
        let (seen, result) =
            tunnel(proxy(ProxyKind::Socks5, login), "a.example", &[b"\x05\x02", b"\x01\x00", bound]).await;
        assert_eq!(result.unwrap(), b'!');
        assert_eq!(seen[1], b"\x01\x02me\x02pw");
        assert_eq!(seen[2], b"\x05\x01\x00\x03\x09a.example\x01\xbb");
        let (seen, result) = tunnel(proxy(ProxyKind::Socks5, None), "::1", &[b"\x05\x00", b"\x05\x02\x00\x01"]).await;
        assert_eq!((seen[0].as_slice(), seen[1][3]), (&b"\x05\x01\x00"[..], 4));
        assert!(matches!(result, Err(ProxyError::Socks(_))));
        let (_, result) = tunnel(proxy(ProxyKind::Socks5, None), "a", &[b"\x05\xff"]).await;
        assert!(matches!(result, Err(ProxyError::Socks(_))));
    }

    #[tokio::test]
    async fn socks_4_sends_an_address_or_the_host_name() {
        let granted: &[u8] = b"\x00\x5a\x00\x00\x00\x00\x00\x00";
        let (seen, result) = tunnel(proxy(ProxyKind::Socks4, Some(("me", ""))), "10.0.0.7", &[granted]).await;
        assert_eq!((result.unwrap(), seen[0].as_slice()), (b'!', &b"\x04\x01\x01\xbb\x0a\x00\x00\x07me\x00"[..]));
        let (seen, _) = tunnel(proxy(ProxyKind::Socks4, None), "a.b", &[granted]).await;
        assert_eq!(seen[0], b"\x04\x01\x01\xbb\x00\x00\x00\x01\x00a.b\x00");
    }
}
