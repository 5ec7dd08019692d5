//! Parsing of key sets.

use serde_json::{Value, json};

use super::support::{NOW, SECRET, claims, jwk, key_set, signed, signing_key};
use crate::jwt::Algorithm::{ES256, ES384, EdDSA, HS256, HS384, PS256, RS256};
use crate::jwt::{KeySet, KeySetError, Settings, TokenError, Verifier};

fn parse(keys: &Value) -> Result<KeySet, KeySetError> {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes())
}

fn changed(mut key: Value, name: &str, value: Value) -> Value {
    key[name] = value;
    key
}

#[test]
fn text_that_is_not_a_key_set_is_rejected_with_a_reason() {
    for (text, reason) in [
        ("{", "not valid JSON"),
        ("[]", "no list `keys`"),
        ("{}", "no list `keys`"),
        (r#"{"keys": {}}"#, "no list `keys`"),
        (r#"{"keys": []}"#, "no usable key"),
        (r#"{"keys": [3]}"#, "keys[0] is invalid"),
        (r#"{"keys": [{"kty": "oct", "kid": "s", "k": "c2hvcnQ"}]}"#, "key `s` is a secret shorter than 32 bytes"),
        (
            r#"{"keys": [{"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"}]}"#,
            "keys[0] is not a point on P-256 or P-384",
        ),
        (r#"{"keys": [{"kty": "AKP", "kid": "pq"}]}"#, "key `pq` has an unsupported type or curve"),
    ] {
        let message = KeySet::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(message.contains(reason), "{text}: {message}");
    }
    let many: Vec<Value> = vec![jwk(EdDSA); 65];
    assert!(matches!(parse(&json!(many)), Err(KeySetError::TooMany(65))));
}

#[test]
fn unusable_keys_are_skipped_and_listed() {
    let weak = changed(jwk(RS256), "n", json!("AQAB"));
    for (key, reason) in [
        (changed(jwk(RS256), "use", json!("enc")), "key `RS256` is not a signature key (`use`)"),
        (changed(jwk(RS256), "key_ops", json!(["sign"])), "key `RS256` is not for verification (`key_ops`)"),
        (changed(jwk(RS256), "alg", json!("ES256")), "key `RS256` does not fit its own `alg`, ES256"),
        (changed(jwk(RS256), "alg", json!("RSA-OAEP")), "does not fit its own `alg`"),
        (changed(jwk(ES256), "crv", json!("P-384")), "key `ES256` is not a point on P-256 or P-384"),
        (changed(jwk(EdDSA), "crv", json!("X25519")), "has an unsupported type or curve"),
        (changed(jwk(EdDSA), "x", json!("AAAA")), "has an unsupported type or curve"),
        (weak, "key `RS256` has 24 bits; 2048 to 8192 are supported"),
    ] {
        let set = parse(&json!([key, jwk(ES384)])).unwrap();
        assert_eq!(set.len(), 1);
        assert!(set.unusable()[0].contains(reason), "{:?}", set.unusable());
    }
}

#[test]
fn a_key_with_alg_fits_only_that_algorithm() {
    let set = key_set(&[changed(jwk(RS256), "alg", json!("PS256"))]);
    assert!(set.supports_any(&[PS256]) && !set.supports_any(&[RS256]));
    let verifier = Verifier::new(Settings::default(), set);
    let token = |alg| signed(&jsonwebtoken::Header::new(alg), &claims());
    assert!(verifier.verify_at(token(PS256).as_bytes(), NOW).is_ok());
    assert_eq!(verifier.verify_at(token(RS256).as_bytes(), NOW).unwrap_err(), TokenError::NoKey);
}

#[test]
fn every_key_of_one_kid_is_tried() {
    let other = json!({"kty": "oct", "k": "A".repeat(43), "kid": "HS256"});
    let settings = Settings { algorithms: vec![HS256, HS384], ..Settings::default() };
    let verifier = Verifier::new(settings, parse(&json!([other, jwk(HS256)])).unwrap());
    for kid in [None, Some("HS256".to_owned())] {
        let header = jsonwebtoken::Header { kid, ..jsonwebtoken::Header::new(HS256) };
        let token = jsonwebtoken::encode(&header, &claims(), &signing_key(HS256)).unwrap();
        assert!(verifier.verify_at(token.as_bytes(), NOW).is_ok(), "{header:?}");
    }
}

#[test]
fn debug_output_shows_no_secret() {
    let set = key_set(&[jwk(HS256)]);
    let secret = jwk(HS256)["k"].as_str().unwrap().to_owned();
    let shown = format!("{set:?} {:?}", Verifier::new(Settings::default(), set.clone()));
    assert!(shown.contains("HS256") && !shown.contains(&secret) && !shown.contains(&format!("{SECRET:?}")), "{shown}");
}
