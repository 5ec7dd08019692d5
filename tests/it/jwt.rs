//! `jwt:CLAIM`: only tokens signed by the configured keys are accepted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::tokens::{Algorithm, EncodingKey, Header, Signer, jwks, now};
use crate::support::upstream::{Upstream, response};

/// One request per hour (nearly) for each `sub`; without a valid token, 401.
fn yaml(jwt: &str) -> String {
    format!(
        "jwt: {jwt}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{{name: RequestRateLimiter, args: \
         {{replenish-rate: 1, burst-capacity: 3600, requested-tokens: 3600, key-resolver: 'jwt:sub', empty-key-status: 401}}}}]}}]"
    )
}

fn status(gateway: &Gateway, token: &str) -> u16 {
    gateway.connect().request("GET", "/", &[("Authorization", &format!("Bearer {token}"))], b"").status
}

fn sub(name: &str) -> Value {
    json!({ "sub": name })
}

/// Creates a folder with a key set.
fn folder(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn of_file(path: &Path, more: &str) -> Gateway {
    Gateway::start(&yaml(&format!("{{jwks: '{}'{more}}}", path.display())))
}

/// Starts a server with a replaceable key set; without one it answers 503.
fn key_server(text: Option<String>) -> (Upstream, Arc<Mutex<Option<String>>>) {
    let shown = Arc::new(Mutex::new(text));
    let served = Arc::clone(&shown);
    let upstream = Upstream::start(move |_| match &*served.lock().unwrap() {
        Some(text) => response(200, &[("Content-Type", "application/json")], text.as_bytes()),
        None => response(503, &[], b""),
    });
    (upstream, shown)
}

#[test]
fn a_required_token_passes_whatever_its_claims() {
    let (rsa, other) = (Signer::rs256("r"), Signer::rs256("r"));
    let (_folder, path) = folder(&jwks(&[&rsa]));
    let gateway = |filters: &str| {
        Gateway::start(&format!(
            "jwt: {{jwks: '{}'}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{filters}]}}]",
            path.display()
        ))
    };
    let open = gateway("RequireToken");
    for claims in [json!({}), json!({"name": "ada"}), sub("ada"), json!({"sub": ""})] {
        assert_eq!(status(&open, &rsa.token(&claims)), 200, "{claims}");
    }
    assert_eq!(status(&open, &rsa.token(&json!({"exp": now() - 3600}))), 401);
    assert_eq!(status(&open, &other.token(&sub("ada"))), 401);
    let without = open.get("/");
    assert_eq!((without.status, without.header("www-authenticate")), (401, Some("Bearer")));
    let token = format!("Bearer {}", rsa.token(&json!({})));
    let both = [("Authorization", token.as_str()), ("Authorization", "Bearer a.b.c")];
    assert_eq!(open.connect().request("GET", "/", &both, b"").status, 401, "a repeated field");

    let tenants = gateway("'RequireToken=403,tenant'");
    assert_eq!(status(&tenants, &rsa.token(&json!({"tenant": "a"}))), 200);
    assert_eq!(status(&tenants, &rsa.token(&sub("ada"))), 403);

    // Cached responses are for valid tokens only.
    let cached = gateway("LocalResponseCache, RequireToken");
    assert_eq!(status(&cached, &rsa.token(&json!({}))), 200);
    assert_eq!(cached.get("/").status, 401);
}

#[test]
fn a_claim_of_a_verified_token_is_a_key() {
    let (rsa, ec) = (Signer::rs256("r"), Signer::es256("e"));
    let (_folder, path) = folder(&jwks(&[&rsa, &ec]));
    let gateway = of_file(&path, "");
    assert_eq!(status(&gateway, &rsa.token(&sub("ada"))), 200);
    assert_eq!(status(&gateway, &rsa.token(&sub("ada"))), 429);
    assert_eq!(status(&gateway, &ec.token(&json!({"sub": "ada", "iat": 1}))), 429, "the same user by another key");
    assert_eq!(status(&gateway, &ec.token(&sub("eve"))), 200);
    assert_eq!(status(&gateway, &ec.token(&json!({"name": "eve"}))), 401, "without the claim");
    assert_eq!(gateway.get("/").status, 401, "without a token");
}

#[test]
fn forged_expired_and_wrong_audience_tokens_have_no_key() {
    let (good, evil) = (Signer::rs256("r"), Signer::rs256("r"));
    let (_folder, path) = folder(&jwks(&[&good]));
    let gateway =
        of_file(&path, ", algorithms: [RS256, HS256], issuer: 'https://id', audience: [shop, till], leeway: 0s");
    let claims = |changes: Value| {
        let mut claims = json!({"sub": "ada", "iss": "https://id", "aud": ["x", "till"]});
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        claims
    };
    for changes in [
        json!({"exp": now() - 1}),
        json!({"exp": "never"}),
        json!({"nbf": now() + 300}),
        json!({"iss": "https://id.evil"}),
        json!({"iss": null}),
        json!({"aud": "x"}),
        json!({"aud": null}),
    ] {
        assert_eq!(status(&gateway, &good.token(&claims(changes.clone()))), 401, "{changes}");
    }
    let token = good.token(&claims(json!({})));
    assert_eq!(status(&gateway, &evil.token(&claims(json!({})))), 401, "another key by the same name");
    let [header, payload, signature]: [&str; 3] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
    let other = good.token(&claims(json!({"sub": "eve"})));
    let others = other.split('.').nth(1).unwrap();
    assert_eq!(status(&gateway, &format!("{header}.{others}.{signature}")), 401, "another's claims");
    // {"alg":"none"} and {"alg":"none","kid":"r"}
    for none in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJub25lIiwia2lkIjoiciJ9"] {
        assert_eq!(status(&gateway, &format!("{none}.{payload}.")), 401);
        assert_eq!(status(&gateway, &format!("{none}.{payload}.{signature}")), 401);
    }
    // The public key is no secret, even though HS256 is accepted.
    for secret in [good.jwk()["n"].as_str().unwrap().to_owned(), good.jwk().to_string(), jwks(&[&good])] {
        for kid in [Some("r".to_owned()), None] {
            let header = Header { kid, ..Header::new(Algorithm::HS256) };
            let claims = claims(json!({"exp": now() + 60}));
            let forged = jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap();
            assert_eq!(status(&gateway, &forged), 401, "{header:?}");
        }
    }
    assert_eq!(status(&gateway, &token), 200);
    assert_eq!(status(&gateway, &token), 429);
}

#[test]
fn a_token_is_read_from_another_header_or_a_cookie() {
    let signer = Signer::es256("e");
    let (_folder, path) = folder(&jwks(&[&signer]));
    let token = signer.token(&sub("ada"));
    for (setting, name, value) in
        [("header: X-Token", "X-Token", token.clone()), ("cookie: session", "Cookie", format!("a=b; session={token}"))]
    {
        let gateway = of_file(&path, &format!(", {setting}"));
        assert_eq!(gateway.connect().request("GET", "/", &[(name, &value)], b"").status, 200, "{setting}");
        assert_eq!(status(&gateway, &token), 401, "{setting}: not as a bearer token");
    }
}

#[test]
fn a_reload_replaces_the_keys_of_a_file_unless_it_is_invalid() {
    let (old, new) = (Signer::es256("old"), Signer::es256("new"));
    let (_folder, path) = folder(&jwks(&[&old]));
    let text = yaml(&format!("{{jwks: '{}', refresh: 1h}}", path.display()));
    let gateway = Gateway::start(&text);
    assert_eq!(status(&gateway, &old.token(&sub("a"))), 200);
    std::fs::write(&path, "{").unwrap();
    gateway.reload(&text);
    assert!(gateway.logged("not reloaded").contains("not reloaded"));
    gateway.logged("keys.json: not valid JSON: EOF while parsing an object at line 1 column 1");
    assert_eq!(status(&gateway, &old.token(&sub("b"))), 200);
    std::fs::write(&path, jwks(&[&new])).unwrap();
    gateway.reload(&text);
    eventually("the worker has the new keys", || status(&gateway, &new.token(&sub("c"))) != 401);
    assert_eq!(status(&gateway, &old.token(&sub("d"))), 401);
    assert_eq!(status(&gateway, &new.token(&sub("a"))), 429, "spent tokens stay spent");
}

#[test]
fn the_keys_of_a_file_are_refreshed_periodically() {
    let (old, new) = (Signer::es256("a"), Signer::es256("a"));
    let (_folder, path) = folder(&jwks(&[&old]));
    let gateway = of_file(&path, ", refresh: 20ms");
    assert_eq!(status(&gateway, &old.token(&sub("a"))), 200);
    std::fs::write(&path, "[]").unwrap();
    gateway.logged("jwks refresh failed, current keys stay in use");
    assert_eq!(status(&gateway, &old.token(&sub("b"))), 200);
    // The read of a pipe without a writer ends, and so does that of a device without an end.
    std::fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    gateway.logged("it is an empty pipe to which no process writes");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    gateway.logged("it has more than 1 MiB");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, jwks(&[&new])).unwrap();
    gateway.logged("jwks refreshed jwks=");
    assert_eq!(status(&gateway, &old.token(&sub("c"))), 401, "a remembered key is forgotten");
    assert_eq!(status(&gateway, &new.token(&sub("d"))), 200);
}

#[test]
fn the_keys_of_a_server_serve_the_first_request_and_an_unknown_key_refreshes_once() {
    let (old, new) = (Signer::es256("old"), Signer::es256("new"));
    let (server, shown) = key_server(Some(jwks(&[&old])));
    let text = yaml(&format!("{{jwks: '{}/keys?a=secret'}}", server.uri()));
    let gateway = Gateway::start(&text);
    assert_eq!(status(&gateway, &old.token(&sub("a"))), 200);
    assert_eq!(server.targets(), ["/keys?a=secret"]);
    *shown.lock().unwrap() = Some(jwks(&[&old, &new]));
    assert_eq!(status(&gateway, &new.token(&sub("b"))), 401, "the first one decides");
    eventually("the new key is in use", || status(&gateway, &new.token(&sub("b"))) != 401);
    let unknown = Signer::es256("made up");
    for _ in 0..50 {
        assert_eq!(status(&gateway, &unknown.token(&sub("c"))), 401);
    }
    assert_eq!(server.requests().len(), 2, "not again for half a minute");
    assert!(!gateway.log().contains("secret"), "{}", gateway.log());
    // A reload keeps the keys while it fetches them again, from a server that is gone.
    *shown.lock().unwrap() = None;
    gateway.reload(&text);
    gateway.logged("the response status is 503 Service Unavailable");
    assert_eq!(status(&gateway, &old.token(&sub("d"))), 200);
}

#[test]
fn a_gateway_starts_without_keys_and_uses_them_once_fetched() {
    let signer = Signer::es256("e");
    let (server, shown) = key_server(None);
    let gateway = Gateway::start(&yaml(&format!("{{jwks: '{}/'}}", server.uri())));
    gateway.logged("jwks refresh failed");
    assert_eq!(status(&gateway, &signer.token(&sub("a"))), 401);
    eventually("it is ready nevertheless", || gateway.admin("/health/ready").status == 200);
    *shown.lock().unwrap() = Some(jwks(&[&signer]));
    eventually("the keys exist", || status(&gateway, &signer.token(&sub("a"))) != 401);
}

#[test]
fn a_key_server_that_hangs_delays_no_request() {
    let signer = Signer::es256("e");
    let hanging = Upstream::scripted(|_, _| std::thread::sleep(Duration::from_secs(60)));
    let start = Instant::now();
    let gateway = Gateway::start(&yaml(&format!("{{jwks: '{}/'}}", hanging.uri())));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(status(&gateway, &signer.token(&sub("a"))), 401);

    let endless = Upstream::start(|_| response(200, &[], &vec![b' '; (1 << 20) + 1]));
    let gateway = Gateway::start(&yaml(&format!("{{jwks: '{}/'}}", endless.uri())));
    gateway.logged("the response body has more than 1048576 bytes");
}
