//! Secrets that messages may have in other forms than the file, and secrets that are words of messages.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use crate::parse;
use crate::tests::secrets::{ELSEWHERE, HERE, case, said};

/// Form of a secret in a section, the same at another place, and the section.
type Form = (fn(&str) -> (String, String), &'static str);

fn encoded(secret: &str) -> String {
    secret.replace('@', "%40")
}

/// Secrets whose text elsewhere is another than in their section.
const FORMS: [Form; 9] = [
    (|secret| (encoded(secret), secret.to_owned()), "redis: {url: 'redis://u:SECRET@h:1'}"),
    (|secret| (secret.to_owned(), encoded(secret)), "redis: {host: a, password: 'SECRET'}"),
    (
        |secret| (secret.to_owned(), format!("%{:02x}{}", secret.as_bytes()[0], &secret[1..])),
        "redis: {host: a, password: 'SECRET'}",
    ),
    (|secret| (secret.to_owned(), secret.to_lowercase()), "redis: {host: a, password: 'SECRET'}"),
    (|secret| (secret.to_owned(), STANDARD.encode(format!("u:{secret}"))), "redis: {host: a, password: 'SECRET'}"),
    (
        |secret| (secret.to_owned(), URL_SAFE_NO_PAD.encode(format!("user:{secret}"))),
        "redis: {host: a, password: 'SECRET'}",
    ),
    (
        |secret| (STANDARD.encode(format!("u:{secret}")), secret.to_owned()),
        "management: {otlp: {tracing: {headers: {authorization: 'Basic SECRET'}}}}",
    ),
    (
        |secret| (secret.to_owned(), secret.to_owned()),
        "management: {otlp: {tracing: {headers: {authorization: 'Bearer SECRET'}}}}",
    ),
    (
        |secret| (secret.to_owned(), secret.to_owned()),
        "x: |\n  -----BEGIN PRIVATE KEY-----\n  MIIEvQIBADANBgkqh\n  SECRET\n  -----END PRIVATE KEY-----",
    ),
];

#[test]
fn a_secret_that_is_a_word_of_messages_changes_none_of_them() {
    let text = |secret: &str| {
        format!("redis: {{host: a, prot: 1, password: {secret}}}\nrotes: []\nserver: {{port: unknown}}\nroutes: {{}}\n")
    };
    let said_with = |secret: &str| {
        let text = text(secret);
        parse("a.yaml", &text, &|_| None)
            .unwrap_err()
            .render(false)
            .lines()
            .filter(|line| !line.contains("redis:"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let usual = said_with("zq81kx7v").replace("^", "").replace(' ', "");
    for word in ["routes", "server", "unknown", "expected", "password", "integer", "number", "Routes"] {
        assert_eq!(said_with(word).replace("^", "").replace(' ', ""), usual, "{word}");
        let shown = parse("a.yaml", &text(word), &|_| None).unwrap_err().render(false);
        assert!(shown.contains(&format!("password: {}}}", "*".repeat(word.len()))), "{shown}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn no_diagnostic_shows_a_secret_in_another_form(
        form in prop::sample::select(&FORMS[..]),
        elsewhere in prop::sample::select(&ELSEWHERE[..]),
        secret in "[0-9]Zq@[a-zA-Z0-9]{5,9}",
    ) {
        let (written, other) = (form.0)(&secret);
        let text = format!("{}\n{}\n", form.1.replace(HERE, &written), elsewhere.replace(HERE, &other));
        let said = said(&case("a.yaml", text.clone()));
        prop_assert!(!said.to_lowercase().contains(&other.to_lowercase()), "{text}\n{said}");
    }
}
