//! Names of secrets that no schema has: each in every spelling, at every place.

use proptest::prelude::*;

use crate::diagnostics::{is_secret_key, is_secret_name};
use crate::parse;
use crate::schema::schema;
use crate::tests::secrets::{ELSEWHERE, HERE, case, said};

/// Names of secrets, as words.
const NAMES: [&str; 22] = [
    "access code",
    "access key",
    "api key",
    "aws secret access key",
    "bearer",
    "client secret",
    "creds",
    "encrypt key",
    "hmac",
    "jwt key",
    "key",
    "passcode",
    "password salt",
    "private key",
    "psw",
    "redis pass",
    "sasl jaas config",
    "service connection string",
    "shared access signature",
    "signing key",
    "slack webhook url",
    "webhook",
];

/// Names of secrets that are the names of sections, too: a plain value below one is a secret.
const WORDS: [&str; 13] =
    ["auth", "basic auth", "dsn", "jwt", "otp", "pat", "pin", "pw", "sas", "seed", "session id", "sig", "x auth"];

/// Places of a value below a `NAME`.
const PLACES: [&str; 10] = [
    "app:\n  NAME: SECRET",
    "app: {NAME: \"SECRET\", other: 1}",
    "app: {NAME: [SECRET, 'SECRET']}",
    "app: {NAME: {value: SECRET}}",
    "NAME: SECRET",
    "app.NAME: SECRET\napp.NAME: SECRET",
    "app: {NAME: SECRET, NAME: SECRET}",
    "app: {NAME:SECRET}",
    "{\"app\": {\"NAME\": \"SECRET\"}}",
    "app:\n  text: 'NAME=SECRET'",
];

/// Texts with a parameter, a header or a cookie `NAME`.
const TEXTS: [&str; 5] = [
    "routes: [{id: a, uri: 'http://a/b?x=1&NAME=SECRET', predicates: [Path=/SECRET, Foo=SECRET]}]",
    "routes: [{id: a, uri: 'http://a/#NAME=SECRET;y', predicates: [Path=/SECRET, Foo=SECRET]}]",
    "routes: [{id: a, uri: 'http://a', predicates: [Foo=1], filters: ['AddRequestHeader=X-NAME, SECRET', Foo=SECRET]}]",
    "routes: [{id: a, uri: 'http://a', predicates: [Foo=1], filters: [{name: AddRequestParameter, args: {name: NAME, value: SECRET}}]}]",
    "routes: [{id: a, uri: 'http://a', predicates: ['Cookie=NAME, SECRET', Foo=SECRET]}]",
];

/// Spellings of a name.
const SPELLINGS: [fn(&str) -> String; 6] = [
    |name| name.replace(' ', "-"),
    |name| name.replace(' ', "_"),
    |name| name.replace(' ', "_").to_uppercase(),
    |name| name.replace(' ', ""),
    camel,
    |name| camel(&format!(" {name}")),
];

fn camel(name: &str) -> String {
    let mut words = name.split(' ');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |joined, word| joined + &word[..1].to_uppercase() + &word[1..])
}

#[test]
fn each_key_of_the_schema_is_known_as_a_secret_or_as_none() {
    fn collect(schema: &serde_json::Value, names: &mut Vec<String>) {
        if let Some(properties) = schema["properties"].as_object() {
            names.extend(properties.keys().cloned());
        }
        match schema {
            serde_json::Value::Object(map) => map.values().for_each(|value| collect(value, names)),
            serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
            _ => {}
        }
    }
    let mut names = Vec::new();
    collect(&schema(), &mut names);
    names.retain(|name| is_secret_key(name) || name.strip_suffix('s').is_some_and(is_secret_key));
    names.sort();
    names.dedup();
    let expected = [
        "acl-token",
        "allow-credentials",
        "api-keys",
        "certificate-private-key",
        "cookie",
        "hash-keys",
        "hash-secret",
        "jwt",
        "key",
        "key-store-password",
        "max-keys",
        "oauth-token",
        "password",
        "repeated-keys",
        "requested-tokens",
        "redis-rate-limiter.requestedTokens",
        "token",
        "tokens",
        "trust-store-password",
    ];
    let mut expected = Vec::from(expected);
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn numbers_of_tokens_are_shown_in_excerpts() {
    for args in [
        "bucket4j-rate-limiter: {capacity: 5, refill-period: 1s, refill-tokens: 12345x, wrong: 1}",
        "'bucket4j-rate-limiter.refillTokens': 12345x, bucket4j-rate-limiter: {capacity: 5, refill-period: 1s}",
        "redis-rate-limiter.requestedTokens: 12345x, wrong: 1",
    ] {
        let text = format!(
            "spring.cloud.gateway.routes: [{{id: a, uri: 'http://a', predicates: [Path=/**], filters: [{{name: RequestRateLimiter, args: {{{args}}}}}]}}]\n"
        );
        let report = parse("application.yml", &text, &|_| None).map_or_else(|report| report, |loaded| loaded.notes);
        let shown = report.to_string();
        assert!(shown.contains("found `12345x`") && !shown.contains("***"), "{shown}");
    }
}

#[test]
fn names_with_other_meanings_have_no_secrets() {
    for name in [
        "deny-empty-key",
        "key-alias",
        "key-prefix",
        "key-resolver",
        "key-store",
        "primary-key",
        "spring.rabbitmq.template.routing-key",
        "ssl.public-key",
        "valkey",
        "allowCredentials",
        "allow-credentials",
        "server.ssl.client-auth",
        "compat",
        "spin",
    ] {
        assert!(
            !is_secret_key(name) && (!is_secret_name(name) || name.contains("empty-key") || name.starts_with("key-")),
            "{name}"
        );
    }
    for name in [
        "X-Colour",
        "Accept",
        "page",
        "design",
        "status-code",
        "Access-Control-Allow-Credentials",
        "Idempotency-Key",
        "Sec-WebSocket-Key",
        "X-Routing-Key",
    ] {
        assert!(!is_secret_name(name), "{name}");
    }
    for name in NAMES.iter().chain(&WORDS).copied().chain(["code", "X-Access-Code", "x-creds"]) {
        assert!(SPELLINGS.iter().all(|spelling| is_secret_name(&spelling(name))), "{name}");
    }
    let shown = |text: &str| said(&case("a.yaml", format!("{text}\nno-such-key: 1\nroutes: []\n")));
    for (text, value) in [
        ("redis: {host: a, ca: b, cert: c, key: /run/client, prot: 1}", "/run/client"),
        ("server: {prot: 1, ssl: {certificate-private-key: 'classpath:tls'}}", "classpath:tls"),
        ("key-resolvers: {apiKey: 'header:X-Api-Key', apiKey: ip}", "header:X-Api-Key"),
        ("management: {hash-keys: x, max-keys: 123456x}", "123456x"),
        ("jwt: {issuer: 'https://auth.example', x}", "https://auth.example"),
        ("server: {ssl: {client-auth: sometimes}}", "`sometimes`"),
    ] {
        assert!(shown(text).contains(value), "{}", shown(text));
    }
    assert!(!shown("app: {client-key: zQ81kx7v, x}\napp: {}").contains("zQ81kx7v"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn no_diagnostic_shows_the_value_of_a_name_that_no_schema_has(
        name in prop::sample::select(&NAMES[..]),
        spelling in prop::sample::select(&SPELLINGS[..]),
        place in prop::sample::select([&PLACES[..], &TEXTS[..]].concat()),
        elsewhere in prop::sample::select(&ELSEWHERE[..]),
        file in prop::sample::select(vec!["a.yaml", "application.yml"]),
        secret in "[0-9]zq[a-z0-9]{3,7}",
    ) {
        // A name may have the letters of `HERE`.
        let place = place.replace(HERE, &secret).replace("NAME", &spelling(name));
        let text = format!("{place}\n{}\n", elsewhere.replace(HERE, &secret));
        let said = said(&case(file, text.clone()));
        prop_assert!(!said.contains(&secret), "{text}\n{said}");
    }

    #[test]
    fn no_diagnostic_shows_a_plain_value_below_a_name_that_is_also_a_section(
        name in prop::sample::select(&WORDS[..]),
        spelling in prop::sample::select(&SPELLINGS[..]),
        place in prop::sample::select([&PLACES[..3], &PLACES[4..7], &PLACES[8..9], &TEXTS[..]].concat()),
        elsewhere in prop::sample::select(&ELSEWHERE[..]),
        secret in "[0-9]zq[a-z0-9]{3,7}",
    ) {
        let place = place.replace(HERE, &secret).replace("NAME", &spelling(name));
        let text = format!("{place}\n{}\n", elsewhere.replace(HERE, &secret));
        let said = said(&case("application.yml", text.clone()));
        prop_assert!(!said.contains(&secret), "{text}\n{said}");
    }

    #[test]
    fn no_diagnostic_shows_the_login_of_a_client_of_kafka(
        name in prop::sample::select(vec!["sasl.jaas.config", "saslJaasConfig", "KAFKA_LOGIN", "x: {y"]),
        elsewhere in prop::sample::select(&ELSEWHERE[..]),
        secret in "[0-9]zq[a-z0-9]{3,7}",
    ) {
        let login = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"SECRET\" password=\"b\";";
        let end = if name.contains('{') { "}" } else { "" };
        let text = format!("{name}: '{login}'{end}\n").replace(HERE, &secret);
        let said = said(&case("a.yaml", format!("{text}{}\n", elsewhere.replace(HERE, "1234567"))));
        prop_assert!(!said.contains(&secret), "{text}\n{said}");
    }
}
