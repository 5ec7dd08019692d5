//! The dashboard in Chromium, driven by Playwright. `tests/run` installs both, or leaves these tests out and says so.

mod events;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::eventually;
use crate::support::gateway::Gateway;

const ROUTES: &str = "
routes:
  - id: orders
    uri: 'echo:'
    predicates: [Path=/orders]
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-key'
          limits:
            - {name: hourly, algorithm: fixed-window, limit: 2, window: 1h}
            - {name: daily, algorithm: fixed-window, limit: 1000000, window: 24h}
";

/// Runs a scenario of this folder against a gateway.
fn run(scenario: &str, gateway: &Gateway, environment: &[(&str, &str)]) {
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| folder.join("target"), PathBuf::from);
    let modules = target.join("dashboard");
    assert!(modules.join("node_modules").is_dir(), "playwright-core is missing: tests/run installs it");
    let output = Command::new("node")
        .arg(folder.join("tests/it/dashboard").join(scenario))
        .env("GATEWAY", gateway.address.to_string())
        .env("ADMIN", format!("127.0.0.1:{}", gateway.admin.port()))
        .env("CONFIG", gateway.config())
        .env("DASHBOARD_MODULES", modules)
        .env("CHROMIUM", chromium())
        .envs(environment.iter().copied())
        .output()
        .expect("node is missing: tests/run installs it");
    let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{printed}");
}

/// Returns the path of Chromium.
fn chromium() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser"];
    let mut found = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    found.find(|file| file.is_file()).expect("chromium is missing: tests/run installs it")
}

#[test]
fn a_hammered_key_appears_at_once_and_a_grant_lets_it_pass() {
    run("limited.mjs", &Gateway::start(ROUTES), &[]);
}
