//! Forged and malformed tokens.

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{NOW, TYPES, claims, jwk, key_set, named, of_all_types, signed, signing_key};
use crate::jwt::Algorithm::{ES256, ES384, EdDSA, HS256, RS256};
use crate::jwt::{Settings, TokenError, Verifier};

/// Splits a token into its three parts.
fn parts(token: &str) -> [&str; 3] {
    let mut parts = token.split('.');
    [parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap()]
}

/// Replaces the header of `token` by one that the library would not write.
fn with_header(header: &Value, token: &str) -> String {
    // Each part is JSON in base64: the library encodes the header as if it were the claims.
    let made = jsonwebtoken::encode(&Header::new(HS256), header, &signing_key(HS256)).unwrap();
    let [_, payload, signature] = parts(token);
    format!("{}.{payload}.{signature}", parts(&made)[1])
}

fn rejection(verifier: &Verifier, token: &str) -> TokenError {
    let error = verifier.verify_at(token.as_bytes(), NOW).unwrap_err();
    assert_eq!(verifier.verify_at(token.as_bytes(), NOW).unwrap_err(), error, "the second time");
    error
}

#[test]
fn the_algorithm_none_is_rejected_in_every_spelling() {
    let verifier = of_all_types();
    let token = signed(&named(RS256), &claims());
    for alg in ["none", "None", "NONE", "nOnE", ""] {
        for kid in [json!({"alg": alg}), json!({"alg": alg, "kid": "RS256"})] {
            let forged = with_header(&kid, &token);
            assert_eq!(rejection(&verifier, &forged), TokenError::Malformed);
            let [header, payload, _] = parts(&forged);
            assert_eq!(rejection(&verifier, &format!("{header}.{payload}.")), TokenError::Malformed);
        }
    }
}

#[test]
fn a_public_key_is_never_used_as_an_hmac_secret() {
    let verifier = of_all_types();
    for alg in [RS256, ES256, ES384, EdDSA] {
        let public = jwk(alg);
        // Secrets that an attacker can derive from a public key: its parameters as text, and its published JSON.
        let texts = ["n", "e", "x", "y"].iter().filter_map(|part| public[part].as_str()).map(str::to_owned);
        for secret in texts.chain([public.to_string()]) {
            for hmac in [HS256, Algorithm::HS384, Algorithm::HS512] {
                let forge = |header: &Header| {
                    jsonwebtoken::encode(header, &claims(), &EncodingKey::from_secret(secret.as_bytes())).unwrap()
                };
                let with_kid = forge(&Header { kid: Some(format!("{alg:?}")), ..Header::new(hmac) });
                assert_eq!(rejection(&verifier, &with_kid), TokenError::NoKey, "{alg:?} {hmac:?}");
                assert_eq!(rejection(&verifier, &forge(&Header::new(hmac))), TokenError::Signature, "{alg:?} {hmac:?}");
            }
        }
    }
}

#[test]
fn a_key_embedded_in_a_token_is_ignored() {
    let verifier = Verifier::new(Settings::default(), key_set(&[jwk(EdDSA)]));
    let own: jsonwebtoken::jwk::Jwk = serde_json::from_value(jwk(ES256)).unwrap();
    let header = Header { jwk: Some(own), jku: Some("http://evil.example/".into()), ..Header::new(ES256) };
    assert_eq!(rejection(&verifier, &signed(&header, &claims())), TokenError::NoKey);
}

#[test]
fn a_kid_of_another_algorithms_key_is_rejected() {
    let verifier = of_all_types();
    for (alg, kid) in [(ES256, "ES384"), (RS256, "ES256"), (EdDSA, "HS256")] {
        let header = Header { kid: Some(kid.to_owned()), ..Header::new(alg) };
        assert_eq!(rejection(&verifier, &signed(&header, &claims())), TokenError::NoKey);
    }
}

#[test]
fn a_token_with_critical_extensions_is_rejected() {
    let header = Header { crit: Some(vec!["b64".to_owned()]), ..named(EdDSA) };
    assert_eq!(rejection(&of_all_types(), &signed(&header, &claims())), TokenError::Critical);
}

#[test]
fn text_that_is_not_a_token_is_rejected() {
    let verifier = of_all_types();
    let long = format!("{}.a.b", "e".repeat(20_000));
    for text in ["", ".", "..", "...", "a.b.c", "a.b.c.d.e", "\u{1f600}.x.y", &long] {
        assert_eq!(rejection(&verifier, text), TokenError::Malformed, "{text}");
    }
    assert!(verifier.verify_at(&[0xff, b'.', 0xfe, b'.', 0x00], NOW).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_tampered_token_is_never_accepted(which in 0..TYPES.len(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let alg = TYPES[which];
        let verifier = of_all_types();
        let mut token = signed(&named(alg), &claims()).into_bytes();
        let at = at.index(token.len());
        prop_assume!(token[at] != byte);
        token[at] = byte;
        prop_assert!(verifier.verify_at(&token, NOW).is_err(), "{:?} at {}", alg, at);
    }

    #[test]
    fn parts_of_two_tokens_do_not_combine(which in 0..TYPES.len(), mix in 1..7_usize) {
        let verifier = of_all_types();
        let eve = json!({"sub": "eve", "exp": NOW + 60.0});
        let one = signed(&named(TYPES[which]), &claims());
        let other = signed(&named(TYPES[(which + 1) % TYPES.len()]), &eve);
        let (one, other) = (parts(&one), parts(&other));
        let mixed = [0, 1, 2].map(|part| if mix >> part & 1 == 1 { one[part] } else { other[part] }).join(".");
        prop_assert!(verifier.verify_at(mixed.as_bytes(), NOW).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_rejected(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(of_all_types().verify_at(&bytes, NOW).is_err());
    }
}
