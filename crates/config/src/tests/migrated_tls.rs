//! `tollgate migrate` keeps certificates and keys.

use std::path::Path;

use tollgate_test_support::Certificates;

use crate::{Severity, parse};

#[test]
fn migrate_keeps_the_certificates_of_every_section() {
    let made = Certificates::new();
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../key-store/tests/keytool").canonicalize().unwrap();
    let (one, trust) = (stores.join("one-key.p12"), stores.join("trust.p12"));
    let (one, trust) = (one.display(), trust.display());
    let (ca, cert, key) = (made.ca(), made.client(), made.client_key());
    let (ca, cert, key) = (ca.display(), cert.display(), key.display());
    let pem = format!(
        "spring.ssl.bundle.pem.b: {{keystore: {{certificate: {cert}, private-key: {key}}}, truststore.certificate: {ca}}}"
    );
    let stores = format!(
        "spring.ssl.bundle.jks.b: {{keystore: {{location: {one}, password: changeit}}, truststore: {{location: {trust}, \
         password: changeit}}}}"
    );
    let by_client = "spring.cloud.gateway.httpclient.ssl";
    for (yaml, left_out) in [
        // The server needs no trusted certificates of a bundle that others use.
        (format!("{pem}\nserver.ssl.bundle: b\n{by_client}.ssl-bundle: b"), &[][..]),
        (format!("{stores}\nserver.ssl.bundle: b\n{by_client}.ssl-bundle: b"), &[]),
        (
            format!("{pem}\n{by_client}: {{ssl-bundle: b, use-insecure-trust-manager: true}}"),
            &["use-insecure-trust-manager"],
        ),
        (
            format!("{pem}\n{by_client}: {{ssl-bundle: b, trusted-x509-certificates: [{cert}]}}"),
            &["trusted-x509-certificates"],
        ),
        (
            format!("{pem}\nserver.ssl: {{bundle: b, certificate: a, key-store: b, trust-store: c}}"),
            &["key-store", "trust-store"],
        ),
        (
            format!(
                "server.ssl: {{certificate: {cert}, certificate-private-key: {key}, trust-store: {trust}, \
                 trust-store-password: changeit}}"
            ),
            &["trust-store", "trust-store-password"],
        ),
    ] {
        let text = format!("spring.cloud.gateway.routes: ['a=https://a,Path=/**']\n{yaml}\n");
        let spring = parse("application.yml", &text, &|_| None).unwrap_or_else(|problems| panic!("{yaml}: {problems}"));
        let has_warning = spring.notes.list().iter().any(|found| found.severity == Severity::Warning);
        assert_eq!(has_warning, !left_out.is_empty(), "{yaml}: {}", spring.notes);
        let migrated = crate::migrate("application.yml", &text, &|_| None).unwrap().yaml;
        let own =
            parse("tollgate.yaml", &migrated, &|_| None).unwrap_or_else(|problems| panic!("{migrated}{problems}"));
        assert_eq!(own.config.http_client.tls, spring.config.http_client.tls, "{migrated}");
        for name in left_out {
            assert!(!migrated.contains(&format!("{name}: ")), "{migrated}");
        }
        let tls = [spring, own].map(|loaded| loaded.config.server.tls.map(|tls| tls.certificates()));
        assert_eq!(tls[0], tls[1], "{migrated}");
    }
}

#[test]
fn a_certificate_that_ends_soon_or_has_ended_is_a_warning() {
    let made = Certificates::new();
    let (cert, key) = (made.server().display().to_string(), made.server_key().display().to_string());
    let text = format!(
        "server: {{ssl: {{certificate: '{cert}', certificate-private-key: '{key}'}}}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n"
    );
    let notes = || parse("a.yaml", &text, &|_| None).unwrap().notes.to_string();
    assert_eq!(notes(), "");
    made.sign_expired();
    assert!(
        notes().contains(&format!("warning: the certificate in {cert} expired at 2001-01-01T00:00:00Z")),
        "{}",
        notes()
    );
    let trusting = format!(
        "http-client: {{ssl: {{trusted-x509-certificates: ['{cert}']}}}}\n{}",
        &text[text.find("routes").unwrap()..]
    );
    let notes_of_trust = parse("a.yaml", &trusting, &|_| None).unwrap().notes.to_string();
    let expired = format!("warning: the certificates in {cert} expired, the last one at 2001-01-01T00:00:00Z");
    assert!(notes_of_trust.contains(&expired), "{notes_of_trust}");
    made.sign_for_later();
    assert!(notes().contains(" is not valid before 2500-01-01T00:00:00Z"), "{}", notes());
    let after = |days: i64| {
        let day =
            jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().checked_add(jiff::Span::new().days(days));
        let day = day.unwrap();
        made.sign_until((day.year().into(), day.month() as u8, day.day() as u8));
    };
    after(10);
    assert!(notes().contains(" expires at "), "{}", notes());
    after(16);
    assert_eq!(notes(), "");
}
