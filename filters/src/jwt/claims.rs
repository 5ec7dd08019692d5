//! Claims of a token, and the conditions under which they are accepted (RFC 7519 §4.1). Pure: the time is an argument.

use std::fmt::{self, Write};
use std::time::Duration;

use jsonwebtoken::Algorithm;
use serde_json::{Map, Value};

use super::error::TokenError;
use super::token_source::TokenSource;

/// Conditions under which a token is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Accepted signature algorithms. Default: every asymmetric one.
    pub algorithms: Vec<Algorithm>,
    /// Accepted issuers, compared exactly. Empty: `iss` is not checked.
    pub issuers: Vec<String>,
    /// Accepted audiences, compared exactly; a token must name one. Empty: `aud` is not checked.
    pub audiences: Vec<String>,
    /// Tolerated clock difference: added to `exp`, subtracted from `nbf`. Default 60 s, as in Spring Security.
    pub leeway: Duration,
    /// Location of the token in a request.
    pub source: TokenSource,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            algorithms: ASYMMETRIC.to_vec(),
            issuers: Vec::new(),
            audiences: Vec::new(),
            leeway: Duration::from_secs(60),
            source: TokenSource::default(),
        }
    }
}

/// Every algorithm but HMAC: a party that can verify with a shared secret can sign with it, too.
const ASYMMETRIC: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Time in which a token may be used, in seconds since 1970, leeway included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lifetime {
    from: f64,
    until: f64,
}

impl Lifetime {
    /// Returns the end, `exp` plus leeway.
    pub(super) fn until(self) -> f64 {
        self.until
    }

    /// Checks that a token may be used at `now`; "on or after" its `exp` it may not.
    pub(super) fn check(self, now: f64) -> Result<(), TokenError> {
        if now >= self.until {
            Err(TokenError::Expired)
        } else if now < self.from {
            Err(TokenError::NotYet)
        } else {
            Ok(())
        }
    }
}

/// Checks every claim that does not depend on the time, and returns the token's lifetime.
pub(super) fn check(claims: &Map<String, Value>, settings: &Settings) -> Result<Lifetime, TokenError> {
    let accepted = |list: &[String], value: &Value| value.as_str().is_some_and(|text| list.iter().any(|a| a == text));
    if !settings.issuers.is_empty() && !claims.get("iss").is_some_and(|iss| accepted(&settings.issuers, iss)) {
        return Err(TokenError::Issuer);
    }
    let is_intended = |aud: &Value| match aud {
        Value::Array(list) => list.iter().any(|one| accepted(&settings.audiences, one)),
        one => accepted(&settings.audiences, one),
    };
    if !settings.audiences.is_empty() && !claims.get("aud").is_some_and(is_intended) {
        return Err(TokenError::Audience);
    }
    let leeway = settings.leeway.as_secs_f64();
    let time = |name| claims.get(name).map(|time: &Value| time.as_f64().ok_or(TokenError::Times)).transpose();
    let until = time("exp")?.ok_or(TokenError::Times)? + leeway;
    let from = time("nbf")?.map_or(f64::NEG_INFINITY, |nbf| nbf - leeway);
    Ok(Lifetime { from, until })
}

/// Returns the claim `name`. If there is none, reads the dots in `name` as a path of members.
pub(super) fn find<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    claims.get(name).or_else(|| {
        let mut keys = name.split('.');
        let first = claims.get(keys.next()?)?;
        keys.try_fold(first, |value, key| value.as_object()?.get(key))
    })
}

/// Writes a string as it is, a number or boolean as JSON. Returns `None` for other values, which cannot be keys.
pub(super) fn write(value: &Value, out: &mut impl Write) -> Option<fmt::Result> {
    match value {
        Value::String(text) => Some(out.write_str(text)),
        Value::Number(_) | Value::Bool(_) => Some(write!(out, "{value}")),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
