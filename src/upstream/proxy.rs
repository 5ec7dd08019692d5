//! Through a proxy to an upstream: `CONNECT` (RFC 9110 §9.3.6) and SOCKS. NameLookup are left to the proxy to resolve.
//!
//! As Netty's handlers do it for Spring, `CONNECT` is used for plain HTTP too: what goes over the connection is then
//! the same with a proxy as without.

use std::io;
use std::net::IpAddr;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use tollgate_config::{Proxy, ProxyKind, ProxyLogin};

/// Bytes of a proxy's answer to `CONNECT`: past that it is none.
const MAX_ANSWER_BYTES: usize = 8 * 1024;

/// Why a proxy did not let a connection through.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The connection to it broke off.
    #[error("the connection to the proxy broke off")]
    Io(#[from] io::Error),
    /// It answered `CONNECT` with a refusal.
    #[error("the proxy answered `{0}`")]
    Refused(String),
    /// It refused by a SOCKS code.
    #[error("the proxy refused: {0}")]
    Socks(&'static str),
    /// It speaks something else.
    #[error("the proxy does not speak what `httpclient.proxy.type` says")]
    Foreign,
}

/// Whether `host` is reached through `proxy`.
#[must_use]
pub fn applies(proxy: &Proxy, host: &str) -> bool {
    !proxy.except.as_ref().is_some_and(|except| except.is_match(host))
}

/// Asks the proxy at the other end of `stream` for a connection to `host` and `port`. Afterwards all that is read is
/// the upstream's.
///
/// # Errors
/// The proxy refuses, or is none.
pub async fn ask<S>(stream: &mut S, proxy: &Proxy, host: &str, port: u16) -> Result<(), ProxyError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let login = proxy.login.as_ref();
    match proxy.kind {
        ProxyKind::Http => connect(stream, login, host, port).await,
        ProxyKind::Socks4 => socks4(stream, login, host, port).await,
        ProxyKind::Socks5 => socks5(stream, login, host, port).await,
    }
}

async fn connect<S>(stream: &mut S, login: Option<&ProxyLogin>, host: &str, port: u16) -> Result<(), ProxyError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some(ProxyLogin { username, password }) = login {
        let basic = base64(format!("{username}:{password}").as_bytes());
        request.push_str(&format!("Proxy-Authorization: Basic {basic}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    // Byte by byte: what follows the answer's head is not the proxy's any more.
    let mut answer = Vec::with_capacity(128);
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == MAX_ANSWER_BYTES {
            return Err(ProxyError::Foreign);
        }
        answer.push(stream.read_u8().await?);
    }
    let line = String::from_utf8_lossy(answer.split(|byte| *byte == b'\r').next().unwrap_or_default()).into_owned();
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse::<u16>().ok());
    match status {
        Some(200..=299) => Ok(()),
        Some(_) => Err(ProxyError::Refused(line)),
        None => Err(ProxyError::Foreign),
    }
}

/// SOCKS 4, with the name behind the user where there is no IPv4 address (4a).
async fn socks4<S>(stream: &mut S, login: Option<&ProxyLogin>, host: &str, port: u16) -> Result<(), ProxyError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let address = match host.parse() {
        Ok(IpAddr::V4(address)) => Some(address.octets()),
        _ => None,
    };
    let mut request = vec![4, 1];
    request.extend(port.to_be_bytes());
    request.extend(address.unwrap_or([0, 0, 0, 1]));
    request.extend(login.map_or("", |login| login.username.as_str()).bytes());
    request.push(0);
    if address.is_none() {
        request.extend(host.bytes());
        request.push(0);
    }
    stream.write_all(&request).await?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).await?;
    match answer {
        [0, 90, ..] => Ok(()),
        [0, 91, ..] => Err(ProxyError::Socks("it cannot reach the upstream, or may not")),
        [0, 92 | 93, ..] => Err(ProxyError::Socks("it does not accept the user")),
        _ => Err(ProxyError::Foreign),
    }
}

/// SOCKS 5 (RFC 1928), with user and password (RFC 1929).
async fn socks5<S>(stream: &mut S, login: Option<&ProxyLogin>, host: &str, port: u16) -> Result<(), ProxyError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(if login.is_some() { &[5, 2, 0, 2] } else { &[5, 1, 0] }).await?;
    let mut method = [0; 2];
    stream.read_exact(&mut method).await?;
    match (method, login) {
        ([5, 0], _) => {}
        ([5, 2], Some(ProxyLogin { username, password })) => {
            let mut request = vec![1];
            for text in [username, password] {
                request.push(u8::try_from(text.len()).map_err(|_| ProxyError::Socks("user or password is too long"))?);
                request.extend(text.bytes());
            }
            stream.write_all(&request).await?;
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).await?;
            if answer[1] != 0 {
                return Err(ProxyError::Socks("it does not accept the user"));
            }
        }
        ([5, _], _) => return Err(ProxyError::Socks("it wants a login that it was not given")),
        _ => return Err(ProxyError::Foreign),
    }
    let mut request = vec![5, 1, 0];
    match host.parse() {
        Ok(IpAddr::V4(address)) => request.extend([&[1][..], &address.octets()].concat()),
        Ok(IpAddr::V6(address)) => request.extend([&[4][..], &address.octets()].concat()),
        Err(_) => {
            request.extend([3, u8::try_from(host.len()).map_err(|_| ProxyError::Socks("the name is too long"))?]);
            request.extend(host.bytes());
        }
    }
    request.extend(port.to_be_bytes());
    stream.write_all(&request).await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    match answer {
        [5, 0, ..] => {}
        [5, 2, ..] => return Err(ProxyError::Socks("its rules forbid the upstream")),
        [5, 3..=6, ..] => return Err(ProxyError::Socks("it cannot reach the upstream")),
        [5, ..] => return Err(ProxyError::Socks("it failed")),
        _ => return Err(ProxyError::Foreign),
    }
    // The address that it connects from: of no use, but in the way.
    let length = match answer[3] {
        1 => 4,
        4 => 16,
        _ => usize::from(stream.read_u8().await?),
    };
    stream.read_exact(&mut vec![0; length + 2]).await?;
    Ok(())
}

/// RFC 4648 §4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let shown = digit <= three.len();
            text.push(if shown { char::from(DIGITS[bits >> (18 - 6 * digit) & 63]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::duplex;

    use super::*;

    fn proxy(kind: ProxyKind, login: Option<(&str, &str)>) -> Proxy {
        let login =
            login.map(|(username, password)| ProxyLogin { username: username.into(), password: password.into() });
        Proxy { kind, host: "proxy".into(), port: 1, login, except: None }
    }

    /// What is asked of a proxy that answers each of its questions with the next of `answers`, and what comes of it.
    async fn asked(proxy: Proxy, host: &str, answers: &[&[u8]]) -> (Vec<Vec<u8>>, Result<u8, ProxyError>) {
        let (mut ours, mut theirs) = duplex(1024);
        let playing = async {
            let mut seen = Vec::new();
            for answer in answers {
                let mut piece = vec![0; 1024];
                let length = theirs.read(&mut piece).await.unwrap();
                seen.push(piece[..length].to_vec());
                theirs.write_all(answer).await.unwrap();
            }
            theirs.write_all(b"!").await.unwrap();
            seen
        };
        let asking = async {
            ask(&mut ours, &proxy, host, 443).await?;
            Ok(ours.read_u8().await?)
        };
        tokio::join!(playing, asking)
    }

    #[tokio::test]
    async fn connect_names_the_target_and_leaves_what_follows_unread() {
        let ok = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n";
        let (seen, came) = asked(proxy(ProxyKind::Http, Some(("user", "pass"))), "shop.example", &[ok]).await;
        assert_eq!(came.unwrap(), b'!');
        let wanted = "CONNECT shop.example:443 HTTP/1.1\r\nHost: shop.example:443\r\n\
                      Proxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&seen[0]), wanted);
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
        let (seen, came) = asked(proxy(ProxyKind::Http, None), "::1", &[refusal]).await;
        assert!(seen[0].starts_with(b"CONNECT [::1]:443 "));
        assert!(matches!(came, Err(ProxyError::Refused(line)) if line.contains("407")));
        let (_, came) = asked(proxy(ProxyKind::Http, None), "a", &[b"\x05\x00 what\r\n\r\n"]).await;
        assert!(matches!(came, Err(ProxyError::Foreign)));
    }

    #[tokio::test]
    async fn socks_5_logs_in_where_it_must_and_leaves_names_to_the_proxy() {
        let bound = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50";
        let login = Some(("me", "pw"));
        let (seen, came) =
            asked(proxy(ProxyKind::Socks5, login), "a.example", &[b"\x05\x02", b"\x01\x00", bound]).await;
        assert_eq!(came.unwrap(), b'!');
        assert_eq!(seen[1], b"\x01\x02me\x02pw");
        assert_eq!(seen[2], b"\x05\x01\x00\x03\x09a.example\x01\xbb");
        let (seen, came) = asked(proxy(ProxyKind::Socks5, None), "::1", &[b"\x05\x00", b"\x05\x02\x00\x01"]).await;
        assert_eq!((seen[0].as_slice(), seen[1][3]), (&b"\x05\x01\x00"[..], 4));
        assert!(matches!(came, Err(ProxyError::Socks(_))));
        let (_, came) = asked(proxy(ProxyKind::Socks5, None), "a", &[b"\x05\xff"]).await;
        assert!(matches!(came, Err(ProxyError::Socks(_))));
    }

    #[tokio::test]
    async fn socks_4_gives_an_address_or_else_the_name() {
        let granted: &[u8] = b"\x00\x5a\x00\x00\x00\x00\x00\x00";
        let (seen, came) = asked(proxy(ProxyKind::Socks4, Some(("me", ""))), "10.0.0.7", &[granted]).await;
        assert_eq!((came.unwrap(), seen[0].as_slice()), (b'!', &b"\x04\x01\x01\xbb\x0a\x00\x00\x07me\x00"[..]));
        let (seen, _) = asked(proxy(ProxyKind::Socks4, None), "a.b", &[granted]).await;
        assert_eq!(seen[0], b"\x04\x01\x01\xbb\x00\x00\x00\x01\x00a.b\x00");
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), text);
        }
    }
}
