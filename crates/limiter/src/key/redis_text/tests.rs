//! Tests of the names of buckets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

/// Returns the name of a token bucket.
fn name(scope: &str, id: &[u8]) -> String {
    let mut out = Vec::new();
    write(BucketKey { scope, id }, false, &mut out);
    String::from_utf8(out).unwrap()
}

/// Returns the part of the name between the braces.
fn tag(scope: &str, id: &[u8]) -> String {
    let name = name(scope, id);
    name.strip_prefix("request_rate_limiter.{").unwrap().strip_suffix("}.").unwrap().to_owned()
}

/// Returns the name of a bucket of any other algorithm.
fn encoded(scope: &str, id: &[u8]) -> String {
    let mut out = Vec::new();
    write_scope(scope, &mut out);
    out.push(b'.');
    write_id(id, false, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn printable_names_equal_those_of_spring() {
    let token = format!("Bearer eyJhbGciOiJSUzI1NiJ9.{}.c2ln-_", "eyJzdWIiOiJhZGEifQ".repeat(110));
    assert!(token.len() > 2_000);
    let ids = [
        "10.0.0.1",
        "2001:db8::/64",
        "alice@example.com",
        "",
        "dGVzdA==",
        "a+b/c|d e",
        "50%",
        "%2F%7B",
        "a#b",
        "\"'\\,;!$&()*<>?[]^`~",
        "José",
        "名前",
        &token,
    ];
    for scope in ["orders", "user-service_2", "my route", "a=b|c", "größe"] {
        for id in ids {
            assert_eq!(name(scope, id.as_bytes()), format!("request_rate_limiter.{{{scope}.{id}}}."));
        }
    }
}

#[test]
fn a_scope_ends_at_the_first_dot() {
    assert_eq!(tag("a.b", b"c"), "a%2Eb.c");
    assert_ne!(tag("a.b", b"c"), tag("a", b"b.c"));
    assert_ne!(tag("a.b", b"c"), tag("a%2Eb", b"c"));
    assert_eq!(tag("#shared%{}", b"c"), "%23shared%25%7B%7D.c");
}

#[test]
fn other_key_ids_are_marked_and_encoded() {
    assert_eq!(tag("a", b"{}"), "a.#%7B%7D");
    assert_eq!(tag("a", b"k=1}.x"), "a.#k%3D1%7D.x");
    assert_eq!(tag("a", b"#%7B"), "a.#%23%257B");
    assert_eq!(tag("a", b"\0\n\x7f \xff"), "a.#%00%0A%7F%20%FF");
    assert_eq!(tag("a", "\u{85}".as_bytes()), "a.#%C2%85");
    assert_eq!(tag("", b""), ".");
}

#[test]
fn the_keys_of_other_algorithms_are_percent_encoded() {
    assert_eq!(encoded("a.b", b"k=1 +|{}%#\xff"), "a%2Eb.k%3D1%20%2B%7C%7B%7D%25%23%FF");
    assert_eq!(encoded("", b"10.0.0.1"), ".10.0.0.1");
    assert_eq!(encoded("a", &[b'a'; MAX_READABLE + 1]).len(), "a.#".len() + 32);
}

#[test]
fn a_long_part_is_hashed_and_a_short_one_cannot_pretend_to_be() {
    assert_eq!(tag("r", &[b'a'; MAX_PLAIN]).len(), "r.".len() + MAX_PLAIN);
    for long in [vec![b'a'; MAX_PLAIN + 1], vec![b'a'; 1_000_000], vec![b'{'; MAX_READABLE + 1]] {
        let hashed = tag("r", &long);
        assert_eq!(hashed.len(), "r.#".len() + 32);
        let text = hashed.strip_prefix("r.").unwrap();
        assert_eq!(tag("r", text.as_bytes()), format!("r.#%23{}", &text[1..]));
    }
    let scope = "s".repeat(MAX_PLAIN + 1);
    assert_eq!(tag(&scope, b"").len(), "#.".len() + 32);
    assert_ne!(tag(&scope, b""), tag(tag(&scope, b"").strip_suffix('.').unwrap(), b""));
}

#[test]
fn a_secret_key_id_does_not_appear() {
    let mut out = Vec::new();
    write(BucketKey { scope: "r", id: b"s3cret" }, true, &mut out);
    let text = String::from_utf8(out).unwrap();
    // printf s3cret | sha256sum
    assert_eq!(text, "request_rate_limiter.{r.#1EC1C26B50D5D3C58D9583181AF80766}.");
}

fn tricky() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![prop::sample::select(b"ab.{}%#:\0\n27BD".to_vec()), any::<u8>()];
    prop_oneof![
        9 => prop::collection::vec(byte, 0..8),
        1 => (prop::sample::select(vec![127, 128, 129, 2_047, 2_048, 2_049]), prop::sample::select(b"a{".to_vec()))
            .prop_map(|(length, byte)| vec![byte; length]),
    ]
}

/// A key id and one that looks like a form of it: encoded, marked, hashed, or with the end of the scope.
fn lookalikes() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    (tricky(), any::<bool>()).prop_map(|(id, marked)| {
        let text = tag("a", &id);
        let text = text.strip_prefix("a.").unwrap();
        let text = if marked { text } else { text.trim_start_matches('#') };
        (id, text.as_bytes().to_vec())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_different_pairs_never_share_a_name(
        a in "[ab.{}%#:2E]{0,5}", b in tricky(), c in "[ab.{}%#:2E]{0,5}", d in tricky()
    ) {
        prop_assert_eq!(name(&a, &b) == name(&c, &d), a == c && b == d);
        prop_assert_eq!(encoded(&a, &b) == encoded(&c, &d), a == c && b == d);
    }

    #[test]
    fn a_key_id_never_meets_one_that_looks_like_its_name((id, lookalike) in lookalikes()) {
        prop_assert_eq!(name("a", &id) == name("a", &lookalike), id == lookalike);
    }

    #[test]
    fn a_boundary_never_moves(a in "[ab.%#]{0,3}", b in "[ab.%#]{0,3}", c in "[ab.%#]{0,3}") {
        // Both pairs have the same text in Spring.
        let (left, right) = (format!("{a}.{b}"), format!("{b}.{c}"));
        prop_assert!(name(&left, c.as_bytes()) != name(&a, right.as_bytes()));
    }

    #[test]
    fn a_name_is_printable_and_has_one_hash_tag_around_both_parts(
        scope in ".{0,200}", id in prop_oneof![prop::collection::vec(any::<u8>(), 0..300), tricky()]
    ) {
        let name = name(&scope, &id);
        prop_assert!(!name.contains(char::is_control));
        prop_assert_eq!(name.find('{'), Some(PREFIX.len() - 1));
        prop_assert_eq!(name.find('}'), Some(name.len() - 2));
        prop_assert_eq!(name.matches(['{', '}']).count(), 2);
        prop_assert!(name.len() < PREFIX.len() + 2 * 3 * MAX_PLAIN);
    }
}
