//! Tokens: only those that the key signed are accepted, with exactly their claims.
//!
//! Input: a token.

use std::sync::LazyLock;

use tollgate_filters::jwt::{KeySet, Settings, Verifier};

/// Public key of the corpus' tokens. The private key is lost.
pub const KEYS: &[u8] = br#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "a",
    "x": "MKXK73X_yCvc6lrnr6TZO8e-BMmzvvzTRBxuQNTioLE"}]}"#;

static VERIFIER: LazyLock<Verifier> =
    LazyLock::new(|| Verifier::new(Settings::default(), KeySet::parse(KEYS).unwrap_or_else(|_| KeySet::empty())));

pub fn run(token: &[u8]) {
    if let Ok(claims) = VERIFIER.verify(token) {
        assert_eq!(claims.get("sub").and_then(|claim| claim.as_str()), Some("alice"), "{token:?}");
        assert_eq!(claims.get("exp").and_then(|claim| claim.as_u64()), Some(4_102_444_800), "{token:?}");
    }
}
