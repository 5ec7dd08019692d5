//! Properties of the command line.

use crate::CommandLine;
use crate::tests::files::Folder;
use crate::tests::*;

fn line(properties: &[(&str, &str)]) -> CommandLine {
    let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    CommandLine { profiles: None, properties }
}

fn loaded(folder: &Folder, names: &[&str], properties: &[(&str, &str)]) -> Result<Loaded, String> {
    let paths: Vec<PathBuf> = names.iter().map(|name| folder.path(name)).collect();
    load(&paths, &line(properties)).map_err(|error| error.render(false))
}

const APPLICATION: &str = "spring.cloud.gateway.routes: [{id: a, uri: 'http://${host.name}', predicates: [Path=/a]}]\n\
                           server: {port: 1, max-headers: 50}\nhost.name: file\n";

#[test]
fn properties_win_over_files_json_and_profiles() {
    let folder = Folder::of(&[("application.yml", APPLICATION), ("application-dev.yml", "server.max-headers: 60\n")]);
    let of = |properties: &[(&str, &str)]| {
        loaded(&folder, &["application.yml"], properties).unwrap_or_else(|error| panic!("{error}"))
    };
    let config = of(&[("server.port", "2"), ("server.maxHeaders", "70"), ("host.name", "given")]).config;
    assert_eq!(
        (config.server.port.get(), config.server.max_headers.get(), has_springs_timeouts(&config)),
        (2, 70, true)
    );
    assert!(format!("{:?}", config.routes[0].uri).contains("given"), "{:?}", config.routes[0].uri);
    assert_eq!(of(&[("spring.profiles.active", "dev")]).config.server.max_headers.get(), 60);
    assert_eq!(
        of(&[("spring.profiles.active", "dev"), ("server.max-headers", "5")]).config.server.max_headers.get(),
        5
    );
    let json = r#"{"server": {"max-headers": 80, "port": 3}}"#;
    let config = of(&[("spring.application.json", json), ("server.port", "4")]).config;
    assert_eq!((config.server.port.get(), config.server.max_headers.get()), (4, 80));
    let list = [
        ("spring.cloud.gateway.routes[0].id", "x"),
        ("spring.cloud.gateway.routes[0].uri", "http://x"),
        ("spring.cloud.gateway.routes[0].predicates[0]", "Path=/x"),
    ];
    let config = of(&list).config;
    assert_eq!((config.routes.len(), &*config.routes[0].id), (1, "x"));
    // An application has properties of its own.
    assert!(of(&[("shop.colour", "red")]).notes.list().iter().all(|note| note.severity != Severity::Warning));
}

#[test]
fn files_in_our_own_form_take_properties_too() {
    let folder = Folder::of(&[("tollgate.yaml", "routes: [{id: a, uri: 'http://a', predicates: [Path=/a]}]\n")]);
    let of = |properties: &[(&str, &str)]| loaded(&folder, &["tollgate.yaml"], properties);
    let config = of(&[("server.port", "2"), ("upstreams.a.endpoints", "http://b")]).unwrap().config;
    assert_eq!((config.server.port.get(), has_springs_timeouts(&config)), (2, false));
    assert!(of(&[("spring.profiles.active", "dev")]).unwrap().notes.is_empty());
    let notes = of(&[("spring.data.redis.host", "cache")]).unwrap();
    assert!(!has_springs_timeouts(&notes.config) && notes.config.redis.is_none());
    let notes = notes.notes.to_string();
    assert!(notes.contains("--spring.data.redis.host: warning: `spring.data.redis.host` has no effect"), "{notes}");
    let error = of(&[("sever.port", "2")]).unwrap_err();
    assert!(error.contains("--sever.port: error: unknown key `sever`") && error.contains("server"), "{error}");
}

#[test]
fn mistakes_name_the_property_and_hide_secrets() {
    let folder = Folder::of(&[("application.yml", APPLICATION)]);
    let of = |properties: &[(&str, &str)]| loaded(&folder, &["application.yml"], properties).unwrap_err();
    let error = of(&[("server.max-headers", "many")]);
    assert!(error.contains("--server.max-headers: error: expected a whole number from 0, found `many`"), "{error}");
    let error = of(&[("server.port", "${NO_SUCH_PORT}")]);
    assert!(error.contains("--server.port: error:"), "{error}");
    let error = of(&[("spring.data.redis.host", "a b"), ("spring.data.redis.password", "s3cret${X_NOT_SET}")]);
    assert!(!error.contains("s3cret"), "{error}");
    let error = of(&[("spring.config.additional-location", "none/")]);
    assert!(error.contains("cannot read none"), "{error}");
}

#[test]
fn locations_are_read_by_the_command_line() {
    let folder = Folder::of(&[("a/application.yml", APPLICATION), ("b/application.yml", "server.port: 9\n")]);
    let (a, b) = (folder.path("a/").display().to_string(), folder.path("b/").display().to_string());
    let config = loaded(&folder, &[], &[("spring.config.location", &a)]).unwrap().config;
    assert_eq!(config.server.port.get(), 1);
    let both = [("spring.config.location", a.as_str()), ("spring.config.additional-location", b.as_str())];
    assert_eq!(loaded(&folder, &[], &both).unwrap().config.server.port.get(), 9);
    let missing = folder.path("none.yml").display().to_string();
    let error = loaded(&folder, &[], &[("spring.config.location", &missing)]).unwrap_err();
    assert!(error.contains("none.yml"), "{error}");
}

#[test]
fn migrate_keeps_properties_of_the_command_line() {
    let folder = Folder::of(&[("application.yml", APPLICATION)]);
    let properties = [("server.port", "7"), ("spring.profiles.active", "dev")];
    let yaml = crate::migrate_files(&[folder.path("application.yml")], &line(&properties), "").unwrap().yaml;
    assert!(yaml.contains("port: 7"), "{yaml}");
    parse("tollgate.yaml", &yaml, &|_| None).unwrap_or_else(|error| panic!("{yaml}{error}"));
}
