//! Secrets that do not stand in the file: their text is masked wherever it appears, whatever their source.

use crate::CommandLine;
use crate::tests::files::Folder;
use crate::tests::*;

const SECRET: &str = "4zq81kx7v";

/// Variables of the environment, their values, and the settings that read them.
const SOURCES: [(&str, &str, &str); 11] = [
    ("SPRING_DATA_REDIS_PASSWORD", SECRET, "spring.data.redis.host: a"),
    ("SPRING_DATA_REDIS_PASSWORD", SECRET, "spring.data.redis: {host: a, password: other}"),
    ("SPRING_DATA_REDIS_URL", "redis://u:4zq81kx7v@h:1", ""),
    ("SPRING_CLOUD_CONSUL_TOKEN", SECRET, "spring.cloud.consul.host: a"),
    ("SPRING_CLOUD_NACOS_DISCOVERY_PASSWORD", SECRET, "spring.cloud.nacos.discovery.server-addr: 'a:1'"),
    ("EUREKA_CLIENT_SERVICEURL_DEFAULTZONE", "http://u:4zq81kx7v@h:1/eureka/", "a: b"),
    (
        "TOLLGATE_HTTPCLIENT_PROXY_PASSWORD",
        SECRET,
        "tollgate.httpclient.proxy: {host: a, port: 1, username: b, password: c}",
    ),
    ("MANAGEMENT_HASHSECRET", SECRET, "management.hash-secret: 0123456789abcdef"),
    ("DB_PASSWORD", SECRET, "spring.cloud.gateway.default-filters: ['AddRequestHeader=X-A, ${DB_PASSWORD}']"),
    (
        "STORE",
        SECRET,
        "app.api-key: ${STORE}\nspring.cloud.gateway.default-filters: ['AddRequestHeader=X-A, ${app.api-key}']",
    ),
    ("SPRING_APPLICATION_JSON", "{\"spring.data.redis.password\": \"4zq81kx7v\"}", ""),
];

/// Returns a file that has the secret as other texts, with `filters`.
fn file(settings: &str, filters: &str) -> String {
    format!(
        "{settings}\nspring.cloud.gateway.routes: [{{id: {SECRET}, uri: 'http://{SECRET}', predicates: [Path=/{SECRET}], filters: [{filters}]}}]\n"
    )
}

#[test]
fn the_value_of_a_secret_in_the_environment_is_masked_in_the_file() {
    for (variable, value, settings) in SOURCES {
        let env = |name: &str| (name == variable).then(|| value.to_owned());
        let notes =
            parse("application.yml", &file(settings, ""), &env).map_or_else(|report| report, |loaded| loaded.notes);
        assert!(!notes.render(false).contains(SECRET), "{variable}: {notes}");
        // As explanations and the log mask it.
        assert_eq!(notes.secret_values().mask("http://4zq81kx7v/"), "http://****/", "{variable}");
        let report = parse("application.yml", &file(settings, "'Foo=4zq81kx7v'"), &env).unwrap_err();
        assert!(report.to_string().contains("unknown filter `Foo`"), "{report}");
        assert!(!report.to_string().contains(SECRET), "{variable}: {report}");
        assert!(!report.overlay(&["application.yml"], None).unwrap_or_default().contains(SECRET), "{variable}");
    }
}

#[test]
fn the_value_of_a_secret_of_another_file_or_of_the_command_line_is_masked_in_all_files() {
    let import = |location: &str| format!("spring.config.import: '{location}'");
    let password = format!("spring.data.redis.password={SECRET}\n");
    let folder = Folder::of(&[
        ("tree/spring.data.redis.password", SECRET),
        ("other.properties", &password),
        ("application-prod.properties", &password),
    ]);
    let tree = import(&format!("configtree:{}/", folder.path("tree").display()));
    for (settings, argument, profiles) in [
        (tree.as_str(), None, None),
        (&import("other.properties"), None, None),
        ("", Some("spring.data.redis.password"), None),
        ("", Some("spring.datasource.password"), None),
        ("", None, Some("prod")),
    ] {
        let properties = argument.map(|name| (name.to_owned(), SECRET.to_owned())).into_iter().collect();
        let command_line = CommandLine { profiles: profiles.map(str::to_owned), properties };
        for filters in ["", "'Foo=4zq81kx7v'"] {
            folder.write("application.yml", &file(settings, filters));
            let said = load(&[folder.path("application.yml")], &command_line).map_or_else(
                |error| error.render(false),
                |loaded| loaded.notes.secret_values().mask(SECRET) + &loaded.notes.to_string(),
            );
            assert!(!said.contains(SECRET), "{settings} {argument:?}: {said}");
        }
    }
}

#[test]
fn a_repeated_key_of_properties_is_a_warning() {
    let text = "server.port=8081\nserver.port=8082\nspring.cloud.gateway.routes[0].id=a\nspring.cloud.gateway.routes[0].uri=http://a\nspring.cloud.gateway.routes[0].predicates[0]=Path=/a\n";
    let loaded = parse("application.properties", text, &no_env).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.config.server.port.get(), 8082);
    let expected = "application.properties:2:1: warning: duplicate key `server.port`: the last one counts, as in Java; the first is at application.properties:1:1";
    assert!(loaded.notes.to_string().contains(expected), "{}", loaded.notes);
}
