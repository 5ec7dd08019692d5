#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

#[cfg(feature = "redis-tls")]
use tollgate_limiter::store::redis::{Authorities, ClientCertificate, Tls};
use tollgate_limiter::store::redis::{HostPort, Login, RedisSettings, Sentinel, Servers};
use tollgate_test_support::Certificates;

use crate::{Loaded, parse};

const ROUTES: &str = "routes: ['a=http://a,Path=/**']\n";

fn load(text: &str) -> Loaded {
    parse("test.yaml", text, &|_| None).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the settings of `redis: ...` in our own form, which must load without a word.
fn own(redis: &str) -> RedisSettings {
    let loaded = load(&format!("redis: {redis}\n{ROUTES}"));
    assert!(loaded.notes.is_empty(), "{}", loaded.notes);
    loaded.config.redis.unwrap().settings
}

/// Settings under `spring:`, and their diagnostics.
fn spring(rest: &str) -> (RedisSettings, String) {
    let loaded = load(&format!("spring:\n  cloud.gateway.routes: ['a=http://a,Path=/**']\n{rest}"));
    (loaded.config.redis.unwrap().settings, loaded.notes.to_string())
}

fn at(host: &str, port: u16) -> HostPort {
    HostPort { host: host.into(), port }
}

fn one(url: &str) -> Servers {
    Servers::One(url.into())
}

fn password(login: &Login) -> Option<&str> {
    login.password.as_deref()
}

/// Certificates, and the paths of one with its key.
fn files() -> (Certificates, PathBuf, PathBuf) {
    let certificates = Certificates::new();
    let (cert, key) = (certificates.client(), certificates.client_key());
    (certificates, cert, key)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn every_kind_of_url_is_forwarded_unchanged() {
    for url in [
        "redis://localhost",
        "redis://app:p%40ss@cache:6380/3",
        "redis://[::1]:6379/0?protocol=resp2",
        "valkey://cache",
        "redis+unix:///run/redis.sock?db=1&pass=x",
        "unix:///run/redis.sock",
    ] {
        let settings = own(&format!("{{url: '{url}'}}"));
        assert_eq!((settings.servers, settings.tls), (one(url), None), "{url}");
    }
    #[cfg(feature = "redis-tls")]
    for url in ["rediss://cache:6380", "valkeys://cache"] {
        let settings = own(&format!("{{url: '{url}'}}"));
        assert_eq!((settings.servers, settings.tls), (one(url), Some(Tls::default())), "{url}");
    }
}

#[test]
fn host_and_port_become_a_url_without_credentials() {
    assert_eq!(own("{}").servers, one("redis://localhost:6379"));
    assert_eq!(own("{host: '::1', port: 6380}").servers, one("redis://[::1]:6380"));
    let settings = own("{host: cache, username: app, password: 'p@ss/word', database: 2, protocol: resp2}");
    assert_eq!(settings.servers, one("redis://cache:6379"));
    assert_eq!((settings.login.username.as_deref(), password(&settings.login)), (Some("app"), Some("p@ss/word")));
    assert_eq!((settings.database, settings.resp2, settings.tls), (Some(2), true, None));
}

#[test]
fn credentials_can_be_beside_a_url_without_any() {
    let settings = own("{url: 'redis://app@cache', password: secret, database: 4}");
    assert_eq!((password(&settings.login), settings.database), (Some("secret"), Some(4)));
    assert_eq!(own("{url: 'redis://app:secret@cache', password: '${NONE:}'}").login, Login::default());
}

#[test]
fn a_password_file_is_read_without_its_final_line_break() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, " s3cret \r\n").unwrap();
    let settings = own(&format!("{{host: cache, password-file: {}}}", file.display()));
    assert_eq!(password(&settings.login), Some(" s3cret "));
}

#[test]
fn clusters_and_sentinels_are_lists_or_texts_of_nodes() {
    let nodes = vec![at("a", 7000), at("::1", 7001), at("10.0.0.3", 7002)];
    for list in ["['a:7000', '[::1]:7001', 10.0.0.3:7002]", "'a:7000, [::1]:7001,10.0.0.3:7002'"] {
        let cluster = own(&format!("{{cluster: {{nodes: {list}}}, username: app, password: secret, database: 0}}"));
        assert_eq!((cluster.servers, cluster.database), (Servers::Cluster(nodes.clone()), None), "{list}");
        assert_eq!(password(&cluster.login), Some("secret"));
        let sentinel = own(&format!("{{sentinel: {{master: main, nodes: {list}, password: theirs}}, password: ours}}"));
        let login = Login { username: None, password: Some("theirs".into()) };
        let expected = Sentinel { master: "main".into(), nodes: nodes.clone(), login };
        assert_eq!((sentinel.servers, password(&sentinel.login)), (Servers::Sentinel(expected), Some("ours")));
    }
}

#[cfg(feature = "redis-tls")]
fn by_files(certificate: PathBuf, key: PathBuf) -> Tls {
    let ca = Some(Authorities::Pem(certificate.clone()));
    Tls { ca, client: Some(ClientCertificate::Pem { certificate, key }) }
}

#[test]
#[cfg(feature = "redis-tls")]
fn tls_files_must_exist() {
    let (_folder, cert, key) = files();
    let yaml = format!("{{ca: {0}, cert: {0}, key: {1}}}", shown(&cert), shown(&key));
    let expected = by_files(cert, key);
    assert_eq!(own(&format!("{{url: 'rediss://cache', tls: {yaml}}}")).tls, Some(expected.clone()));
    assert_eq!(own(&format!("{{cluster: {{nodes: 'a:1'}}, tls: {yaml}}}")).tls, Some(expected));
    assert_eq!(own("{sentinel: {master: m, nodes: 'a:1'}, tls: true}").tls, Some(Tls::default()));
    assert_eq!(own("{host: cache, tls: false}").tls, None);
}

#[test]
#[cfg(feature = "redis-tls")]
fn a_key_of_another_certificate_is_refused_by_its_file() {
    let (certificates, cert, _) = files();
    let yaml =
        format!("redis: {{tls: {{cert: {}, key: {}}}}}\n{ROUTES}", shown(&cert), shown(&certificates.server_key()));
    let problems = parse("test.yaml", &yaml, &|_| None).unwrap_err().to_string();
    assert!(
        problems.contains("server.key does not fit the certificate in") && problems.contains("client.pem"),
        "{problems}"
    );
}

#[test]
fn an_encrypted_key_is_distinguished_from_a_missing_one() {
    let (folder, cert, _) = files();
    let key = folder.folder().join("locked.pem");
    std::fs::write(&key, "-----BEGIN ENCRYPTED PRIVATE KEY-----\n").unwrap();
    let yaml = format!("redis: {{tls: {{cert: {}, key: {}}}}}\n{ROUTES}", shown(&cert), shown(&key));
    let problems = parse("test.yaml", &yaml, &|_| None).unwrap_err().to_string();
    assert!(problems.contains("is encrypted") && problems.contains("openssl pkey"), "{problems}");
}

#[test]
#[cfg(feature = "redis-tls")]
fn springs_bundle_becomes_files() {
    let (_folder, cert, key) = files();
    let (settings, notes) = spring(&format!(
        "  ssl.bundle.pem:\n    cache:\n      truststore.certificate: 'file:{0}'\n      keystore: {{certificate: 'file://{0}', privateKey: {1}}}\n  \
         data.redis: {{host: cache, ssl: {{enabled: true, bundle: '${{BUNDLE:cache}}'}}}}\n",
        shown(&cert),
        shown(&key)
    ));
    assert_eq!(settings.servers, one("rediss://cache:6379"));
    assert_eq!(settings.tls, Some(by_files(cert, key)));
    assert_eq!(notes, "");
}

#[test]
#[cfg(feature = "redis-tls")]
fn springs_ssl_flag_enables_tls_even_beside_a_plain_url() {
    for redis in [
        "{url: 'redis://cache:6379', ssl: {enabled: true}}",
        "{host: cache, ssl.enabled: true}",
        "{host: cache, ssl: true}",
    ] {
        let (settings, notes) = spring(&format!("  data.redis: {redis}\n"));
        assert_eq!((settings.servers, settings.tls), (one("rediss://cache:6379"), Some(Tls::default())), "{redis}");
        assert_eq!(notes, "", "{redis}");
    }
    let (settings, _) = spring("  data.redis: {host: cache, ssl: {enabled: false}}\n");
    assert_eq!(settings.tls, None);
}

#[test]
fn springs_url_overrides_its_parts_and_a_single_word_is_the_password() {
    let (settings, notes) = spring("  data.redis: {url: 'redis://s3cret@cache', password: other, database: 3}\n");
    assert_eq!(settings.servers, one("redis://:s3cret@cache"));
    assert_eq!((settings.login, settings.database), (Login::default(), None));
    assert!(notes.contains("`url` wins over `password`") && notes.contains("`url` wins over `database`"), "{notes}");
}

#[test]
fn no_message_contains_a_password() {
    for redis in [
        "{url: 'redis://app:s3cret@cache:port'}",
        "{url: 'redis://app:s3c/ret@cache'}",
        "{url: 'redis://app:s3c#ret@cache'}",
        "{url: 'http://app:s3cret@cache'}",
        "{url: 'redis://app:s3cret@cache/x'}",
        "{url: 'redis://app:s3cret@0.0.0.0'}",
        "{url: 'redis://app:s3cret@cache', password: s3cret}",
        "{cluster: {nodes: ['app:s3cret@cache:1']}}",
        "{host: 'app:s3cret@cache'}",
    ] {
        let text = format!("redis: {redis}\n{ROUTES}");
        let problems = parse("test.yaml", &text, &|_| None).unwrap_err();
        assert!(problems.list().iter().all(|problem| !problem.message.contains("s3c")), "{problems}");
    }
}

#[test]
fn a_key_prefix_keeps_hash_tags_and_permissions_apart() {
    assert_eq!(&*own("{url: redis://h}").key_prefix, "");
    assert_eq!(&*own("{url: redis://h, key-prefix: 'prod-1:eu/a_b.'}").key_prefix, "prod-1:eu/a_b.");
    for bad in ["{a}", "a*", "a b", "caf\u{e9}", &"x".repeat(65)] {
        let yaml = format!("redis: {{url: redis://h, key-prefix: '{bad}'}}\n{ROUTES}");
        let problems = parse("test.yaml", &yaml, &|_| None).unwrap_err().to_string();
        assert!(problems.contains("`key-prefix` has letters, digits"), "{problems}");
    }
}
