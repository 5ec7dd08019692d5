//! Keys of every type, generated once per test process, and tokens signed with them.

use std::sync::OnceLock;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair,
};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Value, json};

use crate::jwt::Algorithm::{self, ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, RS256};
use crate::jwt::{KeySet, Settings, Verifier};

/// The time of the tests, in seconds since 1970.
pub(super) const NOW: f64 = 1_800_000_000.0;

pub(super) const SECRET: &[u8; 64] = b"a secret of sixty-four bytes, which is as long as HS512 wants it";

/// Algorithms that cover every key type.
pub(super) const TYPES: [Algorithm; 8] = [RS256, PS256, ES256, ES384, EdDSA, HS256, HS384, HS512];

fn pkcs8(alg: Algorithm) -> Vec<u8> {
    let random = aws_lc_rs::rand::SystemRandom::new();
    match alg {
        RS256 => {
            let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
            // `EncodingKey` expects PKCS#1, which PKCS#8 contains after 26 bytes.
            AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap().as_ref()[26..].to_vec()
        }
        ES256 => EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap().as_ref().to_vec(),
        ES384 => EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &random).unwrap().as_ref().to_vec(),
        _ => Ed25519KeyPair::generate_pkcs8v1(&random).unwrap().as_ref().to_vec(),
    }
}

/// Returns the private key of `alg`'s type.
pub(super) fn signing_key(alg: Algorithm) -> EncodingKey {
    static KEYS: [OnceLock<Vec<u8>>; 4] = [const { OnceLock::new() }; 4];
    match alg {
        RS256 | PS256 => EncodingKey::from_rsa_der(KEYS[0].get_or_init(|| pkcs8(RS256))),
        ES256 => EncodingKey::from_ec_der(KEYS[1].get_or_init(|| pkcs8(ES256))),
        ES384 => EncodingKey::from_ec_der(KEYS[2].get_or_init(|| pkcs8(ES384))),
        EdDSA => EncodingKey::from_ed_der(KEYS[3].get_or_init(|| pkcs8(EdDSA))),
        _ => EncodingKey::from_secret(SECRET),
    }
}

/// Returns the JWK of `alg`'s type with the algorithm's name as `kid`, without `alg`.
pub(super) fn jwk(alg: Algorithm) -> Value {
    let mut jwk = Jwk::from_encoding_key(&signing_key(alg), alg).unwrap();
    jwk.common.key_algorithm = None;
    jwk.common.key_id = Some(format!("{alg:?}"));
    serde_json::to_value(jwk).unwrap()
}

pub(super) fn key_set(jwks: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": jwks }).to_string().as_bytes()).unwrap()
}

/// Returns a verifier with a key of each type that accepts all algorithms.
pub(super) fn of_all_types() -> Verifier {
    let settings = Settings { algorithms: TYPES.to_vec(), ..Settings::default() };
    Verifier::new(settings, key_set(&TYPES.map(jwk)))
}

/// Returns a token signed by the `alg` of `header`.
pub(super) fn signed(header: &Header, claims: &Value) -> String {
    jsonwebtoken::encode(header, claims, &signing_key(header.alg)).unwrap()
}

/// Returns a header with a `kid`.
pub(super) fn named(alg: Algorithm) -> Header {
    Header { kid: Some(format!("{alg:?}")), ..Header::new(alg) }
}

/// Returns claims that are valid for an hour.
pub(super) fn claims() -> Value {
    json!({"sub": "ada", "exp": NOW + 3600.0})
}
