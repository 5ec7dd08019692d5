//! Certificates, made on the spot.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

/// An authority, and what it has signed: for a server on loopback and for a client. All are PEM files.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
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

        let sign = |name: &str, mut params: CertificateParams, usage| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            std::fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        };
        let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        sign("server", CertificateParams::new(hosts).unwrap(), ExtendedKeyUsagePurpose::ServerAuth);
        sign("client", CertificateParams::default(), ExtendedKeyUsagePurpose::ClientAuth);
        Self { folder }
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
