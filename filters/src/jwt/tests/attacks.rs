//! What people try.

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{NOW, TYPES, claims, jwk, key_set, named, of_all_types, signed, signing_key};
use crate::jwt::Algorithm::{ES256, ES384, EdDSA, HS256, RS256};
use crate::jwt::{Refusal, Settings, Verifier};

/// The three parts of a token.
fn parts(token: &str) -> [&str; 3] {
    let mut parts = token.split('.');
    [parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap()]
}

/// A header by hand, as the library would not write it, before `token`'s other parts.
fn with_header(header: &Value, token: &str) -> String {
    // A part of a token is JSON in base64: the library writes one when it is given it for claims.
    let made = jsonwebtoken::encode(&Header::new(HS256), header, &signing_key(HS256)).unwrap();
    let [_, payload, signature] = parts(token);
    format!("{}.{payload}.{signature}", parts(&made)[1])
}

fn refusal(verifier: &Verifier, token: &str) -> Refusal {
    let refusal = verifier.verify_at(token.as_bytes(), NOW).unwrap_err();
    assert_eq!(verifier.verify_at(token.as_bytes(), NOW).unwrap_err(), refusal, "the second time");
    refusal
}

#[test]
fn none_is_no_algorithm_however_it_is_spelled() {
    let verifier = of_all_types();
    let token = signed(&named(RS256), &claims());
    for alg in ["none", "None", "NONE", "nOnE", ""] {
        for kid in [json!({"alg": alg}), json!({"alg": alg, "kid": "RS256"})] {
            let forged = with_header(&kid, &token);
            assert_eq!(refusal(&verifier, &forged), Refusal::Malformed);
            let [header, payload, _] = parts(&forged);
            assert_eq!(refusal(&verifier, &format!("{header}.{payload}.")), Refusal::Malformed);
        }
    }
}

#[test]
fn a_public_key_is_no_secret() {
    let verifier = of_all_types();
    for alg in [RS256, ES256, ES384, EdDSA] {
        let public = jwk(alg);
        // Whatever an attacker can make of a public key: its parts as text, as it is published.
        let texts = ["n", "e", "x", "y"].iter().filter_map(|part| public[part].as_str()).map(str::to_owned);
        for secret in texts.chain([public.to_string()]) {
            for hmac in [HS256, Algorithm::HS384, Algorithm::HS512] {
                let forge = |header: &Header| {
                    jsonwebtoken::encode(header, &claims(), &EncodingKey::from_secret(secret.as_bytes())).unwrap()
                };
                let with_kid = forge(&Header { kid: Some(format!("{alg:?}")), ..Header::new(hmac) });
                assert_eq!(refusal(&verifier, &with_kid), Refusal::NoKey, "{alg:?} {hmac:?}");
                assert_eq!(refusal(&verifier, &forge(&Header::new(hmac))), Refusal::Signature, "{alg:?} {hmac:?}");
            }
        }
    }
}

#[test]
fn a_key_that_a_token_brings_along_is_not_looked_at() {
    let verifier = Verifier::new(Settings::default(), key_set(&[jwk(EdDSA)]));
    let own: jsonwebtoken::jwk::Jwk = serde_json::from_value(jwk(ES256)).unwrap();
    let header = Header { jwk: Some(own), jku: Some("http://evil.example/".into()), ..Header::new(ES256) };
    assert_eq!(refusal(&verifier, &signed(&header, &claims())), Refusal::NoKey);
}

#[test]
fn a_key_named_for_another_algorithm_does_not_serve() {
    let verifier = of_all_types();
    for (alg, kid) in [(ES256, "ES384"), (RS256, "ES256"), (EdDSA, "HS256")] {
        let header = Header { kid: Some(kid.to_owned()), ..Header::new(alg) };
        assert_eq!(refusal(&verifier, &signed(&header, &claims())), Refusal::NoKey);
    }
}

#[test]
fn what_must_be_understood_and_is_not_makes_a_token_void() {
    let header = Header { crit: Some(vec!["b64".to_owned()]), ..named(EdDSA) };
    assert_eq!(refusal(&of_all_types(), &signed(&header, &claims())), Refusal::Critical);
}

#[test]
fn text_that_is_no_token_is_refused() {
    let verifier = of_all_types();
    let long = format!("{}.a.b", "e".repeat(20_000));
    for text in ["", ".", "..", "...", "a.b.c", "a.b.c.d.e", "\u{1f600}.x.y", &long] {
        assert_eq!(refusal(&verifier, text), Refusal::Malformed, "{text}");
    }
    assert!(verifier.verify_at(&[0xff, b'.', 0xfe, b'.', 0x00], NOW).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_tampered_token_never_counts(which in 0..TYPES.len(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let alg = TYPES[which];
        let verifier = of_all_types();
        let mut token = signed(&named(alg), &claims()).into_bytes();
        let at = at.index(token.len());
        prop_assume!(token[at] != byte);
        token[at] = byte;
        prop_assert!(verifier.verify_at(&token, NOW).is_err(), "{:?} at {}", alg, at);
    }

    #[test]
    fn parts_of_two_tokens_make_no_third(which in 0..TYPES.len(), mix in 1..7_usize) {
        let verifier = of_all_types();
        let eve = json!({"sub": "eve", "exp": NOW + 60.0});
        let one = signed(&named(TYPES[which]), &claims());
        let other = signed(&named(TYPES[(which + 1) % TYPES.len()]), &eve);
        let (one, other) = (parts(&one), parts(&other));
        let mixed = [0, 1, 2].map(|part| if mix >> part & 1 == 1 { one[part] } else { other[part] }).join(".");
        prop_assert!(verifier.verify_at(mixed.as_bytes(), NOW).is_err());
    }

    #[test]
    fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(of_all_types().verify_at(&bytes, NOW).is_err());
    }
}
