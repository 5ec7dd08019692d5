//! The files in config/ and tests/data/, through the real commands.

use std::path::PathBuf;

use super::{blocks, file, root, texts, tollgate, yaml_files};
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;
use crate::support::upstream::Upstream;

#[test]
fn every_whole_yaml_in_the_guides_passes_check_without_diagnostics() {
    let folder = tempfile::tempdir().unwrap();
    let guides = std::fs::read_dir(root().join("docs/how-to")).unwrap();
    let guides = guides.map(|entry| format!("docs/how-to/{}", entry.unwrap().file_name().to_str().unwrap()));
    let pages = guides.chain(["README.md".to_owned(), "docs/tutorial.md".to_owned()]);
    let found: Vec<_> = pages.flat_map(|page| blocks(&file(&page), "yaml")).collect();
    let is_usable = |yaml: &str| cfg!(feature = "jwt") || !yaml.contains("jwt:");
    let whole = found.iter().filter(|(_, yaml)| yaml.contains("\nroutes:") || yaml.starts_with("routes:"));
    let whole: Vec<_> = whole.filter(|(_, yaml)| is_usable(yaml)).collect();
    assert!(whole.len() >= 12, "{}", whole.len());
    std::fs::write(folder.path().join("keys.yaml"), "[]").unwrap();
    for (number, (_, yaml)) in whole.iter().enumerate() {
        let name = format!("block-{number}.yaml");
        std::fs::write(folder.path().join(&name), yaml).unwrap();
        let (code, out, err) = tollgate(&["check", "--offline", &name], folder.path());
        assert_eq!((code, err.as_str()), (0, ""), "{yaml}");
        assert!(out.starts_with(&format!("{name}: ok")), "{out}");
    }
}

/// Returns the files in config/ that this build supports.
fn usable_files() -> impl Iterator<Item = PathBuf> {
    yaml_files("config").into_iter().filter(|path| cfg!(feature = "redis-tls") || !path.ends_with("redis-tls.yaml"))
}

#[test]
fn every_file_in_config_passes_check_without_errors_and_warnings() {
    for path in usable_files() {
        let (code, out, err) = tollgate(&["check", "--offline", path.to_str().unwrap()], root());
        assert_eq!(code, 0, "{err}");
        assert!(out.contains(": ok, "), "{out}");
        let is_application = path.ends_with("spring.yaml");
        assert!(err.is_empty() || is_application, "{err}");
        assert!(!err.contains("error: ") && !err.contains("warning: "), "{err}");
    }
}

#[test]
fn every_invalid_file_fails_check_with_its_message_and_code_1() {
    for path in yaml_files("tests/data") {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let (code, out, err) = tollgate(&["check", "--offline", name], path.parent().unwrap());
        if name.starts_with("jwt-") && !cfg!(feature = "jwt") {
            continue;
        }
        let only_warns = name.starts_with("warn-");
        assert_eq!(code, i32::from(!only_warns), "{name}: {err}");
        assert_eq!(out.is_empty(), !only_warns, "{name}: {out}");
        for expected in text.lines().map_while(|line| line.strip_prefix("# expect: ")) {
            assert!(err.contains(expected), "{name}: no `{expected}` in\n{err}");
        }
    }
}

#[test]
fn every_file_in_config_starts_and_serves() {
    let redis = Redis::start();
    for path in usable_files() {
        let upstream = Upstream::ok("served");
        let mut yaml = std::fs::read_to_string(&path).unwrap();
        for port in 9000..=9003 {
            yaml = yaml.replace(&format!("http://127.0.0.1:{port}"), &upstream.uri());
        }
        yaml = yaml.replace("redis://127.0.0.1:6379", &redis.url());
        let (host, port) = (redis.address.ip().to_string(), redis.address.port().to_string());
        let gateway = Gateway::start_with(&yaml, &[("REDIS_HOST", &host), ("REDIS_PORT", &port)]);
        let name = path.file_stem().unwrap().to_str().unwrap();
        let target = match name {
            "minimal" => "/",
            "per-api-key" => "/api/things",
            "tollgate" => "/demo/hello",
            _ => "/orders/1",
        };
        let keys = [("X-Api-Key", "alice"), ("X-User", "alice")];
        let response = gateway.connect().request("GET", target, &keys, b"");
        assert_eq!(response.status, 200, "{name}: {}", response.text());
        let limited = response.header("x-ratelimit-burst-capacity").is_some();
        assert_eq!(limited, name != "minimal", "{name}");
    }
}

#[test]
fn compose_uses_paths_of_the_image() {
    let mut compose: serde_yaml::Value = serde_yaml::from_str(&file("compose.yaml")).unwrap();
    compose.apply_merge().unwrap();
    let dockerfile = file("Dockerfile");
    assert!(dockerfile.contains("COPY config /etc/tollgate") && dockerfile.contains("ENTRYPOINT [\"tollgate\"]"));
    let mut ports = Vec::new();
    for name in ["gateway-1", "gateway-2"] {
        let service = &compose["services"][name];
        assert_eq!(service["build"], ".", "{name}");
        assert_eq!(service["environment"]["REDIS_URL"], "redis://redis:6379", "{name}");
        assert_eq!(service["command"][0], "--config", "{name}");
        let config = service["command"][1].as_str().unwrap().strip_prefix("/etc/tollgate/").unwrap();
        assert!(file(&format!("config/{config}")).contains("${REDIS_URL:"), "{config}");
        ports.push(service["ports"][0].as_str().unwrap().to_owned());
    }
    assert_eq!(ports, ["8081:8080", "8082:8080"]);
    assert!(compose["services"]["redis"]["image"].as_str().unwrap().starts_with("redis:"));
}

#[test]
fn without_a_file_the_command_explains_the_options() {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, err) = tollgate(&[], folder.path());
    assert_eq!((code, out.as_str()), (2, ""));
    for hint in ["config/tollgate.yaml", "--config FILE", "TOLLGATE_CONFIG", "tollgate demo"] {
        assert!(err.contains(hint), "{err}");
    }
    let (code, _, err) = tollgate(&["--config", "none.yaml"], folder.path());
    assert_eq!(code, 2);
    assert!(err.contains("cannot read none.yaml"), "{err}");
}

#[test]
fn an_invalid_file_or_a_port_in_use_exits_with_1_and_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("broken.yaml"), "server: {prot: 80}\n").unwrap();
    let (code, _, err) = tollgate(&["--config", "broken.yaml"], folder.path());
    assert_eq!(code, 1);
    assert!(err.contains("broken.yaml:1:10: error: unknown key `prot`"), "{err}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let output = std::process::Command::new(crate::support::gateway::TOLLGATE)
        .arg("demo")
        .env("SERVER_PORT", taken.local_addr().unwrap().port().to_string())
        .output()
        .unwrap();
    let (code, _, err) = texts(&output);
    assert_eq!(code, 1);
    assert!(err.contains("cannot listen on") && err.contains("`server.port`"), "{err}");
}

#[test]
fn health_queries_the_admin_port() {
    let gateway = Gateway::start("routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]");
    crate::support::eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let (code, ..) = tollgate(&["health", &gateway.admin.to_string()], root());
    assert_eq!(code, 0);
    let (code, _, err) = tollgate(&["health", &crate::support::free_address().to_string()], root());
    assert_eq!(code, 1);
    assert!(err.contains("no response"), "{err}");
}
