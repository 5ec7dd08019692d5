//! Connection to an admin port: TCP, TLS or a Unix socket, and remedies for failed TLS.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, Error, RootCertStore, StreamOwned};

/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Files of a TLS connection.
#[derive(Clone, Debug, Args)]
pub(super) struct TlsFiles {
    /// CA certificates that verify an https:// admin port, in PEM [default: those of the system]
    #[arg(long = "cacert", value_name = "FILE")]
    authorities: Option<PathBuf>,
    /// Client certificate for an https:// admin port, in PEM
    #[arg(long = "cert", value_name = "FILE", requires = "client_key")]
    client_certificate: Option<PathBuf>,
    /// Key of the client certificate, in PEM
    #[arg(long = "key", value_name = "FILE", requires = "client_certificate")]
    client_key: Option<PathBuf>,
}

/// Address of an admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AdminAddress {
    /// `HOST:PORT` in clear text.
    Tcp(String),
    /// `HOST:PORT` with TLS.
    Tls(String),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

/// Bidirectional byte stream.
pub(super) trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl AdminAddress {
    /// Reads `unix:/PATH`, `https://HOST:PORT`, `http://HOST:PORT` or `HOST:PORT`.
    pub(super) fn parse(text: &str) -> Self {
        let authority = |rest: &str| rest.trim_end_matches('/').to_owned();
        if let Some(path) = text.strip_prefix("unix:") {
            Self::Unix(PathBuf::from(path.strip_prefix("//").unwrap_or(path)))
        } else if let Some(rest) = text.strip_prefix("https://") {
            Self::Tls(authority(rest))
        } else {
            Self::Tcp(authority(text.strip_prefix("http://").unwrap_or(text)))
        }
    }

    /// Connects. Returns the stream, and the value for the `Host` field.
    pub(super) fn connect(&self, files: &TlsFiles, timeout: Duration) -> io::Result<(Box<dyn Stream>, String)> {
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Ok((Box::new(stream), "localhost".to_owned()))
            }
            Self::Tcp(address) => {
                let (stream, host) = tcp(address, timeout)?;
                Ok((Box::new(stream), host))
            }
            Self::Tls(address) => {
                let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(host).map_err(invalid)?;
                let session = ClientConnection::new(Arc::new(files.config()?), name).map_err(invalid)?;
                let (stream, _) = tcp(address, timeout)?;
                Ok((Box::new(StreamOwned::new(session, stream)), address.clone()))
            }
        }
    }
}

/// Connects to the first address that accepts.
fn tcp(address: &str, timeout: Duration) -> io::Result<(TcpStream, String)> {
    let mut failure = None;
    for resolved in resolve(address)? {
        match TcpStream::connect_timeout(&resolved, CONNECT_TIMEOUT.min(timeout)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok((stream, resolved.to_string()));
            }
            Err(error) => drop(failure.get_or_insert(error)),
        }
    }
    Err(failure.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}

/// Returns the addresses of `HOST:PORT`. `localhost` has both (RFC 6761 §6.3), whatever the files of the system say: the admin
/// port may listen on either.
fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    if let Some(("localhost", port)) = address.rsplit_once(':')
        && let Ok(port) = port.parse()
    {
        return Ok(vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]);
    }
    #[expect(clippy::disallowed_methods, reason = "the command has no runtime")]
    Ok(address.to_socket_addrs()?.collect())
}

impl TlsFiles {
    fn config(&self) -> io::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(file) => {
                for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(file, error))? {
                    roots.add(certificate.map_err(|error| unreadable(file, error))?).map_err(invalid)?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(invalid)?
            .with_root_certificates(roots);
        let (Some(cert), Some(key)) = (&self.client_certificate, &self.client_key) else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| unreadable(cert, error))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
        builder.with_client_auth_cert(chain, key).map_err(invalid)
    }
}

fn unreadable(file: &std::path::Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {error}", file.display()))
}

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
}

/// Returns what to do about a failed connection; `None` if TLS did not fail, or only the error itself tells.
pub(super) fn remedy(error: &io::Error) -> Option<&'static str> {
    Some(match error.get_ref()?.downcast_ref::<Error>()? {
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                "the admin port requires a client certificate: give one with --cert and --key"
            }
            AlertDescription::CertificateExpired => "the client certificate has expired: give another one with --cert",
            // A CA of the same name with another key fails to verify the signature.
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                "the admin port does not know the CA of the client certificate: \
                 `management.server.ssl.trust-certificate` of the gateway must contain it"
            }
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown => {
                "the admin port refuses the client certificate: the log of the gateway has the reason"
            }
            _ => return None,
        },
        Error::InvalidCertificate(reason) => match reason {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "no CA certificate verifies the certificate of the admin port: give its CA with --cacert"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the certificate of the admin port has expired: renew it, then `tollgate reload` over the Unix socket or \
                 send SIGHUP"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the certificate of the admin port has other names: use one of them as HOST"
            }
            _ => return None,
        },
        Error::InvalidMessage(_) => "the port does not speak TLS: leave out https://",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_of_an_address_selects_the_transport() {
        for (text, address) in [
            ("127.0.0.1:9090", AdminAddress::Tcp("127.0.0.1:9090".into())),
            ("http://gate:9090/", AdminAddress::Tcp("gate:9090".into())),
            ("https://[::1]:9090", AdminAddress::Tls("[::1]:9090".into())),
            ("unix:/run/a.sock", AdminAddress::Unix("/run/a.sock".into())),
            ("unix:///run/a.sock", AdminAddress::Unix("/run/a.sock".into())),
            ("unix:a.sock", AdminAddress::Unix("a.sock".into())),
        ] {
            assert_eq!(AdminAddress::parse(text), address);
        }
    }
}
