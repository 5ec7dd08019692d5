//! Redis over TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{Authorities, ClientCertificate, RedisClient, RedisSettings, StoreError, Tls};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{Certificates, RedisServer};

use crate::support::{ask, eventually, rule, store};

fn settings(url: &str, tls: Tls) -> RedisSettings {
    RedisSettings { tls: Some(tls), timeout: Duration::from_secs(20), ..RedisSettings::new(url) }
}

fn trusting(certificates: &Certificates) -> Tls {
    Tls { ca: Some(Authorities::Pem(certificates.ca())), client: None }
}

fn shown(certificates: &Certificates) -> Tls {
    Tls {
        client: Some(ClientCertificate::Pem { certificate: certificates.client(), key: certificates.client_key() }),
        ..trusting(certificates)
    }
}

async fn decides(settings: &RedisSettings) {
    let client = RedisClient::start(settings).unwrap();
    assert!(client.wait_connected(Duration::from_secs(10)).await, "{:?}", client.status());
    assert_eq!(ask(&store(&client, OnStoreFailure::Deny), "a", &rule(1, 1_000)).await.source, Source::Redis);
}

/// Returns the error of a connection that fails; it must count as a TLS failure.
async fn refused(settings: &RedisSettings) -> String {
    let client = RedisClient::start(settings).unwrap();
    client.wait_attempted(Duration::from_secs(10)).await;
    assert_eq!(ask(&store(&client, OnStoreFailure::Allow), "a", &rule(1, 1)).await.source, Source::Fallback);
    assert_eq!(failures(&client, StoreError::Tls), 1, "{:?}", client.status());
    client.status().last_error().unwrap().to_owned()
}

fn failures(client: &Arc<RedisClient>, kind: StoreError) -> u64 {
    client.stats().failures.by_reason().iter().find(|(known, _)| *known == kind).unwrap().1
}

#[tokio::test]
async fn a_server_with_a_trusted_certificate_decides() {
    let certificates = Certificates::new();
    let server = RedisServer::start_tls(&certificates, false, &["--requirepass", "p"]);
    let url = server.tls_url().replace("://", "://:p@");
    decides(&settings(&url, trusting(&certificates))).await;
    decides(&settings(&url.replace("127.0.0.1", "localhost"), trusting(&certificates))).await;
    decides(&settings(&url.replace("rediss://", "redis://"), trusting(&certificates))).await;
    decides(&settings(&url.replace("rediss://", "valkeys://"), trusting(&certificates))).await;
    decides(&RedisSettings { resp2: true, ..settings(&url, trusting(&certificates)) }).await;
}

#[tokio::test]
async fn a_server_with_an_untrusted_certificate_is_rejected() {
    let server = RedisServer::start_tls(&Certificates::new(), false, &[]);
    let text = refused(&settings(&server.tls_url(), trusting(&Certificates::new()))).await;
    assert!(text.contains("invalid peer certificate"), "{text}");
    // The system's CA certificates do not verify it either.
    refused(&settings(&server.tls_url(), Tls::default())).await;
    refused(&RedisSettings { tls: None, ..settings(&server.tls_url(), Tls::default()) }).await;
}

#[tokio::test]
async fn a_certificate_must_match_the_host_and_be_valid_now() {
    let certificates = Certificates::new();
    for (sign, says) in [
        (Certificates::sign_for_other_host as fn(&Certificates), "not valid for name"),
        (Certificates::sign_expired, "expired"),
    ] {
        sign(&certificates);
        let server = RedisServer::start_tls(&certificates, false, &[]);
        let text = refused(&settings(&server.tls_url(), trusting(&certificates))).await;
        assert!(text.contains(says), "{text}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_sent_on_request() {
    let certificates = Certificates::new();
    let server = RedisServer::start_tls(&certificates, true, &[]);
    decides(&settings(&server.tls_url(), shown(&certificates))).await;
    let text = refused(&settings(&server.tls_url(), trusting(&certificates))).await;
    assert!(text.contains("CertificateRequired") || text.contains("HandshakeFailure"), "{text}");
}

/// A server without TLS waits for the end of a line; a server with TLS closes the connection.
#[tokio::test]
async fn tls_on_one_side_only_fails() {
    let certificates = Certificates::new();
    let server = RedisServer::start_tls(&certificates, false, &[]);
    for (settings, says) in [
        (settings(&server.url(), trusting(&certificates)), "expects TLS"),
        (RedisSettings::new(server.tls_url().replace("rediss://", "redis://")), ""),
    ] {
        let client = RedisClient::start(&settings).unwrap();
        client.wait_attempted(Duration::from_secs(10)).await;
        let status = client.status();
        assert!(!status.connected() && status.last_error().unwrap().contains(says), "{status:?}");
    }
}

/// Certificates may be renewed while the gateway runs.
#[tokio::test]
async fn certificate_files_are_read_for_each_connection() {
    let (right, wrong) = (Certificates::new(), Certificates::new());
    let server = RedisServer::start_tls(&right, false, &[]);
    let (client, ca) = (Arc::new(tempfile::tempdir().unwrap()), wrong.ca());
    let file = client.path().join("ca.pem");
    std::fs::copy(ca, &file).unwrap();
    let client = RedisClient::start(&settings(
        &server.tls_url(),
        Tls { ca: Some(Authorities::Pem(file.clone())), client: None },
    ))
    .unwrap();
    client.wait_attempted(Duration::from_secs(10)).await;
    assert!(!client.status().connected());
    std::fs::write(&file, "half a").unwrap();
    eventually("the file is reported", async || client.status().last_error().is_some_and(|text| names(text, &file)))
        .await;
    std::fs::copy(right.ca(), &file).unwrap();
    assert!(client.wait_connected(Duration::from_secs(10)).await);
}

#[tokio::test]
async fn unusable_files_are_reported_at_start() {
    let (ours, theirs) = (Certificates::new(), Certificates::new());
    let empty = ours.folder().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let missing = PathBuf::from("/nowhere/ca.pem");
    let ca = |ca: &Path| Tls { ca: Some(Authorities::Pem(ca.to_owned())), client: None };
    let client = |certificate: PathBuf, key: PathBuf| Tls {
        ca: None,
        client: Some(ClientCertificate::Pem { certificate, key }),
    };
    for (tls, setting, file) in [
        (ca(&missing), "CA certificates", &missing),
        (ca(&empty), "CA certificates", &empty),
        (ca(&ours.client_key()), "CA certificates", &ours.client_key()),
        (client(empty.clone(), ours.client_key()), "client certificate", &empty),
        (client(ours.client(), missing.clone()), "private key", &missing),
        (client(ours.client(), ours.client()), "private key", &ours.client()),
        (client(ours.client(), theirs.client_key()), "private key", &theirs.client_key()),
    ] {
        let text = RedisClient::start(&settings("rediss://localhost", tls)).unwrap_err().to_string();
        assert!(text.contains(setting) && names(&text, file), "{text}");
    }
    for url in ["rediss://u:s3cret@localhost/#insecure", "redis+unix:///nowhere.sock"] {
        let text = RedisClient::start(&settings(url, trusting(&ours))).unwrap_err().to_string();
        assert!((text.contains("insecure") || text.contains("unix")) && !text.contains("s3cret"), "{text}");
    }
}

fn names(text: &str, file: &Path) -> bool {
    text.contains(file.to_str().unwrap())
}
