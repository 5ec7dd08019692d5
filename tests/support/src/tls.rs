//! Certificates, made on the spot.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

/// Where servers of tests are reached.
const HOSTS: &[&str] = &["localhost", "127.0.0.1"];

/// An authority, and what it has signed: for a server on loopback and for a client. All are PEM files.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    /// Makes all of them anew, so that those of two calls do not trust each other.
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

    /// Gives servers that are started from now on a certificate for another host.
    pub fn sign_for_other_host(&self) {
        self.sign_server(&["elsewhere.example"], (4096, 1, 1));
    }

    /// Gives servers that are started from now on a certificate that has expired.
    pub fn sign_expired(&self) {
        self.sign_server(HOSTS, (2001, 1, 1));
    }

    fn sign_server(&self, hosts: &[&str], until: (i32, u8, u8)) {
        let mut params = CertificateParams::new(hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>()).unwrap();
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
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

    /// A certificate for `localhost` and its key, signed by itself and an authority's, as `openssl req -x509` makes them
    /// unless it is told otherwise.
    pub fn self_signed(&self) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let (file, key_file) = (self.file("self.pem"), self.file("self.key"));
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        (file, key_file)
    }

    /// The authority's certificate.
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// The client's certificate.
    pub fn client(&self) -> PathBuf {
        self.file("client.pem")
    }

    /// The client's key.
    pub fn client_key(&self) -> PathBuf {
        self.file("client.key")
    }

    /// The server's certificate, for `localhost` and 127.0.0.1.
    pub fn server(&self) -> PathBuf {
        self.file("server.pem")
    }

    /// The server's key.
    pub fn server_key(&self) -> PathBuf {
        self.file("server.key")
    }

    /// What a redis-server needs to be told to show them; the port apart.
    pub fn server_arguments(&self, clients_must_show_theirs: bool) -> Vec<String> {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let clients = if clients_must_show_theirs { "yes" } else { "no" };
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

    /// The folder that they are in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}
