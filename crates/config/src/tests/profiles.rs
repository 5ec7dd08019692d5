//! Profiles, the files of profiles, the environment and placeholders.

use crate::tests::*;

fn with(profiles: &str) -> crate::CommandLine {
    crate::CommandLine { profiles: Some(profiles.to_owned()), properties: Vec::new() }
}

#[test]
fn profiles_come_from_the_environment_the_file_and_its_groups() {
    let documents = "routes: ['a=http://a,Path=/**']\nserver: {port: 1}\n---\nspring.config.activate.on-profile: prod & (eu | us)\nserver.port: 2\n---\nspring.config.activate.on-profile: [dev, test]\nserver.port: 3\n---\nspring.profiles: old\nserver.port: 4\n---\nspring.config.activate.on-profile: default\nserver.port: 5\n---\nspring.config.activate.on-cloud-platform: kubernetes\nserver.max-headers: 6\n";
    let port = |file: &str, env: &[(&str, &str)]| {
        let env = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let loaded = parse("test.yaml", &format!("{file}\n{documents}"), &env).unwrap();
        (loaded.config.server.port.get(), loaded.config.server.max_headers.get(), loaded.notes.to_string())
    };
    assert_eq!(port("", &[]).0, 5, "the profile `default`");
    assert_eq!(port("", &[("SPRING_PROFILES_ACTIVE", "prod, eu")]).0, 2);
    assert_eq!(port("", &[("SPRING_PROFILES_ACTIVE", "prod")]).0, 1);
    assert_eq!(port("spring.profiles.active: test", &[]).0, 3);
    assert_eq!(port("spring.profiles.active: test", &[("SPRING_PROFILES_ACTIVE", "prod,us")]).0, 2);
    assert_eq!(port("spring.profiles: {active: live, group.live: 'prod, eu'}", &[]).0, 2);
    assert_eq!(port("spring.profiles: {default: dev}", &[]).0, 3);
    assert_eq!(port("spring.profiles: {include: [prod, eu], group.prod: prod}", &[]).0, 2);
    assert_eq!(port("", &[("SPRING_PROFILES_ACTIVE", "x"), ("KUBERNETES_SERVICE_HOST", "10.0.0.1")]).1, 6);
    let (port, _, notes) = port("", &[("SPRING_PROFILES_ACTIVE", "old")]);
    assert_eq!(port, 4);
    assert!(notes.contains("warning: `spring.profiles` of a document is what Spring Boot before 2.4 reads"), "{notes}");
    let skipped =
        "note: documents for other profiles are skipped: prod & (eu | us); dev, test; default; platform kubernetes\n";
    assert!(notes.contains(skipped) && notes.contains("active is `old`"), "{notes}");
    let rendered = refused(&format!("{documents}---\nspring.config.activate.on-profile: a & b | c\n"));
    assert!(rendered.contains("`a & b | c` is no profile expression: `&` and `|` side by side"), "{rendered}");
}

#[test]
fn files_of_profiles_override_the_file_and_have_their_own_positions() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "application.yml",
        "server: {max-headers: 50}\nrate: 7\nspring.cloud.gateway.routes: ['a=http://a,Path=/${base}/**']",
    );
    write(
        "application-prod.yml",
        "base: live\nserver.max-headers: 60\n---\nspring.config.activate.on-profile: eu\nserver.max-headers: 70\n",
    );
    let path = folder.path().join("application.yml");
    let config = load(std::slice::from_ref(&path), &with("prod")).unwrap().config;
    assert_eq!(
        (config.server.max_headers.get(), config.routes[0].definition.predicates[0].as_str()),
        (60, "Path=/live/**")
    );
    assert_eq!(load(std::slice::from_ref(&path), &with("prod,eu")).unwrap().config.server.max_headers.get(), 70);
    write("application-prod.yml", "base: live\nserver.max-headers: many\n");
    let rendered = load(std::slice::from_ref(&path), &with("prod")).unwrap_err().render(false);
    assert!(rendered.contains("application-prod.yml:2:21: error: expected a whole number"), "{rendered}");
    assert!(rendered.contains("2 | server.max-headers: many"), "{rendered}");
    assert!(matches!(
        load(&[folder.path().join("none.yml")], &crate::CommandLine::default()),
        Err(LoadError::Unreadable { .. })
    ));
}

#[test]
fn the_environment_overrides_springs_keys_and_is_used_unchanged() {
    let env = |name: &str| match name {
        "SERVER_MAXHEADERS" => Some("77".to_owned()),
        "SPRING_DATA_REDIS_PASSWORD" => Some("s3${cret".to_owned()),
        "SPRING_DATA_REDIS_HOST" => Some("cache".to_owned()),
        "SPRING_CLOUD_GATEWAY_HTTPCLIENT_CONNECTTIMEOUT" => Some("1500".to_owned()),
        "REDIS_PORT" => Some("tcp://10.0.0.1:6379".to_owned()),
        _ => None,
    };
    let spring = "server: {max-headers: 5}\nspring:\n  data.redis: {password: '${UNSET}', port: 6380}\n  cloud.gateway:\n    httpclient.connect-timeout: 100\n    routes: ['a=http://a,Path=/**']\n";
    let loaded = parse("test.yaml", spring, &env).unwrap();
    let redis = loaded.config.redis.as_ref().unwrap();
    assert_eq!(redis.settings.servers, Servers::One("redis://cache:6380".into()));
    assert_eq!(redis.settings.login.password.as_deref(), Some("s3${cret"));
    assert_eq!(loaded.config.server.max_headers.get(), 77);
    assert_eq!(loaded.config.http_client.connect_timeout.get(), Duration::from_millis(1500));
    let notes = loaded.notes.to_string();
    assert!(notes.contains("note: the environment overrides the file: SERVER_MAXHEADERS, SPRING_CLOUD_GATEWAY_HTTPCLIENT_CONNECTTIMEOUT, SPRING_DATA_REDIS_HOST, SPRING_DATA_REDIS_PASSWORD"), "{notes}");
    assert!(!notes.contains("cret"), "{notes}");
    let own = parse("test.yaml", "routes: ['a=http://a,Path=/**']\nhttpclient: {connect-timeout: 100}\n", &env)
        .unwrap()
        .config;
    assert!(own.redis.is_none() && own.http_client.connect_timeout.get() == Duration::from_millis(100));
}

#[test]
fn placeholders_name_properties_in_any_spelling_and_by_index() {
    let text = "my: {hostNames: [a, b], PORT: 81}\nspring.cloud.gateway.routes: ['r=http://${my.host-names[1]}:${my.port},Path=/${random.int[5,6]}']\n";
    let config = loaded(text).config;
    assert!(matches!(&config.routes[0].uri, Target::Http { host, port: 81, .. } if host == "b"));
    assert_eq!(config.routes[0].definition.predicates, ["Path=/5"]);
}
