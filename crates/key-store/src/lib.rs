//! Private keys and certificates of PKCS#12 stores (RFC 7292), as `keytool` and `openssl pkcs12` write them.
//!
//! AWS-LC decrypts and verifies a store; it is in the build for TLS already. [`identity`] returns a key with its chain, as
//! Java's key managers select it, and [`certificates`] the trusted certificates of a trust store.
//!
//! A store may have at most [`MAX_CERTIFICATE_BYTES`] bytes and 5,000,000 hashing rounds, as in Java, and all stores of a
//! configuration together [`MAX_ROUNDS_TOGETHER`](tollgate_bounded_file::MAX_ROUNDS_TOGETHER).

mod aws_lc;
mod der;
mod pfx;

use std::ffi::CString;
use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use thiserror::Error;
use tollgate_bounded_file::MAX_CERTIFICATE_BYTES;

use crate::aws_lc::{Contents, OpenError};
use crate::pfx::Pfx;

/// Maximum number of hashing rounds for the checksum and the encryption, as in Java for each.
const MAX_ROUNDS: u64 = 5_000_000;

/// Private key with its certificates.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// Private key in DER (PKCS#8).
    pub key: Vec<u8>,
    /// Certificate of the key, then its issuers as far as the store has them, each in DER.
    pub chain: Vec<Vec<u8>>,
}

/// Reason why a store cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyStoreError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The bytes are something else, or damaged.
    #[error("it is not a PKCS#12 store, or it is damaged")]
    NotPkcs12,
    /// A format of Java's own: `JKS` or `JCEKS`.
    #[error("it is a {0} store, a format of Java's own")]
    JavaFormat(&'static str),
    /// The checksum does not match the password.
    #[error("the password is wrong")]
    WrongPassword,
    /// No private key.
    #[error("it has no private key")]
    NoKey,
    /// No certificate for the private key.
    #[error("it has no certificate for its private key")]
    NoCertificateOfKey,
    /// No certificate at all.
    #[error("it has no certificate")]
    NoCertificate,
    /// More than one private key, and no alias that selects one.
    #[error("it has several private keys")]
    SeveralKeys {
        /// Names of the keys.
        aliases: Vec<String>,
    },
    /// No private key has the alias.
    #[error("it has no private key with the alias `{alias}`")]
    UnknownAlias {
        /// The missing alias.
        alias: String,
        /// Names of the keys.
        aliases: Vec<String>,
    },
    /// A valid store with a feature that is not supported.
    #[error("it {0}")]
    Unsupported(&'static str),
}

/// Reads a file, up to [`MAX_CERTIFICATE_BYTES`].
///
/// # Errors
/// The file cannot be read, or it is too large for a store.
pub fn read(path: &Path) -> Result<Vec<u8>, KeyStoreError> {
    tollgate_bounded_file::read(path, MAX_CERTIFICATE_BYTES)
        .map_err(|error| KeyStoreError::Unreadable(error.to_string()))
}

/// Returns the private key of `store` with its certificates. `alias` selects one of several keys; upper and lower case are
/// equal, as in Java. A key without a name has its number as alias, from 1.
///
/// # Errors
/// The store or its password is wrong, or there is not exactly one such key.
pub fn identity(store: &[u8], password: &str, alias: Option<&str>) -> Result<Identity, KeyStoreError> {
    let contents = open(store, password, alias)?;
    let key = contents.key.ok_or(KeyStoreError::NoKey)?;
    let chain = der::chain(&contents.certificates, contents.leaf.ok_or(KeyStoreError::NoCertificateOfKey)?);
    Ok(Identity { key, chain: chain.into_iter().map(|at| contents.certificates[at].clone()).collect() })
}

/// Returns the begin and the end of the validity of a certificate in DER, as `YYYYMMDDHHMMSSZ`; `None` if it is no certificate.
#[must_use]
pub fn validity(certificate: &[u8]) -> Option<[String; 2]> {
    der::validity(certificate)
}

/// Returns the trusted certificates of `store`, each in DER, at least one.
///
/// If the store has a private key, the key's certificate is trusted but its issuers are not, as in Java. So a key pair from a
/// public authority does not make that authority trusted.
///
/// # Errors
/// The store or its password is wrong, it has several private keys, or it has no certificate.
pub fn certificates(store: &[u8], password: &str) -> Result<Vec<Vec<u8>>, KeyStoreError> {
    let Contents { certificates, leaf, .. } = open(store, password, None)?;
    let issuers = leaf.map(|leaf| der::chain(&certificates, leaf).split_off(1)).unwrap_or_default();
    let trusted = certificates.into_iter().enumerate().filter(|(at, _)| !issuers.contains(at));
    let trusted: Vec<_> = trusted.map(|(_, certificate)| certificate).collect();
    if trusted.is_empty() { Err(KeyStoreError::NoCertificate) } else { Ok(trusted) }
}

fn open(store: &[u8], password: &str, alias: Option<&str>) -> Result<Contents, KeyStoreError> {
    match store {
        [0xFE, 0xED, 0xFE, 0xED, ..] => return Err(KeyStoreError::JavaFormat("JKS")),
        [0xCE, 0xCE, 0xCE, 0xCE, ..] => return Err(KeyStoreError::JavaFormat("JCEKS")),
        _ => {}
    }
    // PKCS#12 terminates passwords with a NUL character, so no password contains one.
    let password = CString::new(password).map_err(|_| KeyStoreError::WrongPassword)?;
    let der = der::to_der(store).ok_or(KeyStoreError::NotPkcs12)?;
    // `None` for a store of another form, such as a signed one, which AWS-LC names.
    let pfx = Pfx::parse(&der);
    let rounds = pfx.as_ref().map_or_else(|| pfx::rounds(&der), Pfx::rounds);
    if rounds > MAX_ROUNDS {
        return Err(KeyStoreError::Unsupported("needs more than 5,000,000 rounds of hashing"));
    }
    if !tollgate_bounded_file::take_rounds(rounds) {
        return Err(KeyStoreError::Unsupported(
            "needs more rounds of hashing than are left: all stores of a configuration have 10,000,000",
        ));
    }
    let aliases = pfx.as_ref().map(Pfx::aliases).unwrap_or_default();
    let position = |alias: &str| aliases.iter().position(|other| other.to_lowercase() == alias.to_lowercase());
    match (aws_lc::open(store, &password), alias) {
        (Ok(_), Some(alias)) if !aliases.is_empty() && position(alias).is_none() => {
            Err(KeyStoreError::UnknownAlias { alias: alias.to_owned(), aliases })
        }
        (Ok(contents), _) => Ok(contents),
        // AWS-LC counts the keys after it has verified the checksum, so the password is right.
        (Err(OpenError::SeveralKeys), Some(alias)) => {
            let Some(at) = position(alias) else {
                return Err(KeyStoreError::UnknownAlias { alias: alias.to_owned(), aliases });
            };
            let alone = pfx.and_then(|pfx| aws_lc::with_checksum(&pfx.with_key(at), &password));
            aws_lc::open(&alone.ok_or(KeyStoreError::NotPkcs12)?, &password).map_err(|error| error.told(aliases))
        }
        (Err(error), _) => Err(error.told(aliases)),
    }
}

impl OpenError {
    fn told(self, aliases: Vec<String>) -> KeyStoreError {
        match self {
            Self::SeveralKeys => KeyStoreError::SeveralKeys { aliases },
            Self::WrongPassword => KeyStoreError::WrongPassword,
            Self::Malformed => KeyStoreError::NotPkcs12,
            Self::Unsupported(feature) => KeyStoreError::Unsupported(feature),
        }
    }
}

impl Identity {
    /// Returns the private key in PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        pem("PRIVATE KEY", &self.key)
    }

    /// Returns the certificates in PEM.
    #[must_use]
    pub fn chain_pem(&self) -> String {
        certificates_pem(&self.chain)
    }
}

/// Returns certificates in PEM.
#[must_use]
pub fn certificates_pem(certificates: &[Vec<u8>]) -> String {
    certificates.iter().map(|certificate| pem("CERTIFICATE", certificate)).collect()
}

/// Returns a value in PEM (RFC 7468), with one line of base64.
fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64_STANDARD.encode(der))
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity(…, {} certificates)", self.chain.len())
    }
}
