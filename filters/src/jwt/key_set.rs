//! JWK Set (RFC 7517 §5): the keys that verify tokens.

use std::fmt;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde_json::Value;
use thiserror::Error;

use crate::digest_cache::{Digest, digest};

/// Set of keys, each with the algorithms that it fits.
#[derive(Clone)]
pub struct KeySet {
    keys: Vec<Key>,
    unusable: Vec<String>,
    fingerprint: Digest,
}

/// Error of a text that is not a usable key set.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// Not JSON.
    #[error("not valid JSON")]
    Json(#[from] serde_json::Error),
    /// No list `keys`.
    #[error("not a JWK set: it has no list `keys`")]
    NoKeys,
    /// More keys than the limit of 64.
    #[error("too many keys: {0}, the limit is {MAX_KEYS}")]
    TooMany(usize),
    /// No usable key, with the reason for each key.
    #[error("no usable key{}", listed(.0))]
    NoneUsable(Vec<String>),
}

/// Limit of keys: a token without `kid` is verified with each key that fits.
const MAX_KEYS: usize = 64;

#[derive(Clone)]
pub(super) struct Key {
    kid: Option<String>,
    algorithms: Vec<Algorithm>,
    pub(super) key: DecodingKey,
}

// === impl KeySet ===

impl KeySet {
    /// Creates an empty set, with which no token is accepted.
    #[must_use]
    pub fn empty() -> Self {
        Self { keys: Vec::new(), unusable: Vec::new(), fingerprint: Digest::default() }
    }

    /// Parses a JWK set.
    ///
    /// Supported are RSA keys (2048 to 8192 bits), EC keys on P-256 or P-384, Ed25519, and `oct` secrets at least as long
    /// as the hash (RFC 7518 §3.2). Other keys, and keys that are not for verifying, are skipped (RFC 7517 §5);
    /// [`unusable`](Self::unusable) lists them.
    ///
    /// # Errors
    /// The text is not a JWK set, or none of its keys is usable.
    pub fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        let set: Value = serde_json::from_slice(text)?;
        let list = set.get("keys").and_then(Value::as_array).ok_or(KeySetError::NoKeys)?;
        if list.len() > MAX_KEYS {
            return Err(KeySetError::TooMany(list.len()));
        }
        let mut keys = Vec::with_capacity(list.len());
        let mut unusable = Vec::new();
        for (at, value) in list.iter().enumerate() {
            match Key::new(value) {
                Ok(key) => keys.push(key),
                Err(reason) => unusable.push(match value.get("kid").and_then(Value::as_str) {
                    Some(kid) => format!("key `{kid}` {reason}"),
                    None => format!("keys[{at}] {reason}"),
                }),
            }
        }
        if keys.is_empty() {
            return Err(KeySetError::NoneUsable(unusable));
        }
        Ok(Self { keys, unusable, fingerprint: digest(text) })
    }

    /// Returns the number of usable keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if there is no usable key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the skipped keys, each with the reason.
    #[must_use]
    pub fn unusable(&self) -> &[String] {
        &self.unusable
    }

    /// Returns true if a key fits one of `algorithms`.
    #[must_use]
    pub fn supports_any(&self, algorithms: &[Algorithm]) -> bool {
        self.keys.iter().any(|key| key.algorithms.iter().any(|supported| algorithms.contains(supported)))
    }

    /// Returns true if both sets were parsed from the same text.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }

    pub(super) fn has_kid(&self, kid: &str) -> bool {
        self.keys.iter().any(|key| key.kid.as_deref() == Some(kid))
    }

    /// Returns the keys for a token: those with its `kid`, or all keys if it has none. Each fits its `alg`.
    pub(super) fn fitting<'k>(&'k self, kid: Option<&'k str>, alg: Algorithm) -> impl Iterator<Item = &'k Key> {
        let fits = move |key: &&Key| (kid.is_none() || key.kid.as_deref() == kid) && key.algorithms.contains(&alg);
        self.keys.iter().filter(fits)
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kids = self.keys.iter().map(|key| key.kid.as_deref().unwrap_or_default());
        f.debug_list().entries(kids).finish()
    }
}

// === impl Key ===

impl Key {
    fn new(value: &Value) -> Result<Self, String> {
        let jwk: Jwk = serde_json::from_value(value.clone()).map_err(|error| format!("is invalid: {error}"))?;
        if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return Err("is not a signature key (`use`)".to_owned());
        }
        if jwk.common.key_operations.as_ref().is_some_and(|operations| !operations.contains(&KeyOperations::Verify)) {
            return Err("is not for verification (`key_ops`)".to_owned());
        }
        if let AlgorithmParameters::Other(_) = jwk.algorithm {
            return Err("has an unsupported type or curve, or lacks a parameter".to_owned());
        }
        let key = DecodingKey::try_from(&jwk).map_err(|error| format!("is invalid: {error}"))?;
        let mut algorithms = algorithms_for(&jwk.algorithm, &key)?;
        if let Some(alg) = jwk.common.key_algorithm {
            algorithms.retain(|supported| Algorithm::try_from(alg).is_ok_and(|alg| alg == *supported));
            if algorithms.is_empty() {
                return Err(format!("does not fit its own `alg`, {alg}"));
            }
        }
        Ok(Self { kid: jwk.common.key_id, algorithms, key })
    }
}

/// Returns the algorithms that a key of this type and size fits (RFC 7518 §3.1).
///
/// This check prevents a public key from being used as an HMAC secret.
fn algorithms_for(parameters: &AlgorithmParameters, key: &DecodingKey) -> Result<Vec<Algorithm>, String> {
    use Algorithm::{ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512};
    let bytes = match key.kind() {
        DecodingKeyKind::SecretOrDer(bytes) => bytes,
        DecodingKeyKind::RsaModulusExponent { n, .. } => n,
    };
    match parameters {
        AlgorithmParameters::RSA(_) => {
            let leading = bytes.iter().take_while(|byte| **byte == 0).count();
            let bits = (bytes.len() - leading) * 8;
            if !(2048..=8192).contains(&bits) {
                return Err(format!("has {bits} bits; 2048 to 8192 are supported"));
            }
            Ok(vec![RS256, RS384, RS512, PS256, PS384, PS512])
        }
        AlgorithmParameters::EllipticCurve(ec) => match (&ec.curve, bytes.len()) {
            (EllipticCurve::P256, 65) => Ok(vec![ES256]),
            (EllipticCurve::P384, 97) => Ok(vec![ES384]),
            _ => Err("is not a point on P-256 or P-384".to_owned()),
        },
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 && bytes.len() == 32 => {
            Ok(vec![EdDSA])
        }
        AlgorithmParameters::OctetKey(_) => {
            let hashes = [(HS256, 32), (HS384, 48), (HS512, 64)].into_iter();
            let fits: Vec<Algorithm> = hashes.filter(|(_, size)| bytes.len() >= *size).map(|(alg, _)| alg).collect();
            if fits.is_empty() { Err("is a secret shorter than 32 bytes".to_owned()) } else { Ok(fits) }
        }
        _ => Err("has an unsupported type or curve".to_owned()),
    }
}

fn listed(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) }
}
