//! Secrets at each place of each form: no diagnostic shows one, whatever else is wrong in the file.

use proptest::prelude::*;

use crate::{Report, migrate, parse};

/// Place of the secret in a text.
pub(super) const HERE: &str = "SECRET";

/// Values with secrets, in the own form: below the sections of the file.
const SECTIONS: [&str; 35] = [
    "redis: {host: a, password: SECRET}",
    "redis:\n  host: a\n  password: \"SECRET\"\n  timeout: x",
    "redis: {host: a, password: '${X:SECRET}'}",
    "redis: {host: a, password: !!int SECRET}",
    "redis.host: a\nredis.password: SECRET",
    "redis.host: a\nredis.password.x: SECRET",
    "redis: {host: a, passWord: |-\n  SECRET\n  }",
    "redis:\n  password: >-\n    SECRET",
    "redis:\n  password:\n    SECRET\n    more",
    "redis:\n- password=SECRET",
    "redis: {url: 'redis://u:SECRET@h:1'}",
    "redis: {url: \"redis://u:a\\\"SECRET@h:1\"}",
    "redis: {url: 'redis://u:SECRET%40h:1'}",
    "redis: {url: 'redis://u:a\n    SECRET@h:1'}",
    "management: {tokens: [{name: ops, role: write, token: SECRET}]}",
    "management: {tokens: {a: SECRET}}",
    "management: {tokens: [SECRET]}",
    "management:\n  tokens:\n    SECRET: ops",
    "management: {hash-secret: SECRET}",
    "management: {otlp: {tracing: {endpoint: 'http://a/', headers: {A: SECRET}}}}",
    "management: {otlp: {tracing: {endpoint: 'http://a/', headers: \"A=SECRET\"}}}",
    "management: {otlp: {tracing: {endpoint: 'http://a/', Headers: [A=SECRET]}}}",
    "httpclient: {proxy: {host: a, port: 1, username: b, password: SECRET}}",
    "server: {ssl: {key-store: a.jks, key-store-password: SECRET, key-password: SECRET}}",
    "redis: {host: a, passwrd: SECRET}",
    "redis: {host: a} # password: SECRET",
    "redis: {host: a, password SECRET}",
    "redis: {host: a, password:SECRET}",
    "redis: {url: 'redis:/u:SECRET@h:1'}",
    "redis:\n- password SECRET",
    "redis: {host: a, password: x, password: SECRET}",
    "redis: {host: a, port: x}\nredis: {password: SECRET}",
    "\"redis\": {\"host\": \"a\", \"password\": \"SECRET\", \"port\": \"x\"}",
    "{\"redis\": {\"host\": \"a\", \"password\": \"SECRET\", \"port\": 1 \"timeout\": 2}}",
    "redis: {\"host\":\"a\",\"password\":\"SECRET\",\"port\":\"x\"}",
];

/// Filters and predicates with secrets.
const FILTERS: [&str; 22] = [
    "AddRequestHeader=X-Token, SECRET",
    "AddRequestHeader =X-Token, SECRET",
    "'AddRequestHeader=Authorization, Bearer SECRET'",
    "\"SetRequestHeader=X-Token, a\\\"SECRET\"",
    "AddRequestHeader=X-Token,\n      SECRET",
    "AddRequestHeader: X-Token, SECRET",
    "AddRequestHeader X-Token, SECRET",
    "AddRequestHeader,X-Token, SECRET",
    "{name: AddRequestHeader, args: {name: X-Token, value:SECRET}}",
    "AddRequestHeader=X-Token, ${X:SECRET}",
    "AddRequestHeadersIfNotPresent=X-B:c,X-Token:SECRET",
    "{name: AddRequestHeader, args: {name: X-Token, value: SECRET}}",
    "{name: AddRequestHeader, args: {_genkey_0: X-Token, _genkey_1: SECRET}}",
    "RewriteResponseHeader=X-Token, a, SECRET",
    "{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1, exempt: [SECRET], block: SECRET}}",
    "{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1, Exempt: [SECRET]}}",
    "{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1, exempt: ['${X:SECRET}']}}",
    "name: RequestRateLimiter\n    args:\n      key-resolver: ip\n      replenish-rate: 1\n      exempt:\n      - a\n      - SECRET",
    "{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1, exempt: [SECRET/99]}}",
    "{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1, plan-resolver: {table: {SECRET: gold}}, plans: {gold: {replenish-rate: 5}}}}",
    "{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1, plan-resolver: {Table: {SECRET: gold}}, plans: {gold: {replenish-rate: 5}}}}",
    "name: RequestRateLimiter\n    args:\n      key-resolver: ip\n      replenish-rate: 1\n      plan-resolver:\n        table:\n          a: none\n          \"SECRET\": none",
];

/// Sections with a secret as a `VALUE`, in the styles of maps.
const STYLES: [&str; 9] = [
    "redis: {host: a, password: VALUE}",
    "redis:\n  host: a\n  passWord: VALUE",
    "redis.host: a\nredis.password: VALUE",
    "\"redis\": {\"host\": \"a\", \"password\": VALUE}",
    "redis: {host: a, password: VALUE, password: b}",
    "redis: {url: 'redis://u:SECRET@h'}",
    "management: {tokens: [{name: a, role: read, token: VALUE}]}",
    "spring.data.redis: {host: a, password: VALUE}",
    "spring:\n  data:\n    redis: {host: a, password: VALUE}",
];

/// Styles of a value.
const VALUES: [&str; 7] =
    ["SECRET", "'SECRET'", "\"SECRET\"", "\"ESCAPED\"", "!!str SECRET", "&s SECRET", "  # note\n      SECRET"];

/// The same text elsewhere, with an error beside it.
pub(super) const ELSEWHERE: [&str; 12] = [
    "SECRET: 1",
    "server: {port: SECRET}",
    "server: {port: x}  # SECRET",
    "server: {port: x, SECRET: 1}",
    "{SECRET: {port: x}",
    "redis: {port: SECRET}",
    "upstreams: {SECRET: {endpoints: ['SECRET']}}",
    "routes: [{id: a, uri: SECRET, predicates: [Path=/**]}]",
    "routes: [{id: a, uri: 'http://SECRET:x', predicates: [Foo=SECRET], filters: [SECRET=1, Foo=SECRET]}]",
    "routes: [{id: SECRET, uri: 'lb://SECRET', predicates: [Path=/SECRET/**, 'Header=SECRET, (']}]",
    "spring.cloud.gateway.routes: [{id: SECRET, uri: 'http://a', predicates: [Path=/SECRET], filters: [SECRET=1]}]",
    "\tSECRET: 1",
];

/// Files of properties.
const PROPERTIES: [&str; 9] = [
    "spring.data.redis.password=SECRET",
    "spring.data.redis.password = SECRET\\u00e9",
    "spring.data.redis.url=redis://u:SECRET@h:1x",
    "spring.data.redis.pass\\u0077ord: a\\\n  SECRET",
    "spring.cloud.gateway.routes[0].filters[0]=AddRequestHeader=X-Token, SECRET",
    "spring.cloud.gateway.routes[0].filters[0].name=AddRequestHeader\nspring.cloud.gateway.routes[0].filters[0].args.name=X-Token\nspring.cloud.gateway.routes[0].filters[0].args.value=SECRET",
    "spring.data.redis.password=SECRET\nspring.data.redis.pass-word=other",
    "spring.cloud.gateway.routes[0].filters[0].name=AddRequestHeader\nspring.cloud.gateway.routes[0].filters[0].args.name=X-Token\nspring.cloud.gateway.routes[0].filters[0].args.value=SECRET\nspring.cloud.gateway.routes[0].filters[0].args.value=other",
    "spring.cloud.gateway.routes[0].filters[0].name=RequestRateLimiter\nspring.cloud.gateway.routes[0].filters[0].args.exempt[0]=SECRET/99",
];

/// The form and the environment of a configuration, with the secret in one of them.
#[derive(Clone, Debug)]
pub(super) struct Case {
    name: &'static str,
    text: String,
    env: Vec<(&'static str, String)>,
}

pub(super) fn case(name: &'static str, text: String) -> Case {
    Case { name, text, env: Vec::new() }
}

fn cases() -> Vec<Case> {
    let route = "routes:\n- id: a\n  uri: http://a\n  predicates: [Path=/a]\n";
    let spring = |text: &str| format!("spring:\n  cloud:\n    gateway:\n      {}\n", text.replace('\n', "\n      "));
    let filters = FILTERS.map(|filter| format!("{route}  filters:\n  - {filter}\n"));
    let predicates = ["Header=X-Token, SECRET(", "Cookie=session, SECRET", "Query=token, SECRET"];
    let predicates =
        predicates.map(|predicate| format!("routes:\n- id: a\n  uri: http://a\n  predicates:\n  - {predicate}\n"));
    let routes = filters.iter().chain(&predicates);
    let spring_routes: Vec<Case> = routes.clone().map(|text| case("application.yml", spring(text))).collect();
    let spring_redis = SECTIONS[..14].iter().filter(|section| section.starts_with("redis:"));
    let spring_redis =
        spring_redis.map(|section| format!("spring:\n  data:\n    {}\n{}", section.replace('\n', "\n    "), "x: y"));
    let properties =
        PROPERTIES.map(|text| case("application.properties", format!("spring.cloud.gateway.routes[0].id=a\n{text}\n")));
    let sections = SECTIONS.map(|section| case("a.yaml", format!("{section}\n{route}")));
    let json = [
        "{\"spring.data.redis.password\": \"SECRET\"}",
        "{\"spring\": {\"data\": {\"redis\": {\"url\": \"redis://u:SECRET@h:x\"}}}}",
    ];
    let with = |name, value: &str, text: &str| Case {
        env: vec![(name, value.to_owned())],
        ..case("application.yml", spring(text))
    };
    let json = json.map(|json| with("SPRING_APPLICATION_JSON", json, route));
    let limiter =
        "{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1, exempt: ['${KEYS}'], block: ${KEYS}}}";
    let outside = [
        with("SPRING_DATA_REDIS_PASSWORD", "SECRET", &format!("{route}  metadata: {{response-timeout: x}}")),
        with("SPRING_DATA_REDIS_URL", "redis://u:SECRET@h:x", route),
        with("KEYS", "SECRET/99", &format!("{route}  filters:\n  - {limiter}")),
        with("TOKEN", "SECRET\u{1}", &format!("{route}  filters:\n  - AddRequestHeader=X-Token, ${{TOKEN}}")),
        with("SPRING_CLOUD_GATEWAY_DEFAULTFILTERS_0", "AddRequestHeader=X-Token, SECRET\u{1}", route),
        with("SPRING_CLOUD_GATEWAY_ROUTES_0_FILTERS_0", "AddRequestHeadr=X-Token, SECRET", route),
    ];
    let mut all: Vec<Case> = routes.map(|text| case("a.yaml", text.clone())).collect();
    all.extend(spring_routes);
    all.extend(spring_redis.map(|text| case("application.yml", text)));
    all.extend(sections.into_iter().chain(properties).chain(json).chain(outside));
    all
}

/// Returns everything that is said about a configuration.
pub(super) fn said(case: &Case) -> String {
    let env = |name: &str| case.env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
    let all = |report: &Report| {
        let listed = report.list().iter().map(|found| format!("{}\n{:?}\n", found.message, found.help));
        format!("{}{}", report.render(false), listed.collect::<String>())
    };
    let checked = parse(case.name, &case.text, &env).map_or_else(|report| all(&report), |loaded| all(&loaded.notes));
    let migrated =
        migrate(case.name, &case.text, &env).map_or_else(|report| all(&report), |migrated| all(&migrated.notes));
    checked + &migrated
}

fn shows(case: &Case, secret: &str) -> Option<String> {
    let said = said(case);
    let (first, second) = secret.split_at(secret.len() / 2);
    [first, second].iter().any(|part| said.contains(part)).then_some(said)
}

#[test]
fn no_diagnostic_shows_a_secret() {
    // A sign more would make something else of them.
    let urls = ["redis://:SECRET", "redis://u:SECRET/0", "redis://:SECRET/0", "redis://u:SECRET:6379"];
    let urls = urls.map(|url| case("a.yaml", format!("redis: {{url: '{url}', timeout: x}}\nroutes: []\n")));
    for mut case in cases().into_iter().chain(urls) {
        let fill = |text: &str| text.replace(HERE, "zq81kx7v");
        case.text = fill(&case.text);
        case.env.iter_mut().for_each(|(_, value)| *value = fill(value));
        // A setting that is unknown, a value that is wrong, and a text that cannot be read.
        for more in ["", "\nno-such-key: 1\n", "\nserver: {port: x}\n", "\n- {\n", "\nx: 'y\n"] {
            let case = Case { text: format!("{}{more}", case.text), ..case.clone() };
            let said = shows(&case, "zq81kx7v");
            assert!(said.is_none(), "{}\n{}", case.text, said.unwrap_or_default());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn no_diagnostic_shows_a_secret_of_a_damaged_file(
        mut case in prop::sample::select(cases()).prop_filter("names of several parts", |case| !case.text.contains(".args.")),
        secret in "[0-9]zq[a-z0-9]{7}",
        after in 0_usize..2,
        at in any::<prop::sample::Index>(),
        sign in prop::sample::select(" \t:{}]*|>'\"=$".chars().collect::<Vec<_>>()),
    ) {
        let fill = |text: &str| text.replace(HERE, &secret);
        case.env.iter_mut().for_each(|(_, value)| *value = fill(value));
        // Names stay whole, and the lines of a section stay below it.
        let is_free = |(at, c): &(usize, char)| {
            let is_indentation = case.text[..*at].trim_end_matches([' ', '-']).ends_with('\n');
            !is_indentation && !case.text[..at + after].ends_with(',') && !c.is_alphanumeric() && !"@%\\-_.\n".contains(*c)
        };
        let signs: Vec<usize> = case.text.char_indices().filter(is_free).map(|(at, _)| at).collect();
        let place = *at.get(&signs);
        let mut text = case.text.clone();
        text.insert(place + after, sign);
        case.text = fill(&text);
        let said = shows(&case, &secret);
        prop_assert!(said.is_none(), "{}\n{}", case.text, said.unwrap_or_default());
    }

    #[test]
    fn no_diagnostic_shows_the_value_of_a_secret_at_another_place(
        section in prop::sample::select(&STYLES[..]),
        value in prop::sample::select(&VALUES[..]),
        elsewhere in prop::sample::select(&ELSEWHERE[..]),
        is_first in any::<bool>(),
        secret in "[0-9]zq[a-z0-9]{3,7}",
    ) {
        let escaped: String = secret.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        let section = section.replace("VALUE", value).replace("ESCAPED", &escaped);
        let parts = if is_first { [section.as_str(), elsewhere] } else { [elsewhere, section.as_str()] };
        let name = if section.contains("spring") { "application.yml" } else { "a.yaml" };
        let said = said(&case(name, parts.join("\n").replace(HERE, &secret) + "\n"));
        prop_assert!(!said.contains(&secret), "{}\n{said}", parts.join("\n"));
    }
}
