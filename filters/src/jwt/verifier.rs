//! Verification of tokens, with a cache of outcomes.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use http::HeaderMap;
use jsonwebtoken::{Algorithm, Validation};
use serde_json::{Map, Value};

use super::claims::{self, Lifetime, Settings};
use super::error::TokenError;
use super::key_set::KeySet;
use crate::digest_cache::{Cache, digest};

/// Length limit in bytes. Longer tokens are rejected unread, which bounds the cache.
const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// Cached tokens that were accepted.
const ACCEPTED_CAPACITY: usize = 8192;
/// Cached tokens that were rejected. They are kept apart so that a flood of them evicts no accepted token.
const REJECTED_CAPACITY: usize = 4096;

/// Verifier of tokens, with a cache of outcomes.
pub struct Verifier {
    settings: Settings,
    current: ArcSwap<Current>,
    on_unknown_key: Option<Box<dyn Fn() + Send + Sync>>,
}

/// Key set with the outcomes of verifying with it.
struct Current {
    keys: Arc<KeySet>,
    accepted: Cache<Arc<Claims>>,
    rejected: Cache<TokenError>,
}

/// Claims of a token with verified signature, issuer and audience.
#[derive(Debug)]
pub struct Claims {
    claims: Map<String, Value>,
    lifetime: Lifetime,
}

// === impl Claims ===

impl Claims {
    /// Returns the claim `name`. If there is none, `a.b` is the member `b` of the claim `a`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        claims::find(&self.claims, name)
    }
}

// === impl Verifier ===

impl Verifier {
    /// Creates a verifier with `keys` and `settings`.
    #[must_use]
    pub fn new(settings: Settings, keys: KeySet) -> Self {
        Self { settings, current: ArcSwap::from_pointee(Current::new(Arc::new(keys))), on_unknown_key: None }
    }

    /// Calls `hook` whenever a token's `kid` names no key: the set may be out of date.
    ///
    /// Any client can cause the call with an invented `kid`, and the request waits for it. The hook should only wake
    /// another task.
    #[must_use]
    pub fn on_unknown_key(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_unknown_key = Some(Box::new(hook));
        self
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the current key set.
    #[must_use]
    pub fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.current.load().keys)
    }

    /// Replaces the key set and drops the outcomes of the old one. Returns true if the sets differ.
    pub fn replace_keys(&self, keys: Arc<KeySet>) -> bool {
        let differ = !self.current.load().keys.is_same(&keys);
        if differ {
            self.current.store(Arc::new(Current::new(keys)));
        }
        differ
    }

    /// Returns the claim `name` of the request's token as text: a string, number or boolean.
    ///
    /// Returns `None` if the request has no accepted token, or the token has no such claim.
    #[must_use]
    pub fn claim(&self, headers: &HeaderMap, name: &str) -> Option<String> {
        let mut text = String::new();
        self.write_claim(headers, name, &mut text)?;
        Some(text)
    }

    /// Writes the claim `name`, as [`claim`](Self::claim) returns it, to `out`.
    pub(crate) fn write_claim(&self, headers: &HeaderMap, name: &str, out: &mut impl fmt::Write) -> Option<()> {
        let token = self.settings.source.token(headers)?;
        match self.verify(token) {
            Ok(claims) => claims::write(claims.get(name)?, out)?.ok(),
            Err(error) => {
                tracing::debug!(%error, "token rejected");
                None
            }
        }
    }

    /// Returns true if the request has a valid token.
    #[must_use]
    pub fn accepts(&self, headers: &HeaderMap) -> bool {
        let result = self.settings.source.token(headers).map(|token| self.verify(token));
        if let Some(Err(error)) = &result {
            tracing::debug!(%error, "token rejected");
        }
        result.is_some_and(|result| result.is_ok())
    }

    /// Returns the time at which the request's token ceases to be accepted. `None` without an accepted token.
    #[must_use]
    pub fn expiry(&self, headers: &HeaderMap) -> Option<SystemTime> {
        let claims = self.verify(self.settings.source.token(headers)?).ok()?;
        // A time beyond the range of the system's clock sets no limit.
        let since_epoch = Duration::try_from_secs_f64(claims.lifetime.until()).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(since_epoch)
    }

    /// Verifies `token` at the system's time, and returns its claims.
    ///
    /// # Errors
    /// The token is rejected.
    pub fn verify(&self, token: &[u8]) -> Result<Arc<Claims>, TokenError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.verify_at(token, now.as_secs_f64())
    }

    /// Verifies `token` at `now`, in seconds since 1970.
    pub(super) fn verify_at(&self, token: &[u8], now: f64) -> Result<Arc<Claims>, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Malformed);
        }
        let claims = self.verify_cached(token)?;
        claims.lifetime.check(now)?;
        Ok(claims)
    }

    /// Verifies everything about `token` but its times, from the cache if possible.
    fn verify_cached(&self, token: &[u8]) -> Result<Arc<Claims>, TokenError> {
        let current = self.current.load();
        let digest = digest(token);
        if let Some(claims) = current.accepted.get(&digest) {
            return Ok(claims);
        }
        if let Some(error) = current.rejected.get(&digest) {
            return Err(error);
        }
        let outcome = verify_uncached(token, &current.keys, &self.settings);
        match &outcome {
            Ok(claims) => current.accepted.insert(digest, Arc::clone(claims)),
            // Not cached: detecting it is cheap, and each occurrence is a reason to look for new keys.
            Err(TokenError::UnknownKey) => {
                if let Some(hook) = &self.on_unknown_key {
                    hook();
                }
            }
            Err(error) => current.rejected.insert(digest, *error),
        }
        outcome
    }
}

/// Verifiers are equal if they are the same object.
impl PartialEq for Verifier {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Verifier {}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("settings", &self.settings).field("keys", &self.keys()).finish()
    }
}

// === impl Current ===

impl Current {
    fn new(keys: Arc<KeySet>) -> Self {
        Self { keys, accepted: Cache::new(ACCEPTED_CAPACITY), rejected: Cache::new(REJECTED_CAPACITY) }
    }
}

/// Verifies everything about a token but its times.
fn verify_uncached(token: &[u8], keys: &KeySet, settings: &Settings) -> Result<Arc<Claims>, TokenError> {
    let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Malformed)?;
    if !settings.algorithms.contains(&header.alg) {
        return Err(TokenError::Algorithm);
    }
    if header.crit.is_some() {
        return Err(TokenError::Critical);
    }
    let kid = header.kid.as_deref();
    if kid.is_some_and(|kid| !keys.has_kid(kid)) {
        return Err(TokenError::UnknownKey);
    }
    let signature_only = signature_only(header.alg);
    let mut error = TokenError::NoKey;
    for key in keys.fitting(kid, header.alg) {
        match jsonwebtoken::decode::<Map<String, Value>>(token, &key.key, &signature_only) {
            Ok(data) => {
                let lifetime = claims::check(&data.claims, settings)?;
                return Ok(Arc::new(Claims { claims: data.claims, lifetime }));
            }
            Err(_) => error = TokenError::Signature,
        }
    }
    Err(error)
}

/// Makes the library verify the signature only; the claims are checked by [`claims::check`].
fn signature_only(alg: Algorithm) -> Validation {
    let mut validation = Validation::new(alg);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}
