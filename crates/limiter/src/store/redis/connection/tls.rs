//! TLS, with certificate files read for each connection.

use redis::ConnectionInfo;

use crate::store::redis::connection_settings::{RedisSettingsError, Tls};

/// Returns `info` with TLS and the certificates that the files of `tls` hold now: a renewed certificate takes effect on
/// the next connection.
///
/// # Errors
/// A file is unreadable or invalid, or the address cannot use TLS.
#[cfg(feature = "redis-tls")]
pub(super) fn with_tls(info: &ConnectionInfo, tls: &Tls) -> Result<ConnectionInfo, RedisSettingsError> {
    use redis::{Client, ClientTlsConfig, ConnectionAddr, TlsCertificates};

    let (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) = info.addr() else {
        return Err(RedisSettingsError::Unusable("TLS cannot be used with a unix socket".into()));
    };
    let root_cert = tls.ca.as_ref().map(files::ca_certificates).transpose()?;
    let client = tls.client.as_ref().map(files::client).transpose()?;
    let certificates = TlsCertificates {
        client_tls: client.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key }),
        root_cert,
    };
    let addr = ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None };
    // An error means that another part of the process installed the same provider.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match Client::build_with_tls(info.clone().set_addr(addr), certificates) {
        Ok(client) => Ok(client.get_connection_info().clone()),
        Err(error) => Err(RedisSettingsError::Unusable(format!("invalid TLS settings of redis: {error}"))),
    }
}

#[cfg(not(feature = "redis-tls"))]
pub(super) fn with_tls(_: &ConnectionInfo, _: &Tls) -> Result<ConnectionInfo, RedisSettingsError> {
    Err(RedisSettingsError::Unusable("this build has no TLS for redis: enable the feature `redis-tls`".into()))
}

/// Readers of files. Their errors name the file.
#[cfg(feature = "redis-tls")]
mod files {
    use std::fmt::Display;
    use std::path::Path;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::sign::CertifiedKey;
    use tollgate_bounded_file::MAX_CERTIFICATE_BYTES;

    use super::RedisSettingsError;
    use crate::store::redis::connection_settings::{Authorities, ClientCertificate};

    /// Names of the files in errors.
    const CA: &str = "CA certificates";
    const CERTIFICATE: &str = "client certificate";
    const KEY: &str = "private key";

    type Result<T> = std::result::Result<T, RedisSettingsError>;

    pub(super) fn ca_certificates(ca: &Authorities) -> Result<Vec<u8>> {
        let (pem, path) = match ca {
            Authorities::Pem(path) => (read(CA, path)?, path),
            Authorities::Store(file) => {
                let trusted = tollgate_key_store::read(&file.path)
                    .and_then(|store| tollgate_key_store::certificates(&store, &file.password))
                    .map_err(|error| bad(CA, &file.path, &error))?;
                (tollgate_key_store::certificates_pem(&trusted).into_bytes(), &file.path)
            }
        };
        let mut store = rustls::RootCertStore::empty();
        for certificate in certificates(CA, path, &pem)? {
            store.add(certificate).map_err(|error| bad(CA, path, &error))?;
        }
        Ok(pem)
    }

    /// Reads a certificate with its chain, and its key, in PEM.
    pub(super) fn client(files: &ClientCertificate) -> Result<(Vec<u8>, Vec<u8>)> {
        let (certificate, key, pem) = match files {
            ClientCertificate::Pem { certificate, key } => {
                (certificate, key, (read(CERTIFICATE, certificate)?, read(KEY, key)?))
            }
            ClientCertificate::Store(file) => {
                let identity = tollgate_key_store::read(&file.path)
                    .and_then(|store| tollgate_key_store::identity(&store, &file.password, file.alias.as_deref()))
                    .map_err(|error| bad(KEY, &file.path, &error))?;
                (&file.path, &file.path, (identity.chain_pem().into_bytes(), identity.key_pem().into_bytes()))
            }
        };
        let chain = certificates(CERTIFICATE, certificate, &pem.0)?;
        let private = PrivateKeyDer::from_pem_slice(&pem.1)
            .map_err(|_| bad(KEY, key, &"it holds no unencrypted private key in PEM"))?;
        CertifiedKey::from_der(chain, private, &rustls::crypto::aws_lc_rs::default_provider())
            .map_err(|error| bad(KEY, key, &format!("it does not match {}: {error}", certificate.display())))?;
        Ok(pem)
    }

    fn certificates(part: &str, path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
        match CertificateDer::pem_slice_iter(pem).collect::<std::result::Result<Vec<_>, _>>() {
            Ok(chain) if !chain.is_empty() => Ok(chain),
            _ => Err(bad(part, path, &"it holds no certificate in PEM")),
        }
    }

    fn read(part: &str, path: &Path) -> Result<Vec<u8>> {
        tollgate_bounded_file::read(path, MAX_CERTIFICATE_BYTES).map_err(|error| bad(part, path, &error))
    }

    fn bad(part: &str, path: &Path, reason: &dyn Display) -> RedisSettingsError {
        RedisSettingsError::Unusable(format!("{part} for redis: cannot use {}: {reason}", path.display()))
    }
}
