//! From a request to claims that may be believed.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use http::HeaderMap;
use jsonwebtoken::{Algorithm, Validation};
use serde_json::{Map, Value};

use super::cache::{Cache, digest};
use super::claims::{self, Lifetime};
use super::key_set::KeySet;
use super::{Refusal, Settings};

/// Longer tokens are refused unread, so that a remembered one has a bound.
const LONGEST: usize = 16 * 1024;
/// Tokens that are remembered as good.
const VERIFIED: usize = 8192;
/// Tokens that are remembered as bad, apart from the good ones, which a flood of these must not displace.
const REFUSED: usize = 4096;

/// Verifies tokens, each once while it is remembered.
pub struct Verifier {
    settings: Settings,
    current: ArcSwap<Current>,
    on_unknown_key: Option<Box<dyn Fn() + Send + Sync>>,
}

/// A key set and what was verified with it: they go together.
struct Current {
    keys: Arc<KeySet>,
    verified: Cache<Arc<Claims>>,
    refused: Cache<Refusal>,
}

/// The claims of a token whose signature, issuer and audience are in order.
#[derive(Debug)]
pub struct Claims {
    claims: Map<String, Value>,
    lifetime: Lifetime,
}

// === impl Claims ===

impl Claims {
    /// The claim called `name`; where there is none, `a.b` is the member `b` of the claim `a`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        claims::find(&self.claims, name)
    }
}

// === impl Verifier ===

impl Verifier {
    /// Verifies with `keys` by the rules of `settings`.
    #[must_use]
    pub fn new(settings: Settings, keys: KeySet) -> Self {
        Self { settings, current: ArcSwap::from_pointee(Current::new(Arc::new(keys))), on_unknown_key: None }
    }

    /// Calls `hook` whenever a token's `kid` names no key: the set may be out of date. It is called on the request's
    /// way, by anybody who makes up a name, and should do no more than wake somebody.
    #[must_use]
    pub fn on_unknown_key(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_unknown_key = Some(Box::new(hook));
        self
    }

    /// The rules.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The present key set.
    #[must_use]
    pub fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.current.load().keys)
    }

    /// Verifies with `keys` from now on, and forgets what was verified with others. Returns whether they differ from
    /// those at hand.
    pub fn replace_keys(&self, keys: Arc<KeySet>) -> bool {
        let differ = !self.current.load().keys.is_same(&keys);
        if differ {
            self.current.store(Arc::new(Current::new(keys)));
        }
        differ
    }

    /// The text of the claim `name` of the request's token: a text, a number or a flag. Nothing where the request has
    /// no token that counts, or the token no such claim.
    #[must_use]
    pub fn claim(&self, headers: &HeaderMap, name: &str) -> Option<String> {
        let mut text = String::new();
        self.write_claim(headers, name, &mut text)?;
        Some(text)
    }

    /// The same, written to `out`.
    pub(crate) fn write_claim(&self, headers: &HeaderMap, name: &str, out: &mut impl fmt::Write) -> Option<()> {
        let token = self.settings.source.token(headers)?;
        match self.verify(token) {
            Ok(claims) => claims::write(claims.get(name)?, out)?.ok(),
            Err(refusal) => {
                tracing::debug!(%refusal, "a token does not count");
                None
            }
        }
    }

    /// The claims of `token`, by the system's clock.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn verify(&self, token: &[u8]) -> Result<Arc<Claims>, Refusal> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.verify_at(token, now.as_secs_f64())
    }

    /// The same at `now`, in seconds since 1970.
    pub(super) fn verify_at(&self, token: &[u8], now: f64) -> Result<Arc<Claims>, Refusal> {
        if token.len() > LONGEST {
            return Err(Refusal::Malformed);
        }
        let claims = self.remembered(token)?;
        claims.lifetime.check(now)?;
        Ok(claims)
    }

    /// What holds of `token` whatever the time, from memory where it was seen before.
    fn remembered(&self, token: &[u8]) -> Result<Arc<Claims>, Refusal> {
        let current = self.current.load();
        let digest = digest(token);
        if let Some(claims) = current.verified.get(&digest) {
            return Ok(claims);
        }
        if let Some(refusal) = current.refused.get(&digest) {
            return Err(refusal);
        }
        let outcome = examine(token, &current.keys, &self.settings);
        match &outcome {
            Ok(claims) => current.verified.insert(digest, Arc::clone(claims)),
            // Costs next to nothing to find out again, and each time is a reason to look for new keys.
            Err(Refusal::UnknownKey) => {
                if let Some(hook) = &self.on_unknown_key {
                    hook();
                }
            }
            Err(refusal) => current.refused.insert(digest, *refusal),
        }
        outcome
    }
}

/// Two verifiers are equal when they are one.
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
        Self { keys, verified: Cache::new(VERIFIED), refused: Cache::new(REFUSED) }
    }
}

/// Everything about a token but its times.
fn examine(token: &[u8], keys: &KeySet, settings: &Settings) -> Result<Arc<Claims>, Refusal> {
    let header = jsonwebtoken::decode_header(token).map_err(|_| Refusal::Malformed)?;
    if !settings.algorithms.contains(&header.alg) {
        return Err(Refusal::Algorithm);
    }
    if header.crit.is_some() {
        return Err(Refusal::Critical);
    }
    let kid = header.kid.as_deref();
    if kid.is_some_and(|kid| !keys.names(kid)) {
        return Err(Refusal::UnknownKey);
    }
    let signature_alone = signature_alone(header.alg);
    let mut refusal = Refusal::NoKey;
    for key in keys.fitting(kid, header.alg) {
        match jsonwebtoken::decode::<Map<String, Value>>(token, &key.key, &signature_alone) {
            Ok(data) => {
                let lifetime = claims::examine(&data.claims, settings)?;
                return Ok(Arc::new(Claims { claims: data.claims, lifetime }));
            }
            Err(_) => refusal = Refusal::Signature,
        }
    }
    Err(refusal)
}

/// Has the library verify the signature; claims are looked at by [`claims::examine`].
fn signature_alone(alg: Algorithm) -> Validation {
    let mut validation = Validation::new(alg);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}
