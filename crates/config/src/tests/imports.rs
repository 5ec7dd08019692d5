//! `spring.config.import`, further locations, and their order.

use crate::tests::files::Folder;
use crate::tests::has_springs_timeouts;

const ROUTES: &str = "spring.cloud.gateway.routes: ['a=http://a,Path=/**']\n";

fn headers(folder: &Folder, profiles: Option<&str>) -> u32 {
    let loaded = folder.load(&["application.yml"], profiles).unwrap_or_else(|error| panic!("{error}"));
    u32::try_from(loaded.config.server.max_headers.get()).unwrap()
}

#[test]
fn an_imported_file_wins_over_the_importing_document_and_not_over_later_ones() {
    let main = |more: &str| {
        format!("{ROUTES}spring.config.import: conf/a.yml\nserver: {{max-headers: 10, max-header-size: 8010}}\n{more}")
    };
    let folder = Folder::of(&[
        ("application.yml", &main("")),
        ("conf/a.yml", "spring.config.import: ['b.properties', 'optional:none.yml']\nserver.max-headers: 20\n"),
        ("conf/b.properties", "server.max-headers=30\n"),
        ("conf/a-prod.yml", "server.max-headers: 40\n"),
    ]);
    assert_eq!(headers(&folder, None), 30);
    assert_eq!(headers(&folder, Some("prod")), 40);
    folder.write("application-prod.yml", "server.max-headers: 50\n");
    assert_eq!(headers(&folder, Some("prod")), 50);
    folder.write("application.yml", &main("---\nserver.max-headers: 60\n"));
    assert_eq!((headers(&folder, None), headers(&folder, Some("prod"))), (60, 50));
}

#[test]
fn imports_of_documents_for_profiles_are_read_with_them() {
    let folder = Folder::of(&[
        (
            "application.yml",
            &format!(
                "{ROUTES}server.max-headers: 10\n---\nspring.config: {{activate.on-profile: prod, import: 'file:prod/'}}\n"
            ),
        ),
        ("prod/application.yml", "server.max-headers: 20\n"),
        ("prod/application.properties", "server.max-headers=30\n"),
        ("prod/application-eu.yml", "server.max-headers: 40\n"),
    ]);
    assert_eq!((headers(&folder, None), headers(&folder, Some("prod"))), (10, 30));
    assert_eq!(headers(&folder, Some("prod,eu")), 40);
}

#[test]
fn a_tree_of_files_holds_a_property_in_each() {
    let folder = Folder::of(&[
        ("application.yml", &format!("{ROUTES}spring.config.import: 'optional:configtree:secrets/*/'\n")),
        ("secrets/redis/spring/data/redis/password", "s3cret\n"),
        ("secrets/redis/spring.data.redis.host", "cache"),
        ("secrets/redis/..data/ignored", "x"),
        ("secrets/server/server.max-headers", "70\n"),
    ]);
    let loaded = folder.load(&["application.yml"], None).unwrap();
    assert_eq!(loaded.config.server.max_headers.get(), 70);
    assert_eq!(loaded.config.redis.unwrap().settings.login.password.as_deref(), Some("s3cret"));
    folder.write("secrets/server/server.max-headers", "many");
    let error = folder.load(&["application.yml"], None).unwrap_err();
    assert!(error.contains("secrets/server/server.max-headers: error: expected a whole number"), "{error}");
}

#[test]
fn missing_files_cycles_and_servers_are_reported_at_their_place() {
    let folder = Folder::of(&[
        ("application.yml", &format!("{ROUTES}spring.config.import:\n- classpath:a.yml\n- none/b.yml\n")),
        ("a.yml", "server: {port: 1}\nspring.config.import: application.yml\n"),
    ]);
    let error = folder.load(&["application.yml"], None).unwrap_err();
    assert!(
        error.contains("application.yml:4:3: error: `spring.config.import`: `none/b.yml` does not exist"),
        "{error}"
    );
    assert!(error.contains("help: tried none/b.yml; `optional:none/b.yml` may be absent"), "{error}");
    folder.write(
        "application.yml",
        &format!("{ROUTES}spring.config.import: 'classpath:a.yml, optional:nacos:gw.yml, consul:'\n"),
    );
    let notes = folder.notes(&["application.yml"]);
    assert!(notes.contains("a.yml:2:23: warning: `spring.config.import` leads back to application.yml"), "{notes}");
    assert!(
        notes.contains("2:23: warning: `spring.config.import` is not read: `optional:nacos:gw.yml` needs a server"),
        "{notes}"
    );
    assert!(notes.contains("consul kv get") && notes.contains("--config exported.yml"), "{notes}");
    folder.write("a.yml", "server: [\n");
    let error = folder.load(&["application.yml"], None).unwrap_err();
    assert!(error.contains("a.yml:1:9: error: not valid YAML"), "{error}");
    std::fs::write(folder.path("a.yml"), b"a: \xff").unwrap();
    let error = folder.load(&["application.yml"], None).unwrap_err();
    assert!(
        error.contains("application.yml:2:23: error: `spring.config.import`: `classpath:a.yml` is not read: a.yml"),
        "{error}"
    );
    folder.write("application.yml", &format!("{ROUTES}spring.config.additional-location: x/\n"));
    assert!(
        folder
            .notes(&["application.yml"])
            .contains("warning: `spring.config.additional-location` has no effect in a file")
    );
}

#[test]
fn hints_name_the_format_and_the_charset() {
    let folder = Folder::of(&[
        (
            "application.yml",
            &format!(
                "{ROUTES}spring.config.import: ['limits[.yml]', 'more[.properties][encoding=utf-8]', '${{DIR:conf}}/a.yml']\n"
            ),
        ),
        ("limits", "server: {max-headers: 20}\n"),
        ("more", "server.max-header-size=8200\nx=é\n"),
        ("conf/a.yml", "server: {max-headers: 33}\n"),
    ]);
    assert_eq!(headers(&folder, None), 33);
    assert!(!folder.notes(&["application.yml"]).contains("ISO-8859-1"));
}

#[test]
fn a_bootstrap_file_is_read_below_the_application_file() {
    let folder = Folder::of(&[
        ("application.yml", &format!("{ROUTES}server.max-headers: 10\n")),
        (
            "bootstrap.yml",
            "spring: {application.name: gw, profiles.active: dev}\nserver: {max-headers: 20, max-http-request-header-size: 9000}\n",
        ),
        ("bootstrap-dev.properties", "spring.cloud.nacos.discovery.server-addr=nacos:8848\nserver.max-headers=30\n"),
    ]);
    let read = |folder: &Folder| folder.load(&["application.yml"], None).unwrap();
    let loaded = read(&folder);
    assert_eq!(
        (loaded.config.server.max_headers.get(), loaded.config.server.max_http_request_header_size.get()),
        (10, 9000)
    );
    assert_eq!(loaded.config.registries.len(), 1, "its profile counts");
    let notes = loaded.notes.to_string();
    assert!(notes.contains("bootstrap.yml is read first, as in Spring Cloud"), "{notes}");
    let given = folder.load(&["application.yml", "bootstrap.yml"], None).unwrap();
    assert_eq!(given.config.server.max_headers.get(), 30, "in the given order, if it is given");
    assert!(!given.notes.to_string().contains("is read first"));
    folder.write("application-dev.yml", "spring.cloud.bootstrap.enabled: true\nserver.max-headers: 40\n");
    assert_eq!(read(&folder).config.server.max_headers.get(), 40, "profiles that it names count for all files");
    folder.write("application.yml", &format!("{ROUTES}spring.cloud.bootstrap.enabled: false\n"));
    let loaded = read(&folder);
    assert!(loaded.config.registries.is_empty() && loaded.config.server.max_headers.get() != 40);
    folder.write("application.yml", "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n");
    assert!(!has_springs_timeouts(&read(&folder).config), "our own form has none");
    folder.write("other.yml", ROUTES);
    assert!(folder.load(&["other.yml"], None).unwrap().config.registries.is_empty());
}
