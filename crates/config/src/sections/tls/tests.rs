#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use tollgate_test_support::Certificates;

use crate::{Loaded, Trust, parse};

/// Store that `keytool` wrote, with the password `changeit`.
fn store(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../key-store/tests/keytool").join(name).canonicalize().unwrap()
}

fn read(yaml: &str) -> Result<Loaded, String> {
    let text = format!("spring.cloud.gateway.routes: ['a=https://a,Path=/**']\n{yaml}\n");
    parse("application.yml", &text, &|_| None).map_err(|problems| problems.to_string())
}

fn read_well(yaml: &str) -> Loaded {
    let loaded = read(yaml).unwrap_or_else(|problems| panic!("{yaml}: {problems}"));
    assert!(!loaded.notes.to_string().contains("warning"), "{yaml}: {}", loaded.notes);
    loaded
}

#[test]
fn the_server_has_the_certificate_of_a_key_store() {
    let (one, three, trust) = (store("one-key.p12"), store("three-keys.p12"), store("trust.p12"));
    let (one, three, trust) = (one.display(), three.display(), trust.display());
    for (ssl, clients) in [
        (format!("key-store: 'file:{one}', key-store-password: changeit"), false),
        (format!("key-store: {one}, key-store-password: changeit, key-password: changeit, key-alias: WEB"), false),
        (format!("key-store: {three}, key-store-type: PKCS12, keyStorePassword: changeit, key-alias: rsa"), false),
        (
            format!(
                "key-store: {one}, key-store-password: changeit, trust-store: {trust}, trust-store-password: changeit, \
                 trust-store-type: jks, client-auth: need"
            ),
            true,
        ),
    ] {
        let yaml = format!("server.ssl: {{{ssl}}}\nmanagement.server: {{port: 9000, ssl: {{{ssl}}}}}");
        let config = read_well(&yaml).config;
        for tls in [config.server.tls.unwrap(), config.management.tls.unwrap()] {
            assert_eq!((tls.certificates().len(), tls.identifies_clients), (1, clients));
        }
    }
    let bundle = format!(
        "spring.ssl.bundle.jks.web: {{keystore: {{location: {three}, password: changeit, type: PKCS12}}, key.alias: ed, \
         truststore: {{location: {trust}, password: changeit}}, options.enabled-protocols: [TLSv1.3]}}\n"
    );
    let by_bundle =
        "server.ssl: {bundle: web, client-auth: want, server-name-bundles: [{server-name: b.example, bundle: web}]}";
    let tls = read_well(&format!("{bundle}{by_bundle}")).config.server.tls.unwrap();
    assert_eq!((tls.certificates().len(), tls.identifies_clients), (2, true));
}

#[test]
fn upstreams_see_the_certificate_of_a_key_store() {
    let (one, trust) = (store("one-key.p12"), store("trust.p12"));
    let (one, trust) = (one.display(), trust.display());
    let ssl = format!("spring.cloud.gateway.httpclient.ssl: {{key-store: {one}, key-store-password: changeit}}");
    let tls = read_well(&ssl).config.http_client.tls;
    assert_eq!((tls.identity.as_ref().unwrap().chain.len(), &tls.trust), (2, &Trust::System));
    let bundle = format!(
        "spring.ssl.bundle.jks.out: {{keystore: {{location: {one}, password: changeit}}, truststore: {{location: {trust}, \
         password: changeit}}}}\nspring.cloud.gateway.httpclient.ssl.ssl-bundle: out"
    );
    let tls = read_well(&bundle).config.http_client.tls;
    assert!(matches!(&tls.trust, Trust::Authorities(all) if all.len() == 2));
    assert_eq!(tls.identity.as_ref().unwrap().chain.len(), 2);
}

#[test]
#[cfg(feature = "redis-tls")]
fn redis_has_the_stores_of_a_bundle_and_migrate_keeps_them() {
    let (one, trust) = (store("one-key.p12"), store("trust.p12"));
    let yaml = format!(
        "spring.ssl.bundle.jks.cache: {{keystore: {{location: {}, password: changeit}}, truststore: {{location: {}, \
         password: changeit}}}}\nspring.data.redis: {{host: cache, ssl: {{bundle: cache}}}}",
        one.display(),
        trust.display()
    );
    let tls = read_well(&yaml).config.redis.unwrap().settings.tls.unwrap();
    let shown = format!("{tls:?}");
    assert!(shown.contains("one-key.p12") && shown.contains("trust.p12") && !shown.contains("changeit"), "{shown}");
    let text = format!("spring.cloud.gateway.routes: ['a=https://a,Path=/**']\n{yaml}\n");
    let migrated = crate::migrate("application.yml", &text, &|_| None).unwrap().yaml;
    let again = parse("tollgate.yaml", &migrated, &|_| None).unwrap_or_else(|problems| panic!("{migrated}{problems}"));
    assert_eq!(again.config.redis.unwrap().settings.tls.unwrap(), tls);
}

#[test]
fn stores_that_cannot_be_used_are_errors_with_the_next_step() {
    let path = |name: &str| store(name).display().to_string();
    let (one, three, jks, pem) = (path("one-key.p12"), path("three-keys.p12"), path("store.jks"), path("ca.pem"));
    let one_key = format!("key-store: {one}, key-store-password: changeit");
    for (ssl, error, help) in [
        (format!("key-store: {one}"), "the password is wrong", "set the password of the store"),
        (format!("key-store: {one}, key-store-password: s3cret"), "the password is wrong", "keytool -list"),
        (
            format!("key-store: {three}, key-store-password: changeit"),
            "it has several private keys",
            "select one by its alias: ",
        ),
        (
            format!("{one_key}, key-alias: app"),
            "it has no private key with the alias `app`",
            "aliases of its keys: web",
        ),
        (format!("{one_key}, key-password: other"), "is not the password of its store", "keytool -importkeystore"),
        (
            format!("key-store: {jks}, key-store-password: changeit"),
            "it is a JKS store",
            "-deststoretype PKCS12` converts it",
        ),
        (format!("key-store: {pem}"), "it is not a PKCS#12 store", "a file in PEM is named by"),
        ("key-store: classpath:a.p12".to_owned(), "is inside of a Java archive", "copy it out"),
        (format!("{one_key}, certificate: {pem}"), "`certificate` and `key-store` are both given", "remove one"),
        (
            format!("{one_key}, trust-store: {jks}, client-auth: need"),
            "it is a JKS store",
            "-deststoretype PKCS12` converts it",
        ),
        (
            format!("{one_key}, trust-store: {one}, trust-certificate: {pem}, client-auth: need"),
            "`trust-certificate` and `trust-store` are both given",
            "remove one",
        ),
    ] {
        let problems = read(&format!("server.ssl: {{{ssl}}}")).err().unwrap_or_else(|| panic!("accepted: {ssl}"));
        assert!(problems.contains(error) && problems.contains(help), "{ssl}: {problems}");
        assert!(!problems.contains("s3cret") && problems.matches("error:").count() == 1, "{problems}");
    }
    let bundle = format!("spring.ssl.bundle.jks.b: {{keystore.location: {one}, options.ciphers: [A]}}\n");
    let problems = read(&format!("{bundle}spring.cloud.gateway.httpclient.ssl.ssl-bundle: b")).unwrap_err();
    assert!(problems.contains("`options.ciphers[0]` of the SSL bundle `b` cannot be kept"), "{problems}");
}

#[test]
fn registries_have_the_stores_of_spring_and_their_own_names() {
    use crate::Registry;
    let (one, trust) = (store("one-key.p12").display().to_string(), store("trust.p12").display().to_string());
    let tls =
        |yaml: &str| match &read(yaml).unwrap_or_else(|problems| panic!("{yaml}: {problems}")).config.registries[0] {
            Registry::Consul(consul) => consul.tls.clone(),
            Registry::Eureka(eureka) => eureka.tls.clone(),
            Registry::Nacos(nacos) => nacos.tls.clone(),
            Registry::Kubernetes(kubernetes) => kubernetes.tls.clone(),
        };
    let both = |tls: &crate::Tls| {
        let trusted = if let Trust::Authorities(all) = &tls.trust { all.len() } else { 0 };
        (tls.identity.as_ref().map_or(0, |identity| identity.chain.len()), trusted)
    };
    let stores = format!(
        "key-store: {one}, key-store-password: changeit, key-password: '', trust-store: {trust}, trust-store-password: \
         changeit, trust-store-type: PKCS12"
    );
    let of_consul = format!(
        "keyStoreInstanceType: PKCS12, certificatePath: {one}, certificatePassword: changeit, keyStorePath: {trust}, \
         keyStorePassword: changeit"
    );
    for yaml in [
        format!("eureka.client.tls: {{enabled: true, {stores}}}"),
        format!("spring.cloud.consul.tls: {{{of_consul}}}"),
        format!("spring.cloud.consul.tls: {{{stores}}}"),
        format!("spring.cloud.nacos.discovery: {{server-addr: a, tls: {{{stores}}}}}"),
        format!("spring.cloud.kubernetes.client: {{master-url: 'https://a', tls: {{{stores}}}}}"),
    ] {
        assert_eq!(both(&tls(&yaml)), (2, 2), "{yaml}");
    }
    // Spring's default of `enabled` is false.
    let off = format!("eureka.client.tls: {{{stores}}}");
    assert_eq!(both(&tls(&off)), (0, 0));
    assert!(read(&off).unwrap().notes.to_string().contains("no effect without `enabled: true`"));
    assert_eq!(both(&tls("eureka.client.tls: {enabled: false, trust-store: nowhere.p12}")), (0, 0));
    let own = format!("routes: []\neureka.client.tls: {{trust-store: {trust}, trust-store-password: changeit}}");
    let loaded = parse("tollgate.yaml", &own, &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(matches!(&loaded.config.registries[0], Registry::Eureka(eureka) if both(&eureka.tls) == (0, 2)));
    let unused = "routes: []\nkubernetes.client: {master-url: 'https://a', namespace: x, ca-cert-file: a, tls: {}}";
    let problems = parse("tollgate.yaml", unused, &|_| None).unwrap_err().to_string();
    assert!(problems.contains("no effect beside `tls`"), "{problems}");
    let jks = store("store.jks").display().to_string();
    for (yaml, error) in [
        (format!("spring.cloud.consul.tls: {{key-store-path: {jks}}}"), "-deststoretype PKCS12` converts it"),
        (format!("eureka.client.tls: {{enabled: true, trust-store: {jks}}}"), "-deststoretype PKCS12` converts it"),
        (
            format!("eureka.client.tls: {{enabled: maybe, trust-store: {trust}}}"),
            "expected true or false, found `maybe`",
        ),
        (format!("spring.cloud.consul.tls: {{{of_consul}, ca: {trust}}}"), "`ca` and `trust-store` are both given"),
        (format!("spring.cloud.consul.tls: {{{of_consul}, cert: {trust}}}"), "`cert` and `key-store` are both given"),
        ("spring.cloud.consul.tls: {certificate-path: nowhere.p12}".to_owned(), "cannot use the store nowhere.p12"),
        ("spring.cloud.consul.tls: {certificate-path: a.p12, keystore-path2: b}".to_owned(), "unknown key"),
    ] {
        let problems = read(&yaml).err().unwrap_or_else(|| panic!("accepted: {yaml}"));
        assert!(problems.contains(error), "{yaml}: {problems}");
    }
}

#[test]
fn every_section_has_the_same_checks_of_pem_files() {
    let (made, other, folder) = (Certificates::new(), Certificates::new(), tempfile::tempdir().unwrap());
    let trusted = folder.path().join("trusted.pem");
    let text = std::fs::read_to_string(made.ca()).unwrap().replace(" CERTIFICATE-", " TRUSTED CERTIFICATE-");
    std::fs::write(&trusted, text).unwrap();
    let (cert, key, foreign) = (made.client(), made.client_key(), other.client_key());
    let (cert, key, foreign, trusted) = (cert.display(), key.display(), foreign.display(), trusted.display());
    let bundle = |options: &str| format!("spring.ssl.bundle.pem.b: {{{options}}}\n");
    let by_client = "spring.cloud.gateway.httpclient.ssl.ssl-bundle: b";
    let by_server = "server.ssl.bundle: b";
    let pair = |key: &str| bundle(&format!("keystore: {{certificate: {cert}, private-key: {key}}}"));
    let alone = bundle(&format!("keystore.certificate: {cert}"));
    let (fits, lacks) =
        ("does not fit the certificate in", "has a `keystore.certificate` and no `keystore.private-key`");
    for (yaml, error) in [
        (format!("spring.cloud.gateway.httpclient.tls: {{cert: {cert}, key: {foreign}}}"), fits),
        (format!("server.ssl: {{certificate: {cert}, certificate-private-key: {foreign}}}"), fits),
        (format!("{}{by_client}", pair(&foreign.to_string())), fits),
        (format!("{}{by_server}", pair(&foreign.to_string())), fits),
        (format!("{alone}{by_client}"), lacks),
        (format!("{alone}{by_server}"), lacks),
        (
            format!("server.ssl: {{certificate: {cert}}}"),
            "`certificate` and `certificate-private-key` are required together",
        ),
        (format!("spring.cloud.gateway.httpclient.tls: {{ca: {trusted}}}"), "holds no certificate in PEM"),
        (
            format!("server.ssl: {{certificate: {trusted}, certificate-private-key: {key}}}"),
            "holds no certificate in PEM",
        ),
        ("spring.cloud.gateway.httpclient.tls: {ca: 'classpath:ca.pem'}".to_owned(), "is inside of a Java archive"),
        (
            format!("{}{by_server}", bundle(&format!("truststore.certificate: {cert}"))),
            "has no certificate of the gateway",
        ),
        (
            format!(
                "{}{by_server}",
                bundle(&format!("keystore: {{certificate: {cert}, private-key: {key}, private-key-password: s}}"))
            ),
            "and `options.enabled-protocols`, are read",
        ),
        #[cfg(feature = "redis-tls")]
        (format!("spring.data.redis: {{host: a, ssl.bundle: b}}\n{}", pair(&foreign.to_string())), fits),
        #[cfg(feature = "redis-tls")]
        (format!("spring.data.redis: {{host: a, tls.ca: {trusted}}}"), "holds no certificate in PEM"),
    ] {
        let problems = read(&yaml).err().unwrap_or_else(|| panic!("accepted: {yaml}"));
        assert!(problems.contains(error) && problems.matches("error:").count() == 1, "{yaml}: {problems}");
    }
    let yaml = format!("spring.cloud.gateway.httpclient.tls: {{cert: 'file:{cert}', key: 'file:{key}'}}");
    assert!(read_well(&yaml).config.http_client.tls.identity.is_some());
    // Names from an environment without them are blank.
    let yaml =
        format!("server.ssl: {{bundle: '', certificate: {cert}, certificate-private-key: {key}, key-alias: ''}}");
    assert!(read_well(&yaml).config.server.tls.is_some());
}

#[test]
fn a_key_and_a_certificate_that_cannot_be_used_are_named() {
    let (made, folder) = (Certificates::new(), tempfile::tempdir().unwrap());
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let text = |what: &str| format!("-----BEGIN {what}-----\nAAAA\n-----END {what}-----\n");
    let bad = (write("cert.pem", &text("CERTIFICATE")), write("key.pem", &text("PRIVATE KEY")));
    let cut = write("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n");
    let (cert, key) = (made.client().display().to_string(), made.client_key().display().to_string());
    for (cert, key, place, error) in [
        (&cert, &bad.1, "4:28", format!("the key in {} cannot be used", bad.1)),
        (&bad.0, &key, "3:16", format!("a certificate in {} cannot be used", bad.0)),
        (&cut, &key, "3:16", format!("{cut} is not valid PEM: its last `-----END` line is absent")),
    ] {
        let problems = read(&format!("server.ssl:\n  certificate: {cert}\n  certificate-private-key: {key}"));
        let problems = problems.err().unwrap_or_else(|| panic!("accepted: {cert} {key}"));
        assert!(problems.contains(&error) && problems.contains(&format!("application.yml:{place}: ")), "{problems}");
    }
    let twice =
        format!("spring.ssl.bundle: {{pem.b.keystore: {{certificate: {cert}, private-key: {key}}}, jks.b: {{}}}}");
    let problems = read(&format!("{twice}\nserver.ssl.bundle: b")).unwrap_err();
    assert!(problems.contains("`b` is given twice: below `pem` and below `jks`"), "{problems}");
}
