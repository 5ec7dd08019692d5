//! TLS, with certificates that are read when they are needed.

use redis::ConnectionInfo;

use super::settings::{RedisSettingsError, Tls};

/// `info` over TLS, with what the files of `tls` hold now: a certificate that was renewed is shown with the next
/// connection.
///
/// # Errors
/// A file that cannot be read or is not what it is said to be, or a server that cannot have TLS.
#[cfg(feature = "redis-tls")]
pub(super) fn over_tls(info: &ConnectionInfo, tls: &Tls) -> Result<ConnectionInfo, RedisSettingsError> {
    use redis::{Client, ClientTlsConfig, ConnectionAddr, TlsCertificates};

    let (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) = info.addr() else {
        return Err(RedisSettingsError::Unusable("`redis.tls` does not go with a unix socket".into()));
    };
    let root_cert = tls.ca.as_deref().map(files::authorities).transpose()?;
    let client = tls.client.as_ref().map(|(certificate, key)| files::client(certificate, key)).transpose()?;
    let certificates = TlsCertificates {
        client_tls: client.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key }),
        root_cert,
    };
    let addr = ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None };
    // The process has one cryptography: whoever came first installed the same.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match Client::build_with_tls(info.clone().set_addr(addr), certificates) {
        Ok(client) => Ok(client.get_connection_info().clone()),
        Err(error) => Err(RedisSettingsError::Unusable(format!("`redis.tls`: {error}"))),
    }
}

#[cfg(not(feature = "redis-tls"))]
pub(super) fn over_tls(_: &ConnectionInfo, _: &Tls) -> Result<ConnectionInfo, RedisSettingsError> {
    Err(RedisSettingsError::Unusable("this build speaks no TLS with redis: its feature `redis-tls` is off".into()))
}

/// Reads PEM files, and names the one that is not right.
#[cfg(feature = "redis-tls")]
mod files {
    use std::path::Path;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::sign::CertifiedKey;

    use super::RedisSettingsError;

    type Result<T> = std::result::Result<T, RedisSettingsError>;

    pub(super) fn authorities(ca: &Path) -> Result<Vec<u8>> {
        let pem = read("ca", ca)?;
        let mut store = rustls::RootCertStore::empty();
        for certificate in certificates("ca", ca, &pem)? {
            store.add(certificate).map_err(|error| bad("ca", ca, &error.to_string()))?;
        }
        Ok(pem)
    }

    /// A certificate with its chain, and its key.
    pub(super) fn client(certificate: &Path, key: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
        let (certificate_pem, key_pem) = (read("cert", certificate)?, read("key", key)?);
        let chain = certificates("cert", certificate, &certificate_pem)?;
        let private = PrivateKeyDer::from_pem_slice(&key_pem)
            .map_err(|_| bad("key", key, "there is no private key in it, as PEM and not encrypted"))?;
        CertifiedKey::from_der(chain, private, &rustls::crypto::aws_lc_rs::default_provider())
            .map_err(|error| bad("key", key, &format!("it does not fit {}: {error}", certificate.display())))?;
        Ok((certificate_pem, key_pem))
    }

    fn certificates(setting: &str, path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
        match CertificateDer::pem_slice_iter(pem).collect::<std::result::Result<Vec<_>, _>>() {
            Ok(found) if !found.is_empty() => Ok(found),
            _ => Err(bad(setting, path, "there is no certificate in it, as PEM")),
        }
    }

    fn read(setting: &str, path: &Path) -> Result<Vec<u8>> {
        std::fs::read(path).map_err(|error| bad(setting, path, &error.to_string()))
    }

    fn bad(setting: &str, path: &Path, reason: &str) -> RedisSettingsError {
        RedisSettingsError::Unusable(format!("`redis.tls.{setting}`: cannot use {}: {reason}", path.display()))
    }
}
