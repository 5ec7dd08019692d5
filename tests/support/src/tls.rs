//! Certificates, generated per test.

use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use tempfile::TempDir;

/// Host names of test servers.
const HOSTS: &[&str] = &["localhost", "127.0.0.1"];

/// Certificate authority with a server certificate for loopback and a client certificate, as PEM files.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    /// Generates all certificates. Those of two calls do not trust each other.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "authority of a test");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();

        let all = Self { folder, authority };
        all.sign_server(HOSTS, (4096, 1, 1));
        all.sign("client", CertificateParams::default(), ExtendedKeyUsagePurpose::ClientAuth);
        all
    }

    /// Gives servers started from now on a certificate for another host.
    pub fn sign_for_other_host(&self) {
        self.sign_server(&["elsewhere.example"], (4096, 1, 1));
    }

    /// Gives servers started from now on an expired certificate.
    pub fn sign_expired(&self) {
        self.sign_server(HOSTS, (2001, 1, 1));
    }

    /// Gives servers started from now on a certificate that is valid until the begin of this day.
    pub fn sign_until(&self, (year, month, day): (i32, u8, u8)) {
        self.sign_server(HOSTS, (year, month, day));
    }

    /// Generates a certificate for `hosts`, in the files `name.pem` and `name.key`. Returns their paths.
    pub fn sign_for(&self, name: &str, hosts: &[&str]) -> (PathBuf, PathBuf) {
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        self.sign(name, CertificateParams::new(hosts).unwrap(), ExtendedKeyUsagePurpose::ServerAuth);
        (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key")))
    }

    /// Generates the certificate of a client with these URIs, DNS names and e-mail addresses, in the files `name.pem` and
    /// `name.key`. Returns their paths.
    pub fn sign_client(&self, name: &str, uris: &[&str], dns_names: &[&str], emails: &[&str]) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::default();
        let text = |text: &str| text.try_into().unwrap();
        params.subject_alt_names.extend(uris.iter().map(|uri| SanType::URI(text(uri))));
        params.subject_alt_names.extend(dns_names.iter().map(|name| SanType::DnsName(text(name))));
        params.subject_alt_names.extend(emails.iter().map(|address| SanType::Rfc822Name(text(address))));
        self.sign(name, params, ExtendedKeyUsagePurpose::ClientAuth);
        (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key")))
    }

    /// Gives servers started from now on a certificate that is valid from the year 2500 on.
    pub fn sign_for_later(&self) {
        self.sign_server_from(2500, HOSTS, (3000, 1, 1));
    }

    fn sign_server(&self, hosts: &[&str], until: (i32, u8, u8)) {
        self.sign_server_from(2000, hosts, until);
    }

    fn sign_server_from(&self, year: i32, hosts: &[&str], until: (i32, u8, u8)) {
        let mut params = CertificateParams::new(hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>()).unwrap();
        params.not_before = rcgen::date_time_ymd(year, 1, 1);
        params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
        self.sign("server", params, ExtendedKeyUsagePurpose::ServerAuth);
    }

    fn sign(&self, name: &str, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) {
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        std::fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// Generates a self-signed certificate for `localhost` with the CA flag, as `openssl req -x509` does by default, and
    /// its key.
    pub fn self_signed(&self) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let (file, key_file) = (self.file("self.pem"), self.file("self.key"));
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        (file, key_file)
    }

    /// Returns the path of the authority's certificate.
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// Returns the path of the client's certificate.
    pub fn client(&self) -> PathBuf {
        self.file("client.pem")
    }

    /// Returns the path of the client's key.
    pub fn client_key(&self) -> PathBuf {
        self.file("client.key")
    }

    /// Returns the path of the server's certificate, for `localhost` and 127.0.0.1.
    pub fn server(&self) -> PathBuf {
        self.file("server.pem")
    }

    /// Returns the path of the server's key.
    pub fn server_key(&self) -> PathBuf {
        self.file("server.key")
    }

    /// Writes a key store in PKCS#12 with the client's certificate and key, and a trust store with the authority, by `openssl`.
    /// Returns both paths.
    pub fn stores(&self, password: &str) -> (PathBuf, PathBuf) {
        let (keys, trust) = (self.file("client.p12"), self.file("trust.p12"));
        let (client, key, ca) = (self.client(), self.client_key(), self.ca());
        export(&[Path::new("-inkey"), &key, Path::new("-in"), &client, Path::new("-out"), &keys], password);
        export(&[Path::new("-nokeys"), Path::new("-in"), &ca, Path::new("-out"), &trust], password);
        (keys, trust)
    }

    /// Returns the TLS arguments of a redis-server, except the port.
    pub fn server_arguments(&self, require_client_certificates: bool) -> Vec<String> {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let clients = if require_client_certificates { "yes" } else { "no" };
        vec![
            "--tls-cert-file".into(),
            text(self.server()),
            "--tls-key-file".into(),
            text(self.server_key()),
            "--tls-ca-cert-file".into(),
            text(self.ca()),
            "--tls-auth-clients".into(),
            clients.into(),
        ]
    }

    /// Returns the folder of the files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn export(arguments: &[&Path], password: &str) {
    let password = format!("pass:{password}");
    let output =
        Command::new("openssl").args(["pkcs12", "-export", "-passout", &password]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}
