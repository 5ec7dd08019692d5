#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attacks;
mod keys;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use http::{HeaderMap, HeaderName, Request};
use serde_json::{Value, json};

use self::support::{NOW, TYPES, claims, jwk, key_set, named, of_all_types, signed};
use super::Algorithm::{ES256, EdDSA, HS256, RS256};
use super::{KeySet, Settings, TokenError, TokenSource, Verifier};
use crate::key_resolver::{KeyBuf, KeyResolver};

fn outcome(verifier: &Verifier, claims: &Value, now: f64) -> Result<(), TokenError> {
    verifier.verify_at(signed(&named(EdDSA), claims).as_bytes(), now).map(drop)
}

fn with(settings: Settings) -> Verifier {
    Verifier::new(settings, key_set(&[jwk(EdDSA)]))
}

#[test]
fn a_token_of_each_key_type_is_accepted_with_and_without_kid() {
    let verifier = of_all_types();
    for alg in TYPES {
        for header in [named(alg), jsonwebtoken::Header::new(alg)] {
            let token = signed(&header, &claims());
            // Twice: the second time from the cache.
            for _ in 0..2 {
                let claims = verifier.verify_at(token.as_bytes(), NOW).unwrap_or_else(|e| panic!("{alg:?}: {e}"));
                assert_eq!(claims.get("sub"), Some(&json!("ada")));
            }
        }
    }
}

#[test]
fn a_token_is_accepted_from_nbf_until_exp_with_leeway() {
    let verifier = with(Settings { leeway: Duration::from_secs(30), ..Settings::default() });
    let claims = json!({"exp": 1000, "nbf": 500.5});
    for (now, expected) in [
        (470.4, Err(TokenError::NotYet)),
        (470.5, Ok(())),
        (1029.9, Ok(())),
        (1030.0, Err(TokenError::Expired)),
        (470.4, Err(TokenError::NotYet)),
        (1029.9, Ok(())),
    ] {
        assert_eq!(outcome(&verifier, &claims, now), expected, "at {now}");
    }
}

#[test]
fn a_token_without_exp_or_with_invalid_times_is_rejected() {
    let verifier = with(Settings::default());
    for claims in [
        json!({"sub": "ada"}),
        json!({"exp": null}),
        json!({"exp": "4000000000"}),
        json!({"exp": NOW + 9.0, "nbf": "0"}),
        json!({"exp": NOW + 9.0, "nbf": null}),
    ] {
        assert_eq!(outcome(&verifier, &claims, NOW), Err(TokenError::Times), "{claims}");
    }
}

#[test]
fn issuer_and_audience_must_match() {
    let issuers = vec!["https://id".to_owned(), "https://old-id".to_owned()];
    let verifier = with(Settings { issuers, audiences: vec!["shop".to_owned()], ..Settings::default() });
    let aud_ok = json!("shop");
    for (iss, aud, expected) in [
        (json!("https://id"), aud_ok.clone(), Ok(())),
        (json!("https://old-id"), json!(["other", "shop"]), Ok(())),
        (json!("https://id/"), aud_ok.clone(), Err(TokenError::Issuer)),
        (json!(["https://id"]), aud_ok.clone(), Err(TokenError::Issuer)),
        (Value::Null, aud_ok, Err(TokenError::Issuer)),
        (json!("https://id"), json!("Shop"), Err(TokenError::Audience)),
        (json!("https://id"), json!([]), Err(TokenError::Audience)),
        (json!("https://id"), json!({"shop": true}), Err(TokenError::Audience)),
        (json!("https://id"), Value::Null, Err(TokenError::Audience)),
    ] {
        let claims = json!({"iss": iss, "aud": aud, "exp": NOW + 9.0});
        assert_eq!(outcome(&verifier, &claims, NOW), expected, "{claims}");
    }
    assert_eq!(outcome(&verifier, &json!({"exp": NOW + 9.0}), NOW), Err(TokenError::Issuer));
    let unrestricted = with(Settings::default());
    assert_eq!(outcome(&unrestricted, &json!({"iss": "x", "aud": "y", "exp": NOW + 9.0}), NOW), Ok(()));
}

#[test]
fn a_cached_token_outlives_neither_its_exp_nor_its_key() {
    let verifier = with(Settings { leeway: Duration::ZERO, ..Settings::default() });
    let token = signed(&named(EdDSA), &claims());
    assert!(verifier.verify_at(token.as_bytes(), NOW).is_ok());
    assert_eq!(verifier.verify_at(token.as_bytes(), NOW + 3600.0).unwrap_err(), TokenError::Expired);
    assert!(verifier.verify_at(token.as_bytes(), NOW).is_ok());

    assert!(!verifier.replace_keys(Arc::new(key_set(&[jwk(EdDSA)]))), "the same text");
    let mut renamed = jwk(ES256);
    renamed["kid"] = json!("EdDSA");
    assert!(verifier.replace_keys(Arc::new(key_set(&[renamed]))));
    assert_eq!(verifier.verify_at(token.as_bytes(), NOW).unwrap_err(), TokenError::NoKey);
    verifier.replace_keys(Arc::new(key_set(&[jwk(EdDSA)])));
    assert!(verifier.verify_at(token.as_bytes(), NOW).is_ok(), "a rejection is forgotten with its keys, too");
}

#[test]
fn every_unknown_kid_calls_the_hook() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let verifier = Verifier::new(Settings::default(), KeySet::empty()).on_unknown_key(move || {
        count.fetch_add(1, Relaxed);
    });
    let token = signed(&named(EdDSA), &claims());
    for _ in 0..3 {
        assert_eq!(verifier.verify_at(token.as_bytes(), NOW).unwrap_err(), TokenError::UnknownKey);
    }
    assert_eq!(calls.load(Relaxed), 3);
    verifier.replace_keys(Arc::new(key_set(&[jwk(EdDSA)])));
    assert!(verifier.verify_at(token.as_bytes(), NOW).is_ok());
    assert_eq!(calls.load(Relaxed), 3);
}

/// Returns a request with a token that is valid at the system's time.
fn request(claims: &Value) -> Request<()> {
    let mut claims = claims.clone();
    claims["exp"] = json!(jsonwebtoken::get_current_timestamp() + 600);
    let token = signed(&named(EdDSA), &claims);
    Request::builder().header("Authorization", format!("Bearer {token}")).body(()).unwrap()
}

#[test]
fn claims_that_are_strings_numbers_or_booleans_are_keys() {
    let verifier = Arc::new(with(Settings::default()));
    let request = request(&json!({
        "sub": "ada", "n": 42, "minus": -1.5, "yes": true, "empty": "", "list": ["a"], "none": null,
        "org": {"id": "o1", "team": {"id": 7}}, "org.id": "plain", "https://example.com/tenant": "t1"
    }));
    for (claim, expected) in [
        ("sub", Some("ada")),
        ("n", Some("42")),
        ("minus", Some("-1.5")),
        ("yes", Some("true")),
        ("empty", None),
        ("list", None),
        ("none", None),
        ("org", None),
        ("absent", None),
        ("sub.x", None),
        ("org.team.id", Some("7")),
        ("org.team.absent", None),
        ("org.id", Some("plain")),
        ("https://example.com/tenant", Some("t1")),
    ] {
        let unverified = KeyResolver::parse(&format!("jwt:{claim}")).unwrap();
        assert!(unverified.needs_verifier());
        assert_eq!(unverified.resolve(&request, &mut KeyBuf::new()), None, "{claim}");
        let verified = unverified.with_jwt(&verifier);
        assert!(!verified.needs_verifier());
        assert_eq!(verified.resolve(&request, &mut KeyBuf::new()), expected.map(str::as_bytes), "{claim}");
        if claim != "empty" {
            assert_eq!(verifier.claim(request.headers(), claim).as_deref(), expected, "{claim}");
        }
    }
}

#[test]
fn parts_of_a_composite_get_the_verifier_too() {
    let parts = ["jwt:sub", "method"].map(|text| KeyResolver::parse(text).unwrap());
    let both = KeyResolver::composite(vec![KeyResolver::composite(parts.to_vec()), parts[0].clone()]);
    assert!(both.needs_verifier());
    let both = both.with_jwt(&Arc::new(with(Settings::default())));
    assert!(!both.needs_verifier() && !both.needs_context());
    let request = request(&json!({"sub": "ada"}));
    assert_eq!(both.resolve(&request, &mut KeyBuf::new()), Some(&b"10:3:ada3:GET3:ada"[..]));
}

#[test]
fn the_token_is_read_from_the_configured_source() {
    let own = TokenSource::Header(HeaderName::from_static("x-token"));
    let cookie = TokenSource::Cookie("session".to_owned());
    for (source, fields, expected) in [
        (TokenSource::Bearer, &[("authorization", "Bearer a.b.c")][..], Some("a.b.c")),
        (TokenSource::Bearer, &[("authorization", "bEaReR   a.b.c")], Some("a.b.c")),
        (TokenSource::Bearer, &[("authorization", "Basic a.b.c")], None),
        (TokenSource::Bearer, &[("authorization", "Bearer")], None),
        (TokenSource::Bearer, &[("authorization", "a.b.c")], None),
        (TokenSource::Bearer, &[("authorization", "Bearer a"), ("authorization", "Bearer b")], None),
        (TokenSource::Bearer, &[], None),
        (own.clone(), &[("x-token", "a.b.c")], Some("a.b.c")),
        (own.clone(), &[("x-token", "Bearer a.b.c"), ("authorization", "Bearer x")], Some("a.b.c")),
        (own, &[("authorization", "Bearer x")], None),
        (cookie, &[("cookie", "a=b; session=a.b.c")], Some("a.b.c")),
    ] {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        assert_eq!(source.token(&headers), expected.map(str::as_bytes), "{source:?} {fields:?}");
    }
}

#[test]
fn a_token_of_an_unlisted_algorithm_is_rejected() {
    let verifier = Verifier::new(Settings::default(), key_set(&TYPES.map(jwk)));
    assert!(verifier.verify_at(signed(&named(RS256), &claims()).as_bytes(), NOW).is_ok());
    let rejected = verifier.verify_at(signed(&named(HS256), &claims()).as_bytes(), NOW);
    assert_eq!(rejected.unwrap_err(), TokenError::Algorithm, "HMAC must be listed");
}
