//! TLS for several sites: certificates by name, a port without TLS, and an ACME server.

use std::path::PathBuf;

use tollgate_bounded_file::recorded;
use tollgate_test_support::Certificates;

use crate::{Loaded, parse};

fn read(server: &str) -> Result<Loaded, String> {
    parse("tollgate.yaml", &format!("routes: []\nserver: {{{server}}}\n"), &|_| None)
        .map_err(|problems| problems.to_string())
}

fn entry((certificate, key): &(PathBuf, PathBuf)) -> String {
    format!("certificate: {}, certificate-private-key: {}", certificate.display(), key.display())
}

#[test]
fn certificates_by_their_names_are_checked() {
    let made = Certificates::new();
    let shop = made.sign_for("shop", &["shop.example"]);
    let (same, nameless) = (entry(&made.sign_for("same", &["SHOP.example"])), entry(&made.sign_for("nameless", &[])));
    let (key, shop) = (shop.1.display().to_string(), entry(&shop));
    for (ssl, error) in [
        (format!("certificates: [{{{shop}}}, {{{same}}}]"), "another certificate has the name `shop.example`, too"),
        (format!("certificates: [{{{shop}}}, {{{nameless}}}]"), "no client gets this certificate: it has no DNS name"),
        (format!("{shop}, certificates: [{{{nameless}}}]"), "no client gets this certificate: it has no DNS name"),
        (format!("certificates: [{{certificate-private-key: {key}}}]"), "are required together"),
        (format!("certificates: [{{{shop}}}, {{}}]"), "TLS without a certificate"),
        ("certificates: []".to_owned(), "TLS without a certificate"),
        (format!("certificates: [{{{shop}, key-stor: a}}]"), "unknown key `key-stor`"),
    ] {
        let problems = read(&format!("ssl: {{{ssl}}}, strict-transport-security: max-age=600"))
            .err()
            .unwrap_or_else(|| panic!("accepted: {ssl}"));
        assert!(problems.contains(error) && problems.matches("error:").count() == 1, "{ssl}: {problems}");
        assert!(!problems.contains("strict-transport-security` is"), "TLS is meant: {problems}");
    }
    let names = |ssl: &str| {
        let tls = read(&format!("ssl: {{{ssl}}}")).unwrap_or_else(|problems| panic!("{problems}")).config.server.tls;
        tls.unwrap().certificates().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(&format!("certificates: [{{{nameless}}}, {{{shop}}}]")), ["", "shop.example"]);
    assert_eq!(names(&format!("{nameless}, certificates: [{{{shop}}}]")), ["", "shop.example"]);
}

#[test]
fn certificates_are_read_again_without_the_rest_of_the_configuration() {
    let made = Certificates::new();
    let (shop, blog) = (made.sign_for("shop", &["shop.example"]), made.sign_for("blog", &["blog.example"]));
    let tls =
        read(&format!("ssl: {{{}, certificates: [{{{}}}]}}", entry(&shop), entry(&blog))).unwrap().config.server.tls;
    let tls = tls.unwrap();
    let before = tls.certificates();
    made.sign_for("blog", &["news.example"]);
    tls.clone().read_certificates_again().unwrap();
    let after = tls.certificates();
    assert_eq!((&*before[1].0, &*after[1].0, before[0].1 == after[0].1), ("blog.example", "news.example", true));
    std::fs::write(&blog.1, std::fs::read(&shop.1).unwrap()).unwrap();
    let error = tls.read_certificates_again().unwrap_err();
    assert!(error.contains("does not fit the certificate in"), "{error}");
    std::fs::remove_file(&blog.1).unwrap();
    let error = tls.read_certificates_again().unwrap_err();
    assert!(error.contains("cannot read"), "{error}");
    assert_eq!(tls.certificates(), after);
}

#[test]
fn a_port_without_tls_stands_beside_one_with_tls() {
    let made = Certificates::new();
    let ssl = format!("ssl: {{{}}}", entry(&(made.server(), made.server_key())));
    for (server, error) in [
        ("http: {port: 80}".to_owned(), "there is no `server.ssl`"),
        (format!("http: {{}}, {}", ssl.replace('{', "{enabled: false, ")), "there is no `server.ssl`"),
        (format!("port: 80, http: {{}}, {ssl}"), "`server.port` and `server.http.port` are both 80"),
        (format!("http: {{prot: 80}}, {ssl}"), "unknown key `prot`"),
    ] {
        let problems = read(&server).err().unwrap_or_else(|| panic!("accepted: {server}"));
        assert!(problems.contains(error) && problems.matches("error:").count() == 1, "{server}: {problems}");
    }
    let redirects = |http: &str| read(&format!("port: 443, {http}{ssl}")).unwrap().config.server.redirects_to_https();
    assert_eq!(["", "http: {}, ", "http: {redirect: false}, "].map(redirects), [false, true, false]);
}

#[test]
fn certificates_from_an_acme_server_are_checked_and_read_from_its_folder() {
    for (acme, error) in [
        ("storage: a", "`domains` is required"),
        ("domains: [], storage: a", "`domains` is required"),
        ("domains: ['*.shop.example'], storage: a", "a wildcard needs a challenge over DNS"),
        ("domains: [192.0.2.1], storage: a", "is no DNS name that an ACME server can verify"),
        ("domains: [shop], storage: a", "is no DNS name that an ACME server can verify"),
        ("domains: ['https://shop.example'], storage: a", "is no DNS name that an ACME server can verify"),
        ("domains: [../shop.example], storage: a", "is no DNS name that an ACME server can verify"),
        ("domains: [shop.example]", "`storage` is required"),
        ("domains: [shop.example], storage: ''", "`storage` is required"),
        ("domains: [shop.example], storage: a, directory: 'http://a/dir'", "is no https:// URL"),
        ("domains: [shop.example], storage: a, mail: a@b.example", "unknown key `mail`"),
        ("domains: [shop.example], storage: a}, ssl: {enabled: false", "`server.acme` has no effect"),
    ] {
        let problems =
            read(&format!("http: {{}}, acme: {{{acme}}}")).err().unwrap_or_else(|| panic!("accepted: {acme}"));
        assert!(problems.contains(error) && problems.matches("error:").count() == 1, "{acme}: {problems}");
    }
    let (made, folder) = (Certificates::new(), tempfile::tempdir().unwrap());
    let ca = made.ca().display().to_string();
    let clients = |auth: &str| {
        format!("ssl: {{client-auth: {auth}, trust-certificate: {ca}}}, acme: {{domains: [shop.example], storage: a}}")
    };
    let problems = read(&clients("need")).err().unwrap();
    assert!(problems.contains("the ACME server has no client certificate"), "{problems}");
    for server in [clients("want"), format!("http: {{}}, {}", clients("need"))] {
        read(&server).unwrap_or_else(|problems| panic!("{server}: {problems}"));
    }
    let acme =
        format!("acme: {{domains: [Shop.example, blog.example., shop.example], storage: {}}}", folder.path().display());
    let server =
        read(&format!("port: 443, http: {{}}, {acme}")).unwrap_or_else(|problems| panic!("{problems}")).config.server;
    let (settings, tls) = (server.acme.clone().unwrap(), server.tls.clone().unwrap());
    assert_eq!(
        (
            settings.domains.iter().map(|domain| domain.as_str()).collect::<Vec<_>>().join(" "),
            server.redirects_to_https()
        ),
        ("shop.example blog.example".to_owned(), true)
    );
    assert_eq!(tls.certificates(), [], "handshakes are refused until the first certificate");
    let (shop, key) = made.sign_for("shop", &["shop.example"]);
    let both = [std::fs::read(shop).unwrap(), std::fs::read(key).unwrap()].concat();
    std::fs::write(settings.file("shop.example"), &both).unwrap();
    let (tls, files) = recorded(|| read(&format!("port: 443, http: {{}}, {acme}")).unwrap().config.server.tls.unwrap());
    assert_eq!(
        (tls.certificates().len(), files.files()),
        (2, 0),
        "the gateway's own writes are no change of the configuration"
    );
    for other in ["damaged".as_bytes(), &both] {
        std::fs::write(settings.file("blog.example"), other).unwrap();
        tls.read_certificates_again().unwrap();
        let names = tls.certificates().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names, ["", "shop.example"], "one that is damaged, and one for another name, are like absent ones");
    }
}
