//! Certificates of clients in dry runs, and those of proxies that end TLS.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{URI, certificates, curl, limited, want};
use crate::support::gateway::{Gateway, run};
use crate::support::upstream::Upstream;
use crate::tls::yaml;

#[test]
fn client_cert_of_a_trusted_proxy_is_the_source_of_keys_without_tls() {
    let certificates = certificates();
    let field = |name: &str| {
        let der = CertificateDer::from_pem_file(certificates.ca().with_file_name(name)).unwrap();
        format!(":{}:", STANDARD.encode(der))
    };
    let (orders, billing) = (field("orders.pem"), field("billing.pem"));
    let upstream = Upstream::ok("ok");
    let rest = limited(&upstream.uri(), "tls:san-uri", "");
    let ssl = "server: {ssl: {enabled: false, forward-client-cert: client-cert}}\n";
    let trusting = Gateway::start(&format!("trusted-proxies: [127.0.0.1]\n{ssl}{rest}"));
    let status = |gateway: &Gateway, fields: &[(&str, &str)]| gateway.connect().request("GET", "/", fields, b"").status;
    assert_eq!(status(&trusting, &[("Client-Cert", &orders)]), 200);
    assert_eq!(upstream.requests()[0].header("client-cert"), Some(&*orders));
    assert_eq!(status(&trusting, &[("Client-Cert", &orders)]), 429);
    assert_eq!(status(&trusting, &[("Client-Cert", &billing)]), 200);
    for unreadable in [&[("Client-Cert", ":AAAA:")][..], &[("Client-Cert", &*orders), ("Client-Cert", &*orders)], &[]] {
        assert_eq!(status(&trusting, unreadable), 403, "{unreadable:?}");
    }
    let others = Gateway::start(&format!("{ssl}{rest}"));
    assert_eq!(status(&others, &[("Client-Cert", &billing)]), 403, "of a client");
}

#[test]
fn the_certificate_of_a_trusted_proxy_is_not_that_of_its_clients() {
    let certificates = certificates();
    let upstream = Upstream::ok("ok");
    let field = |name: &str| {
        let der = CertificateDer::from_pem_file(certificates.ca().with_file_name(name)).unwrap();
        format!("Client-Cert: :{}:", STANDARD.encode(der))
    };
    let (billing, start) = (field("billing.pem"), |mode: &str, filters: &str| {
        let ssl = want(&certificates, &format!(", forward-client-cert: {mode}"));
        let rest = format!(
            "trusted-proxies: [127.0.0.1, '::1']\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**]{filters}}}]\n",
            upstream.uri()
        );
        Gateway::start(&yaml(&certificates, &ssl, &rest))
    });
    // The proxy connects with the certificate `orders`.
    let proxied = |gateway: &Gateway, more: &[&str]| curl(gateway, &certificates, Some("orders"), more).0;
    let limiter = ", filters: [{name: RequestRateLimiter, args: {replenish-rate: 0.001, burst-capacity: 1, \
                   key-resolver: 'tls:san-uri'}}]";
    let limited = start("client-cert", limiter);
    assert_eq!([proxied(&limited, &[]), proxied(&limited, &["-H", "Client-Cert: :AAAA:"])], [403, 403]);
    assert_eq!([proxied(&limited, &["-H", &billing]), proxied(&limited, &["-H", &billing])], [200, 429]);
    let open = start("client-cert", "");
    assert_eq!(proxied(&open, &[]), 200);
    let seen = upstream.requests().pop().unwrap();
    assert_eq!((seen.header("client-cert"), seen.header("client-cert-chain")), (None, None));
    // As with Envoy, the nearest client is described.
    assert_eq!(proxied(&start("xfcc", ""), &[]), 200);
    assert!(upstream.requests().pop().unwrap().header("x-forwarded-client-cert").unwrap().contains(URI));
}

#[test]
fn a_dry_run_takes_the_certificate_of_a_client() {
    let certificates = certificates();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tollgate.yaml");
    std::fs::write(&config, limited("no:", "tls:san-uri", "")).unwrap();
    let explain = |more: &[&str]| run(&[&["explain", config.to_str().unwrap(), "/"], more].concat());
    let file = certificates.ca().with_file_name("orders.pem");
    let (code, text, errors) = explain(&["--client-cert", file.to_str().unwrap()]);
    assert!(code == Some(0) && text.contains(URI), "{text}{errors}");
    assert!(!explain(&[]).1.contains(URI));
    // The field of a trusted proxy wins, as for a request, also if it holds no certificate.
    let ssl = "trusted-proxies: [127.0.0.1]\nserver: {ssl: {enabled: false, forward-client-cert: client-cert}}\n";
    std::fs::write(&config, format!("{ssl}{}", limited("no:", "tls:san-uri", ""))).unwrap();
    let proxied = ["--peer", "127.0.0.1", "--client-cert", file.to_str().unwrap()];
    for fields in [&[][..], &["-H", "Client-Cert: :AAAA:"]] {
        let (code, text, _) = explain(&[&proxied[..], fields].concat());
        assert!(code == Some(0) && !text.contains(URI), "{fields:?}: {text}");
    }
    let der = CertificateDer::from_pem_file(&file).unwrap();
    let field = format!("Client-Cert: :{}:", STANDARD.encode(der));
    assert!(explain(&["--peer", "127.0.0.1", "-H", &field]).1.contains(URI));
    let (code, _, errors) = explain(&["--client-cert", config.to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("is no certificate in PEM"), "{errors}");
}

#[test]
fn a_dry_run_of_a_running_gateway_takes_the_certificate_of_a_client() {
    let certificates = certificates();
    let gateway = Gateway::start(&limited("no:", "tls:san-uri", ""));
    let live = format!("127.0.0.1:{}", gateway.admin.port());
    let file = certificates.ca().with_file_name("orders.pem");
    let (code, text, errors) = run(&["explain", "/", "--client-cert", file.to_str().unwrap(), "--live", &live]);
    assert!(code == Some(0) && text.contains(URI) && text.contains("1 of 1"), "{text}{errors}");
    assert!(!run(&["explain", "/", "--live", &live]).1.contains(URI));
    let refused = gateway.admin("/api/explain?url=/&client-cert=:AAAA:");
    assert!(refused.status == 400 && refused.text().contains("`Client-Cert`"), "{}", refused.text());
}
