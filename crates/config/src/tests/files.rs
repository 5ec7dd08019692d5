//! Several files as one configuration.

use crate::tests::*;

/// A folder with files.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Loads the files `names`. Returns the result with the folder's path removed.
    pub(super) fn load(&self, names: &[&str], profiles: Option<&str>) -> Result<Loaded, String> {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.0.path().join(name)).collect();
        let command_line = crate::CommandLine { profiles: profiles.map(str::to_owned), properties: Vec::new() };
        load(&paths, &command_line).map_err(|error| self.plain(&error.render(false)))
    }

    /// Returns the diagnostics of a configuration that can be used.
    pub(super) fn notes(&self, names: &[&str]) -> String {
        let loaded = self.load(names, None).unwrap_or_else(|error| panic!("{error}"));
        self.plain(&loaded.notes.to_string())
    }

    fn plain(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

#[test]
fn files_that_contradict_each_other_are_both_named() {
    let route = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";
    for (file, overlay, message) in [
        (
            "upstreams: {a: {endpoints: ['http://a']}}",
            "upstreams: {a: {dns: {name: a}}}",
            "has both `endpoints` and `dns`",
        ),
        ("httpclient: {tls: {ca: a.pem}}", "httpclient: {ssl: {}}", "`ssl` and `tls` are both given"),
        ("redis: {url: 'redis://a'}", "redis: {cluster: {nodes: 'a:1'}}", "`url` and `cluster` are both given"),
        ("redis: {tls: true, host: a}", "redis: {ssl: true}", "`ssl` and `tls` are both given"),
    ] {
        let folder = Folder::of(&[("a.yaml", &format!("{route}{file}\n")), ("b.yaml", &format!("{overlay}\n"))]);
        let error = folder.load(&["a.yaml", "b.yaml"], None).unwrap_err();
        let line = error.lines().find(|line| line.contains(message)).unwrap_or_else(|| panic!("{error}"));
        assert!(line.contains("a.yaml:2:") && line.contains("b.yaml:1:") && line.contains(", the other at "), "{line}");
    }
}

const SPRING: &str = "spring.cloud.gateway.routes:\n- {id: a, uri: 'lb://orders', predicates: [Path=/a/**], filters: [{name: RequestRateLimiter, args: {key-resolver: '#{@user}', redis-rate-limiter.replenishRate: 1}}]}\n";

#[test]
fn values_of_later_files_win_and_lists_are_replaced() {
    let folder = Folder::of(&[
        ("application.yml", SPRING),
        (
            "overlay.yaml",
            "server: {max-headers: 60}\nupstreams: {orders: {endpoints: ['http://127.0.0.1:1']}}\nkey-resolvers: {user: ip}\n",
        ),
        ("last.yaml", "upstreams: {orders: {endpoints: ['http://127.0.0.2:2']}}\nkey-resolvers: {USER: path}\n"),
    ]);
    assert!(folder.load(&["application.yml"], None).unwrap_err().contains("Java bean"));
    let loaded = folder.load(&["application.yml", "overlay.yaml", "last.yaml"], None).unwrap();
    assert_eq!(loaded.config.server.max_headers.get(), 60);
    assert!(has_springs_timeouts(&loaded.config));
    let upstream = format!("{:?}", loaded.config.upstreams);
    assert!(upstream.contains("127.0.0.2") && !upstream.contains("127.0.0.1"), "{upstream}");
}

#[test]
fn each_diagnostic_names_its_file() {
    let folder = Folder::of(&[
        ("application.yml", SPRING),
        (
            "overlay.yaml",
            "key-resolvers:\n  user: nonsense\nupstreams: {orders: {endpoints: ['http://127.0.0.1:1']}}\n",
        ),
    ]);
    let error = folder.load(&["application.yml", "overlay.yaml"], None).unwrap_err();
    assert!(error.contains("overlay.yaml:2:9: error: "), "{error}");
    folder.write("overlay.yaml", "upstreams: {orders: {endpoints: ['http://127.0.0.1:1']}}\n");
    let error = folder.load(&["application.yml", "overlay.yaml"], None).unwrap_err();
    assert!(error.contains("application.yml:2:"), "{error}");
    folder.write("overlay.yaml", "upstreams: [\n");
    let error = folder.load(&["application.yml", "overlay.yaml"], None).unwrap_err();
    assert!(error.contains("overlay.yaml:1:12: error: not valid YAML"), "{error}");
    assert_eq!(
        folder.load(&["application.yml", "none.yaml"], None).unwrap_err().matches("cannot read none.yaml").count(),
        1
    );
}

#[test]
fn a_value_over_keys_is_reported_with_both_places() {
    let folder = Folder::of(&[
        ("a.yaml", "routes: ['a=http://a,Path=/**']\nserver:\n  path: {backslash: keep}\n"),
        ("b.yaml", "server:\n  path: keep\n"),
        ("c.yaml", "server:\n  path:\n  max-headers: 7\n"),
    ]);
    let error = folder.load(&["a.yaml", "b.yaml"], None).unwrap_err();
    let both = "b.yaml:2:9: warning: `server.path` is a value here, which replaces a map of keys at a.yaml:3:9\n";
    assert!(error.contains(both), "{error}");
    assert!(error.contains("b.yaml:2:9: error: "), "{error}");
    assert_eq!(folder.notes(&["a.yaml", "c.yaml"]), "", "an empty value leaves a map, as in Spring");
}

#[test]
fn files_of_profiles_follow_their_own_file() {
    let folder = Folder::of(&[
        ("application.yml", "spring.profiles.active: prod\nspring.cloud.gateway.routes: ['a=http://a,Path=/**']\n"),
        (
            "application-prod.yml",
            "server: {max-headers: 20, max-requests-per-connection: 20}\nspring.profiles.active: test\n",
        ),
        ("gateway.yml", "server: {max-headers: 30}\n"),
        ("gateway-prod.yml", "server: {max-header-size: 9000}\n"),
        ("gateway-test.yml", "server: {max-header-size: 7000}\n"),
    ]);
    let headers = |names: &[&str]| folder.load(names, None).unwrap().config.server.max_headers.get();
    assert_eq!(headers(&["application.yml"]), 20);
    assert_eq!(headers(&["application.yml", "gateway.yml"]), 30);
    assert_eq!(headers(&["application.yml", "gateway.yml", "application.yml"]), 20);
}

#[test]
fn files_of_properties_are_read_as_spring_boot_reads_them() {
    let folder = Folder::of(&[
        (
            "application.properties",
            "# the gateway\nserver.max-headers=50\nspring.cloud.gateway.routes[0].id = a\nspring.cloud.gateway.routes[0].uri: http://a:81\nspring.cloud.gateway.routes[0].predicates[0]=Path=/a/**,\\\n    /b/**\nspring.cloud.gateway.routes[0].filters[0].name RequestSize\nspring.cloud.gateway.routes[0].filters[0].args.maxSize=5000000\n#---\nspring.config.activate.on-profile=prod\nserver.max-headers=60\n",
        ),
        ("application-prod.properties", "server.max-header-size=9000\n"),
        ("application-prod.yml", "server.max-header-size: 8500\n"),
    ]);
    let loaded = folder.load(&["application.properties"], None).unwrap();
    let route = &loaded.config.routes[0].definition;
    assert_eq!(
        (route.predicates.as_slice(), loaded.config.server.max_headers.get()),
        (&["Path=/a/**,/b/**".to_owned()][..], 50)
    );
    let loaded = folder.load(&["application.properties"], Some("prod")).unwrap();
    assert_eq!(loaded.config.server.max_headers.get(), 60);
    folder.write("wrong.properties", "\nserver.max-headers = \\\n   many\n");
    let error = folder.load(&["application.properties", "wrong.properties"], None).unwrap_err();
    assert!(error.contains("wrong.properties:3:4: error: expected a whole number"), "{error}");
    folder.write("wrong.properties", "spring.cloud.gateway.routes[0].id=a\nspring.cloud.gateway.routes[0].uri=http://a\nspring.cloud.gateway.routes[0].predicates[0]=Path=/a, /{b\n");
    let error = folder.load(&["application.properties", "wrong.properties"], None).unwrap_err();
    assert!(error.contains("wrong.properties:3:55: error:"), "{error}");
    folder.write("wrong.properties", "a=\\u00\n");
    let error = folder.load(&["application.properties", "wrong.properties"], None).unwrap_err();
    assert!(error.contains("wrong.properties:1:3: error: `\\u` needs four hexadecimal digits"), "{error}");
    folder.write("wrong.properties", "server.server-header=é\n");
    let notes = folder.notes(&["application.properties", "wrong.properties"]);
    assert!(notes.contains("wrong.properties:1:22: warning: the value is UTF-8"), "{notes}");
}

#[test]
fn json_of_the_environment_wins_over_the_environment_and_the_file() {
    let env = |name: &str| {
        match name {
        "SPRING_APPLICATION_JSON" => Some(r#"{"server":{"max-headers":70},"spring.cloud.gateway.routes":[{"id":"j","uri":"http://j","predicates":["Path=/j"]}]}"#.to_owned()),
        "SERVER_MAXHEADERS" => Some("80".to_owned()),
        "SERVER_MAXHEADERSIZE" => Some("9999".to_owned()),
        _ => None,
    }
    };
    for file in [
        "spring.cloud.gateway.routes: ['a=http://a,Path=/**']\nserver: {max-headers: 50}\n",
        "server: {max-headers: 50}\n",
    ] {
        let config = parse("application.yml", file, &env).unwrap().config;
        assert_eq!((config.server.max_headers.get(), &*config.routes[0].id), (70, "j"), "{file}");
    }
    let own = parse("tollgate.yaml", "routes: ['a=http://a,Path=/**']\n", &env).unwrap().config;
    assert_eq!((&*own.routes[0].id, has_springs_timeouts(&own)), ("a", false), "our own form does not read it");
    let env = |name: &str| (name == "SPRING_APPLICATION_JSON").then(|| r#"{"server.port": "s3cret""#.to_owned());
    let error = parse("application.yml", "spring: {application: {name: x}}", &env).unwrap_err().to_string();
    assert!(error.contains("SPRING_APPLICATION_JSON: error: not valid JSON") && !error.contains("s3cret"), "{error}");
}

#[test]
fn lists_of_the_environment_replace_those_of_the_file() {
    let variables = [
        ("SPRING_CLOUD_GATEWAY_ROUTES_0_ID", "e"),
        ("SPRING_CLOUD_GATEWAY_ROUTES_0_URI", "http://e:82"),
        ("SPRING_CLOUD_GATEWAY_ROUTES_0_PREDICATES_0", "Path=/e/**"),
        ("SPRING_CLOUD_GATEWAY_ROUTES_0_PREDICATES_1_NAME", "Method"),
        ("SPRING_CLOUD_GATEWAY_ROUTES_0_PREDICATES_1_ARGS_METHODS", "GET"),
        ("SPRING_CLOUD_GATEWAY_ROUTES_0_FILTERS_0", "StripPrefix=1"),
        ("SPRING_CLOUD_GATEWAY_ROUTES_0_METADATA_RESPONSETIMEOUT", "7000"),
        ("SPRING_CLOUD_GATEWAY_ROUTES_1_URI", "http://f"),
        ("SPRING_CLOUD_GATEWAY_ROUTES_1_ID", "f"),
        ("SPRING_CLOUD_GATEWAY_ROUTES_1_PREDICATES_0", "Path=/f"),
        ("SPRING_CLOUD_GATEWAY_DEFAULTFILTERS_0", "AddRequestHeader=X,${y}"),
    ];
    let env = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    for file in ["spring.cloud.gateway.routes: ['a=http://a,Path=/**']\n", "server.max-headers: 50\n"] {
        let loaded = parse("application.yml", file, &env).unwrap_or_else(|error| panic!("{error}"));
        let routes: Vec<_> = loaded.config.routes.iter().map(|route| route.definition.predicates.join(" ")).collect();
        assert_eq!(routes, ["Path=/e/** Method{methods=GET}", "Path=/f"], "{file}");
        assert_eq!(loaded.config.routes[0].definition.filters, ["AddRequestHeader=X,${y}", "StripPrefix=1"]);
        let replaced = "1:1: warning: the environment, `SPRING_CLOUD_GATEWAY_ROUTES_…`, replaces the whole list `routes`, as in Spring; no longer in effect: route `a` at application.yml:1:";
        assert_eq!(loaded.notes.to_string().contains(replaced), file.contains("routes"), "{}", loaded.notes);
        assert!(loaded.notes.to_string().contains("SPRING_CLOUD_GATEWAY_ROUTES_1_URI"), "{}", loaded.notes);
    }
    let own = parse("tollgate.yaml", "routes: ['a=http://a,Path=/**']\n", &env).unwrap().config;
    assert_eq!(&*own.routes[0].id, "a");
}

#[test]
fn files_decide_the_form_before_properties_do() {
    let given = |name: &'static str, value: &'static str| {
        move |asked: &str| match asked {
            "SPRING_CLOUD_GATEWAY_ROUTES_0_PREDICATES_0" if name.contains("ROUTES_0") => Some("Path=/e".to_owned()),
            _ => (asked == name).then(|| value.to_owned()),
        }
    };
    let route = r#"{"spring":{"cloud":{"gateway":{"routes":[{"id":"j","uri":"http://j","predicates":["Path=/j"]}]}}}}"#;
    let envs = [
        given("SPRING_APPLICATION_JSON", route),
        given("SPRING_APPLICATION_JSON", r#"{"spring.application.name": "x"}"#),
        given("SPRING_CLOUD_GATEWAY_ROUTES_0_URI", "http://e"),
        given("SPRING_CONFIG_NAME", "application"),
    ];
    for (env, name) in envs.iter().zip(["APPLICATION_JSON has", "APPLICATION_JSON has", "ROUTES_0_… has", ""]) {
        let own = parse("tollgate.yaml", "memory: {max-keys: 7}\nserver.max-headers: 50\n", env).unwrap();
        assert_eq!((has_springs_timeouts(&own.config), own.config.memory.max_keys().get()), (false, 7), "{name}");
        let notes = own.notes.to_string();
        assert!(notes.contains(&format!("{name} no effect: the files have Tollgate's own form")) || name.is_empty());
        let spring = "memory: {max-keys: 7}\n---\nspring.application.name: y\n";
        let spring = parse("application.yml", spring, env).unwrap().config;
        assert_eq!((has_springs_timeouts(&spring), spring.memory.max_keys().get()), (true, 1_000_000), "{name}");
    }
    let open = "server.max-headers: 50\nupstreams: {a: {endpoints: ['http://a']}}\n";
    let decided = envs
        .map(|env| has_springs_timeouts(&parse("a.yaml", open, &env).unwrap_or_else(|error| panic!("{error}")).config));
    assert_eq!(decided, [true, false, true, true]);
    let folder = Folder::of(&[("own.yaml", "memory: {max-keys: 7}\n"), ("open.yaml", open)]);
    let of = |file: &str, name: &str| {
        let line = CommandLine { profiles: None, properties: vec![(name.to_owned(), "x".to_owned())] };
        has_springs_timeouts(
            &load(&[folder.path(file)], &line).unwrap_or_else(|error| panic!("{}", error.render(false))).config,
        )
    };
    assert!(!of("own.yaml", "spring.cloud.gateway.routes[0].id"));
    assert!(!of("own.yaml", "spring.application.name"));
    assert!(of("open.yaml", "spring.cloud.gateway.metrics.tags.a"));
    assert!(!of("open.yaml", "spring.application.name"));
}
