#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use tollgate_test_support::Certificates;

use crate::{Config, Http2, Leasing, PositiveTime, ProxyKind, TlsVersion, Trust, parse};

const ROUTE: &str = "routes: [{id: a, uri: 'https://a', predicates: [Path=/**]}]\n";

fn given(httpclient: &str) -> (Config, String) {
    let text = format!("{ROUTE}httpclient: {httpclient}\n");
    let loaded = parse("test.yaml", &text, &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
    (loaded.config, loaded.notes.to_string())
}

fn refused(httpclient: &str) -> String {
    let text = format!("{ROUTE}httpclient: {httpclient}\n");
    match parse("test.yaml", &text, &|_| None) {
        Ok(loaded) => panic!("accepted: {:?}", loaded.config.http_client),
        Err(problems) => problems.to_string(),
    }
}

/// The same settings in an application.yml.
fn springs(httpclient: &str, rest: &str) -> Result<(Config, String), String> {
    let text = format!("spring:\n  cloud.gateway:\n    {ROUTE}    httpclient: {httpclient}\n{rest}");
    match parse("application.yml", &text, &|_| None) {
        Ok(loaded) => Ok((loaded.config, loaded.notes.to_string())),
        Err(problems) => Err(problems.to_string()),
    }
}

#[test]
fn every_setting_of_the_client_is_read() {
    let (config, notes) = given(
        "{connect-timeout: 1000, response-timeout: 2s, read-timeout: 3s, max-header-size: 8KB, max-headers: 300, http2: off, pool: {type: fixed, \
         max-connections: 7, acquire-timeout: 100, max-idle-time: 5s, max-idle: 3, max-life-time: 1m, leasing-strategy: fifo}, \
         proxy: {type: socks5, host: proxy.internal, port: 1080, username: me, password: secret, non-proxy-hosts-pattern: \
         '.*\\.local|a'}}",
    );
    assert_eq!(notes, "");
    let client = config.http_client;
    assert_eq!(client.connect_timeout.get(), Duration::from_secs(1));
    assert_eq!(client.response_timeout.get(), Some(Duration::from_secs(2)));
    assert_eq!(client.read_timeout.get(), Some(Duration::from_secs(3)));
    assert_eq!((client.max_header_size.get(), client.max_headers.get(), client.http2.0), (8 * 1024, 300, Http2::Off));
    let pool = &client.pool;
    assert_eq!((pool.max_connections().unwrap().get(), pool.acquire_timeout.get()), (7, Duration::from_millis(100)));
    assert_eq!((pool.max_idle.get(), pool.max_idle_time.get()), (3, Duration::from_secs(5)));
    assert_eq!(
        (pool.max_life_time.map(PositiveTime::get), pool.leasing_strategy.0),
        (Some(Duration::from_secs(60)), Leasing::Oldest)
    );
    assert!(!format!("{client:?}").contains("secret"));
    let proxy = client.proxy.unwrap();
    assert_eq!((proxy.kind, proxy.host.as_str(), proxy.port), (ProxyKind::Socks5, "proxy.internal", 1080));
    let except = proxy.except.as_ref().unwrap();
    assert!(except.is_match("X.local") && except.is_match("a") && !except.is_match("ab"));
    assert_eq!(proxy.login.as_ref().unwrap().password.0, "secret");
}

#[test]
fn timeouts_of_responses_can_be_off_and_are_so_in_a_spring_file() {
    let minute = Some(Duration::from_secs(60));
    let timeouts = |config: Config| (config.http_client.response_timeout.get(), config.http_client.read_timeout.get());
    assert_eq!(timeouts(given("{}").0), (minute, minute));
    assert_eq!(timeouts(given("{response-timeout: 0, read-timeout: -1}").0), (None, None));
    assert_eq!(timeouts(springs("{}", "").unwrap().0), (None, None));
    assert_eq!(timeouts(springs("{response-timeout: 1m, read-timeout: 60000}", "").unwrap().0), (minute, minute));
}

#[test]
fn timeouts_of_clients_can_be_off() {
    let server = |settings: &str| parse("test.yaml", &format!("{ROUTE}server: {settings}\n"), &|_| None).unwrap();
    let timeouts = |settings: &str| {
        let server = server(settings).config.server;
        let tunnel_idle_timeout = server.tunnel_idle_timeout.and_then(|timeout| timeout.0);
        [server.idle_timeout.get(), server.body_timeout.get(), server.write_timeout.get(), tunnel_idle_timeout]
    };
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(timeouts("{}"), [seconds(75), seconds(30), seconds(30), None]);
    let off = "{idle-timeout: 0, body-timeout: -1, write-timeout: 0s, tunnel-idle-timeout: -1s}";
    assert_eq!(timeouts(off), [None; 4]);
}

#[test]
fn each_pool_type_has_springs_defaults() {
    let kind = |kind: &str| given(&format!("{{pool: {{type: {kind}}}}}")).0.http_client.pool;
    assert_eq!((kind("elastic").max_connections(), kind("ELASTIC").max_idle.get()), (None, 512));
    assert!(kind("FIXED").max_connections().unwrap().get() >= 16);
    assert_eq!(kind("disabled").max_idle.get(), 0);
    assert!(refused("{pool: {max-connections: 5}}").contains("`max-connections` has no effect without `type: fixed`"));
    assert!(refused("{pool: {type: fixed, max-connections: 0}}").contains("must be at least 1"));
}

#[test]
fn http2_has_three_words_and_a_route_has_the_last() {
    for (word, meant) in [("auto", Http2::Auto), ("off", Http2::Off), ("prior-knowledge", Http2::PriorKnowledge)] {
        assert_eq!(given(&format!("{{http2: {word}}}")).0.http_client.http2.0, meant);
        for place in [format!("http2: {word}"), format!("metadata: {{http2: {word}}}")] {
            let text = format!("routes: [{{id: a, uri: 'http://a', predicates: [Path=/**], {place}}}]\n");
            let config = parse("test.yaml", &text, &|_| None).unwrap().config;
            assert_eq!(config.routes[0].http2, Some(meant), "{place}");
        }
    }
    assert!(refused("{http2: h2c}").contains("one of auto, off, prior-knowledge"));
}

#[test]
fn certificates_are_read_and_their_errors_have_positions() {
    let made = Certificates::new();
    let other = Certificates::new();
    let (ca, cert, key) = (made.ca(), made.client(), made.client_key());
    let (ca, cert, key) = (ca.display(), cert.display(), key.display());
    let (config, notes) =
        given(&format!("{{tls: {{ca: {ca}, cert: {cert}, key: {key}, server-name: b, min-version: 1.3}}}}"));
    assert_eq!(notes, "");
    let tls = config.http_client.tls;
    assert!(matches!(&tls.trust, Trust::Authorities(all) if all.len() == 1));
    assert!(tls.identity.is_some());
    assert_eq!((tls.server_name.as_deref(), tls.min_version), (Some("b"), TlsVersion::Tls13));
    let foreign = other.client_key();
    for (text, wanted) in [
        ("{tls: {ca: /nowhere.pem}}".to_owned(), "cannot read /nowhere.pem"),
        (format!("{{tls: {{ca: {key}}}}}"), "holds no certificate in PEM"),
        (format!("{{tls: {{cert: {cert}}}}}"), "`cert` and `key` are required together"),
        (format!("{{tls: {{cert: {cert}, key: {}}}}}", foreign.display()), "does not fit"),
        (format!("{{tls: {{ca: {ca}, insecure: true}}}}"), "remove one of the two"),
        ("{tls: {server-name: 'https://a'}}".to_owned(), "is neither a host name nor an address"),
        ("{tls: {min-version: 1.1}}".to_owned(), "`min-version` must be 1.2 or 1.3, found `1.1`"),
        ("{tls: {cacert: a}}".to_owned(), "unknown key `cacert`"),
        (format!("{{tls: {{ca: {ca}}}, ssl: {{}}}}"), "`ssl` and `tls` are both given"),
    ] {
        let problems = refused(&text);
        assert!(problems.contains(wanted) && problems.contains("test.yaml:2:"), "{text}: {problems}");
    }
    let (_, notes) = given("{tls: {insecure: true}}");
    assert!(notes.contains("warning: upstreams' certificates are not verified"), "{notes}");
}

#[test]
fn springs_ssl_is_read_or_refused_with_a_command_that_converts_it() {
    let made = Certificates::new();
    let (ca, cert, key) = (made.ca(), made.client(), made.client_key());
    let (ca, cert, key) = (ca.display(), cert.display(), key.display());
    let trusted = format!("{{ssl: {{trusted-x509-certificates: ['file:{ca}'], handshake-timeout: 3000}}}}");
    let (config, notes) = springs(&trusted, "").unwrap();
    assert!(matches!(&config.http_client.tls.trust, Trust::Authorities(all) if all.len() == 1), "{notes}");
    assert_eq!(config.http_client.handshake_timeout.get(), Duration::from_secs(3));

    let bundle = format!(
        "  ssl.bundle.pem.out: {{truststore.certificate: {ca}, keystore: {{certificate: {cert}, private-key: {key}}}}}\n"
    );
    let (config, notes) = springs("{ssl: {ssl-bundle: out}}", &bundle).unwrap();
    assert!(config.http_client.tls.identity.is_some(), "{notes}");
    let (_, notes) =
        springs(&format!("{{ssl: {{use-insecure-trust-manager: true, trusted-x509-certificates: ['{ca}']}}}}"), "")
            .unwrap();
    assert!(notes.contains("this has no effect beside `trusted-x509-certificates`"), "{notes}");
    let (config, notes) =
        springs("{ssl: {useInsecureTrustManager: true, close-notify-flush-timeout: 3s}}", "").unwrap();
    assert_eq!(config.http_client.tls.trust, Trust::AnyCertificate);
    assert!(
        notes.contains("not verified") && notes.contains("`ssl.close-notify-flush-timeout` has no effect"),
        "{notes}"
    );

    for (ssl, wanted) in [
        ("key-store: classpath:keystore.p12", "copy it out: `file:/etc/tollgate/keystore.p12`"),
        ("key-store: nowhere.p12, key-store-password: x", "cannot use the store nowhere.p12: No such file"),
        ("ssl-bundle: nowhere", "there is no SSL bundle `nowhere`"),
        ("trusted-x509-certificates: ['classpath:ca.pem']", "is inside of a Java archive"),
        ("cipher: x", "`ssl.cipher` is not supported"),
    ] {
        let problems = springs(&format!("{{ssl: {{{ssl}}}}}"), "").unwrap_err();
        assert!(problems.contains(wanted), "{problems}");
    }
}

#[test]
fn settings_of_springs_client_without_effect_are_reported() {
    let httpclient = "{wiretap: true, compression: true, max-initial-line-length: 4096, websocket: \
                      {max-frame-payload-length: 1000, proxy-ping: false}, pool: {name: p, eviction-interval: 5s, metrics: true}}";
    let (_, notes) = springs(httpclient, "").unwrap();
    for name in [
        "wiretap",
        "compression",
        "max-initial-line-length",
        "websocket.max-frame-payload-length",
        "pool.name",
        "pool.eviction-interval",
        "pool.metrics",
    ] {
        assert!(notes.contains(&format!("note: `httpclient.{name}` has no effect here")), "{name}: {notes}");
    }
    assert!(
        notes.contains("warning: `httpclient.websocket.proxy-ping` has no effect: all frames are forwarded"),
        "{notes}"
    );
    assert!(refused("{wiretap: true}").contains("error: `httpclient.wiretap` has no effect here"));
}

#[test]
fn an_incomplete_proxy_is_ignored_or_refused() {
    assert!(refused("{proxy: {host: p}}").contains("proxy `p` has no port"));
    assert!(
        refused("{proxy: {host: p, port: 1, non-proxy-hosts-pattern: '*.a'}}")
            .contains("is not a valid regular expression")
    );
    assert!(refused("{proxy: {port: 1}}").contains("`proxy` has no effect without `host`"));
    assert!(given("{proxy: {host: '', port: 1}}").0.http_client.proxy.is_none());
}
