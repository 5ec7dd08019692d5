//! The keys that tokens are verified with: a JWK Set (RFC 7517 §5).

use std::fmt;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde_json::Value;
use thiserror::Error;

use super::cache::{Digest, digest};

/// Keys, each with the algorithms it is made for.
#[derive(Clone)]
pub struct KeySet {
    keys: Vec<Key>,
    unusable: Vec<String>,
    fingerprint: Digest,
}

/// Why a text is no key set.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// It is not JSON.
    #[error("it is no JSON")]
    Json(#[from] serde_json::Error),
    /// It has no list called `keys`.
    #[error("it is no JWK set: it has no list `keys`")]
    NoKeys,
    /// It has more keys than anybody would try on a token.
    #[error("it has {0} keys, at most {MOST_KEYS} are taken")]
    TooMany(usize),
    /// None of its keys can be used; why each of them cannot.
    #[error("it has no key to verify with{}", listed(.0))]
    NoneUsable(Vec<String>),
}

/// A token without `kid` may be tried on every key that fits.
const MOST_KEYS: usize = 64;

#[derive(Clone)]
pub(super) struct Key {
    kid: Option<String>,
    algorithms: Vec<Algorithm>,
    pub(super) key: DecodingKey,
}

// === impl KeySet ===

impl KeySet {
    /// No key: no token counts until the set is replaced.
    #[must_use]
    pub fn empty() -> Self {
        Self { keys: Vec::new(), unusable: Vec::new(), fingerprint: Digest::default() }
    }

    /// Reads a JWK set. Keys that cannot be used are left out (RFC 7517 §5) and told by [`unusable`](Self::unusable):
    /// those of other types than RSA (2048 to 8192 bits), EC on P-256 or P-384, Ed25519 and `oct` (at least as long as the hash,
    /// RFC 7518 §3.2), and those that are not for verifying.
    ///
    /// # Errors
    /// The text is no JWK set, or no key of it can be used.
    pub fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        let set: Value = serde_json::from_slice(text)?;
        let list = set.get("keys").and_then(Value::as_array).ok_or(KeySetError::NoKeys)?;
        if list.len() > MOST_KEYS {
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

    /// How many keys can be used.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys that were left out: which, and why.
    #[must_use]
    pub fn unusable(&self) -> &[String] {
        &self.unusable
    }

    /// Whether a key is made for one of `algorithms`.
    #[must_use]
    pub fn fits_any(&self, algorithms: &[Algorithm]) -> bool {
        self.keys.iter().any(|key| key.algorithms.iter().any(|made_for| algorithms.contains(made_for)))
    }

    /// Whether it was read from the same text.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }

    pub(super) fn names(&self, kid: &str) -> bool {
        self.keys.iter().any(|key| key.kid.as_deref() == Some(kid))
    }

    /// The keys for a token: those its `kid` names, all without one, in either case only those made for its `alg`.
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
        let jwk: Jwk = serde_json::from_value(value.clone()).map_err(|error| format!("cannot be read: {error}"))?;
        if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return Err("is not for signatures (`use`)".to_owned());
        }
        if jwk.common.key_operations.as_ref().is_some_and(|operations| !operations.contains(&KeyOperations::Verify)) {
            return Err("is not for verifying (`key_ops`)".to_owned());
        }
        if let AlgorithmParameters::Other(_) = jwk.algorithm {
            return Err("is of a type or curve that is not supported, or incomplete".to_owned());
        }
        let key = DecodingKey::try_from(&jwk).map_err(|error| format!("cannot be read: {error}"))?;
        let mut algorithms = algorithms_for(&jwk.algorithm, &key)?;
        if let Some(alg) = jwk.common.key_algorithm {
            algorithms.retain(|made_for| Algorithm::try_from(alg).is_ok_and(|alg| alg == *made_for));
            if algorithms.is_empty() {
                return Err(format!("is not made for its own `alg`, {alg}"));
            }
        }
        Ok(Self { kid: jwk.common.key_id, algorithms, key })
    }
}

/// The algorithms that a key of this type and size is made for (RFC 7518 §3.1). This is what keeps a public key from
/// being taken for a secret.
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
                return Err(format!("has {bits} bits, 2048 to 8192 are taken"));
            }
            Ok(vec![RS256, RS384, RS512, PS256, PS384, PS512])
        }
        AlgorithmParameters::EllipticCurve(ec) => match (&ec.curve, bytes.len()) {
            (EllipticCurve::P256, 65) => Ok(vec![ES256]),
            (EllipticCurve::P384, 97) => Ok(vec![ES384]),
            _ => Err("is no point of P-256 or P-384".to_owned()),
        },
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 && bytes.len() == 32 => {
            Ok(vec![EdDSA])
        }
        AlgorithmParameters::OctetKey(_) => {
            let hashes = [(HS256, 32), (HS384, 48), (HS512, 64)].into_iter();
            let fits: Vec<Algorithm> = hashes.filter(|(_, size)| bytes.len() >= *size).map(|(alg, _)| alg).collect();
            if fits.is_empty() { Err("is a secret of less than 32 bytes".to_owned()) } else { Ok(fits) }
        }
        _ => Err("is of a type or curve that is not supported".to_owned()),
    }
}

fn listed(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) }
}
