//! Stores of real `openssl pkcs12` and `keytool`, whole and damaged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use tempfile::TempDir;
use tollgate_key_store::{Identity, KeyStoreError, certificates, identity};

const PASSWORD: &str = "changeit";

/// Folder in which `openssl` runs: `ca.pem`, and `leaf.pem` signed by it with `leaf.key`.
struct Openssl(TempDir);

impl Openssl {
    /// Makes certificates with a key of the type `algorithm`.
    fn new(algorithm: &str) -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        made.run("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 3650 -subj /CN=authority");
        made.run(&format!(
            "req -x509 -newkey {algorithm} -nodes -keyout leaf.key -out leaf.pem -days 3650 -subj /CN=localhost -CA ca.pem \
             -CAkey ca.key"
        ));
        made
    }

    fn run(&self, arguments: &str) {
        let output =
            Command::new("openssl").args(arguments.split_whitespace()).current_dir(self.0.path()).output().unwrap();
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns the store that `openssl pkcs12 -export` writes with these options.
    fn export(&self, options: &str) -> Vec<u8> {
        self.run(&format!("pkcs12 -export -out store.p12 {options}"));
        self.read("store.p12")
    }

    fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.0.path().join(file)).unwrap()
    }

    fn certificate(&self, file: &str) -> Vec<u8> {
        from_pem(&self.0.path().join(file))
    }
}

fn from_pem(file: &Path) -> Vec<u8> {
    CertificateDer::from_pem_file(file).unwrap().to_vec()
}

/// File that `keytool` wrote.
fn keytool(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keytool").join(file)
}

fn read_keytool(file: &str) -> Vec<u8> {
    std::fs::read(keytool(file)).unwrap()
}

/// Checks that the key belongs to the first certificate.
fn assert_fits(identity: &Identity) {
    let chain = identity.chain.iter().cloned().map(CertificateDer::from).collect();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.key.clone()));
    CertifiedKey::from_der(chain, key, &rustls::crypto::aws_lc_rs::default_provider()).unwrap();
}

#[test]
fn stores_of_openssl_are_read_with_modern_and_old_encryption() {
    for algorithm in ["rsa:2048", "ec -pkeyopt ec_paramgen_curve:P-384", "ed25519"] {
        let openssl = Openssl::new(algorithm);
        for encryption in [
            "",        // PBES2 with AES-256 and SHA-256
            "-legacy", // RC2 with 40 bits, 3DES and SHA-1
            "-keypbe PBE-SHA1-3DES -certpbe PBE-SHA1-3DES -macalg sha1",
            "-keypbe AES-128-CBC -certpbe AES-192-CBC -macalg sha512 -iter 1000",
            "-keypbe NONE -certpbe NONE",
        ] {
            let store = openssl.export(&format!(
                "-inkey leaf.key -in leaf.pem -certfile ca.pem -name web -passout pass:{PASSWORD} {encryption}"
            ));
            let found = identity(&store, PASSWORD, Some("WEB")).unwrap();
            assert_fits(&found);
            assert_eq!(found.chain, [openssl.certificate("leaf.pem"), openssl.certificate("ca.pem")]);
            assert_eq!(identity(&store, PASSWORD, None), Ok(found));
            assert_eq!(identity(&store, "wrong", None), Err(KeyStoreError::WrongPassword));
            assert_eq!(identity(&store, "", None), Err(KeyStoreError::WrongPassword));
            assert_eq!(identity(&store, "change\0it", None), Err(KeyStoreError::WrongPassword));
            let unknown = identity(&store, PASSWORD, Some("other"));
            assert!(matches!(unknown, Err(KeyStoreError::UnknownAlias { aliases, .. }) if aliases == ["web"]));
        }
    }
}

#[test]
fn stores_may_lack_a_password_a_name_or_a_chain() {
    let openssl = Openssl::new("ed25519");
    let empty = openssl.export("-inkey leaf.key -in leaf.pem -passout pass:");
    assert_eq!(identity(&empty, "", None).unwrap().chain, [openssl.certificate("leaf.pem")]);
    assert_eq!(identity(&empty, "", Some("1")), identity(&empty, "", None), "the number is the alias");
    let other = "pass:gr\u{fc}\u{df}e";
    let store = openssl.export(&format!("-inkey leaf.key -in leaf.pem -passout {other}"));
    assert_fits(&identity(&store, "gr\u{fc}\u{df}e", None).unwrap());
    let keyless = openssl.export(&format!("-nokeys -in leaf.pem -passout pass:{PASSWORD}"));
    assert_eq!(identity(&keyless, PASSWORD, None), Err(KeyStoreError::NoKey));
    let bare = openssl.export(&format!("-nocerts -inkey leaf.key -passout pass:{PASSWORD}"));
    assert_eq!(identity(&bare, PASSWORD, None), Err(KeyStoreError::NoCertificateOfKey));
    assert_eq!(certificates(&bare, PASSWORD), Err(KeyStoreError::NoCertificate));
    let unchecked = openssl.export(&format!("-nomac -inkey leaf.key -in leaf.pem -passout pass:{PASSWORD}"));
    assert_eq!(identity(&unchecked, PASSWORD, None), Err(KeyStoreError::Unsupported("has no checksum (MAC)")));
}

#[test]
fn trust_stores_have_all_certificates_but_issuers_of_a_key() {
    let openssl = Openssl::new("ed25519");
    let both = openssl.export(&format!("-nokeys -in ca.pem -certfile leaf.pem -passout pass:{PASSWORD}"));
    let all = [openssl.certificate("ca.pem"), openssl.certificate("leaf.pem")];
    assert_eq!(certificates(&both, PASSWORD).unwrap(), all);
    let pair = openssl.export(&format!("-inkey leaf.key -in leaf.pem -certfile ca.pem -passout pass:{PASSWORD}"));
    assert_eq!(certificates(&pair, PASSWORD).unwrap(), all[1..]);
    assert_eq!(certificates(&pair, "wrong"), Err(KeyStoreError::WrongPassword));
}

#[test]
fn stores_of_keytool_are_read() {
    let chain = [from_pem(&keytool("web.pem")), from_pem(&keytool("ca.pem"))];
    for file in ["one-key.p12", "legacy.p12"] {
        let found = identity(&read_keytool(file), PASSWORD, Some("web")).unwrap();
        assert_fits(&found);
        assert_eq!(found.chain, chain, "{file}");
        assert_eq!(identity(&read_keytool(file), PASSWORD, None), Ok(found));
    }
    let mut trusted = certificates(&read_keytool("trust.p12"), PASSWORD).unwrap();
    trusted.sort();
    let mut wanted = vec![from_pem(&keytool("ca.pem")), from_pem(&keytool("rsa.pem"))];
    wanted.sort();
    assert_eq!(trusted, wanted);
    let unchecked = identity(&read_keytool("no-mac.p12"), PASSWORD, None);
    assert_eq!(unchecked, Err(KeyStoreError::Unsupported("has no checksum (MAC)")));
    for (file, kind) in [("store.jks", "JKS"), ("store.jceks", "JCEKS")] {
        assert_eq!(identity(&read_keytool(file), PASSWORD, None), Err(KeyStoreError::JavaFormat(kind)));
    }
}

#[test]
fn an_alias_selects_one_of_several_keys() {
    let store = read_keytool("three-keys.p12");
    let names = ["web", "rsa", "ed"];
    for alias in names {
        let found = identity(&store, PASSWORD, Some(alias)).unwrap();
        assert_fits(&found);
        let certificate = String::from_utf8_lossy(&found.chain[0]).into_owned();
        let name = if alias == "web" { "localhost" } else { alias };
        assert!(certificate.contains(name), "{alias}");
        assert_eq!(found.chain.len(), if alias == "web" { 2 } else { 1 });
        assert_eq!(identity(&store, "wrong", Some(alias)), Err(KeyStoreError::WrongPassword));
    }
    let is_all = |aliases: &[String]| {
        let mut aliases = aliases.to_vec();
        aliases.sort();
        aliases == ["ed", "rsa", "web"]
    };
    let several = identity(&store, PASSWORD, None).unwrap_err();
    assert!(matches!(several, KeyStoreError::SeveralKeys { aliases } if is_all(&aliases)));
    let unknown = identity(&store, PASSWORD, Some("none")).unwrap_err();
    assert!(matches!(unknown, KeyStoreError::UnknownAlias { aliases, .. } if is_all(&aliases)));
    assert!(matches!(certificates(&store, PASSWORD), Err(KeyStoreError::SeveralKeys { .. })));
}

/// Replaces each number of hashing rounds of `store`, one at a time.
fn with_rounds(store: &[u8], rounds: [u8; 3], of_store: [u8; 3]) -> Vec<Vec<u8>> {
    let integer = |digits: [u8; 3]| [&[2, 3], digits.as_slice()].concat();
    let found = store.windows(5).enumerate().filter(|(_, bytes)| *bytes == integer(of_store));
    let replaced = |at: usize| [&store[..at], integer(rounds).as_slice(), &store[at + 5..]].concat();
    found.map(|(at, _)| replaced(at)).collect()
}

#[test]
fn rounds_of_hashing_have_a_bound_for_checksum_and_encryption() {
    const OF_STORE: [u8; 3] = [1, 0x11, 0x70];
    let openssl = Openssl::new("ed25519");
    let export = |encryption: &str| {
        let options = format!("-inkey leaf.key -in leaf.pem -iter 70000 -passout pass:{PASSWORD} {encryption}");
        openssl.export(&options)
    };
    for encryption in ["", "-keypbe PBE-SHA1-3DES -certpbe PBE-SHA1-3DES"] {
        let store = export(encryption);
        let hostile = with_rounds(&store, [0x7F, 0xFF, 0xFF], OF_STORE);
        assert_eq!(hostile.len(), 3, "checksum, certificate and key");
        for store in hostile {
            for store in [indefinite(&store), store] {
                let error = identity(&store, PASSWORD, None).unwrap_err();
                assert_eq!(error, KeyStoreError::Unsupported("needs more than 5,000,000 rounds of hashing"));
            }
        }
        for store in with_rounds(&store, [1, 0x11, 0x71], OF_STORE) {
            assert_eq!(identity(&store, PASSWORD, None), Err(KeyStoreError::WrongPassword));
        }
        assert_eq!(identity(&indefinite(&store), PASSWORD, None), identity(&store, PASSWORD, None));
    }
}

#[test]
fn rounds_of_hashing_have_a_bound_for_all_stores_together() {
    let openssl = Openssl::new("ed25519");
    let store = openssl.export(&format!("-iter 70000 -inkey leaf.key -in leaf.pem -passout pass:{PASSWORD}"));
    let (outcome, others) = tollgate_bounded_file::together(|| {
        assert!(tollgate_bounded_file::take_rounds(tollgate_bounded_file::MAX_ROUNDS_TOGETHER - 300_000));
        (identity(&store, PASSWORD, None), [(); 2].map(|()| identity(&store, PASSWORD, None).unwrap_err().to_string()))
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    for error in others {
        assert!(error.starts_with("it needs more rounds of hashing than are left"), "{error}");
    }
    assert!(identity(&store, PASSWORD, None).is_ok(), "outside, a store has a bound of its own");
}

/// Returns a store whose outermost value has an indefinite length, as some tools write it.
fn indefinite(store: &[u8]) -> Vec<u8> {
    assert_eq!(store[..2], [0x30, 0x82]);
    [&[0x30, 0x80], &store[4..], &[0, 0]].concat()
}

#[test]
fn damaged_stores_are_errors_and_leak_nothing() {
    let openssl = Openssl::new("ed25519");
    let few_rounds = "-iter 2 -inkey leaf.key -in leaf.pem -certfile ca.pem";
    let web = openssl.export(&format!("{few_rounds} -passout pass:{PASSWORD}"));
    let three = read_keytool("three-keys.p12");
    let whole = identity(&web, PASSWORD, None).unwrap();
    for end in 0..web.len() {
        assert!(identity(&web[..end], PASSWORD, None).is_err(), "cut at {end}");
    }
    let mut random = fastrand::Rng::with_seed(5);
    let mut damage = |store: &[u8]| {
        let mut damaged = store.to_vec();
        for _ in 0..=random.usize(..3) {
            let at = random.usize(..damaged.len());
            // Not the last bytes, which hold the count of rounds: more rounds only take longer.
            if at + 8 < damaged.len() {
                damaged[at] = random.u8(..);
            }
        }
        damaged
    };
    let mut round = || {
        for _ in 0..500 {
            if let Ok(found) = identity(&damage(&web), PASSWORD, None) {
                assert_eq!(found, whole, "the checksum protects all else");
            }
            let _ = certificates(&damage(&web), "wrong");
        }
        for _ in 0..20 {
            let _ = identity(&damage(&three), PASSWORD, Some("ed"));
        }
    };
    round();
    let before = resident_kib();
    round();
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 1024, "{grown} KiB more after 1,000 stores");
    for bytes in [&b""[..], b"-----BEGIN CERTIFICATE-----", b"\x30", b"\x30\x80\x00\x00", &[0x30; 4096]] {
        assert_eq!(identity(bytes, "", None), Err(KeyStoreError::NotPkcs12));
    }
}

/// Resident memory of this process; 0 on other systems than Linux.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
