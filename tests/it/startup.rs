//! Failing starts, and `tollgate check`, as seen on a terminal.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::support::free_address;
use crate::support::gateway::{Gateway, TOLLGATE, command};
use crate::support::redis::Redis;

/// Returns exit code and standard error of a command that ends; standard output must be empty.
fn run(arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
    let output = command()
        .args(arguments)
        .env_remove("TOLLGATE_CONFIG")
        .envs(environment.iter().copied())
        .current_dir(std::env::temp_dir())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Returns the output of a start on `yaml`, with the path of the file replaced by FILE.
fn start(yaml: &str, environment: &[(&str, &str)]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), yaml);
    let (code, text) = run(&["--config", &path], environment);
    (code, text.replace(&path, "FILE"))
}

fn write(folder: &Path, yaml: &str) -> String {
    let path = folder.join("tollgate.yaml");
    std::fs::write(&path, yaml).unwrap();
    path.to_str().unwrap().to_owned()
}

const GOOD: &str = "server: {address: 127.0.0.1}\nroutes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";

#[test]
fn a_port_in_use_is_reported_with_its_setting() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (variable, setting) in [("SERVER_PORT", "server.port"), ("MANAGEMENT_SERVER_PORT", "management.server.port")] {
        let (code, text) = start(GOOD, &[(variable, &port)]);
        assert_eq!(code, 1, "{text}");
        let expected = format!("tollgate: cannot listen on 127.0.0.1:{port} (`{setting}`): Address already in use");
        assert!(text.lines().last().unwrap().starts_with(&expected), "{text}");
        assert!(text.contains(&format!("set `{setting}` (or {variable}) to another port")), "{text}");
    }
}

#[test]
fn a_management_port_in_use_has_a_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let named = GOOD.replace("routes:", &format!("management.server: {{address: 127.0.0.1, port: {port}}}\nroutes:"));
    // An empty variable leaves the port of the file.
    let (code, text) = start(&named, &[("MANAGEMENT_SERVER_PORT", "")]);
    let remedy = "; set `management.server.port` (or MANAGEMENT_SERVER_PORT) to another port, to 0 for a free one, or to -1 for none";
    let expected = format!(
        "tollgate: cannot listen on 127.0.0.1:{port} (`management.server.port`): Address already in use (os error 98){remedy}"
    );
    assert_eq!((code, text.lines().last()), (1, Some(&*expected)), "{text}");
    let (_, text) = start(GOOD, &[("MANAGEMENT_SERVER_PORT", &port)]);
    assert!(text.contains("set `management.server.port`") && text.contains("0 for a free one"), "{text}");
    let (_, text) = start(GOOD, &[("SERVER_PORT", &port)]);
    assert!(!text.contains("management.server.port"), "{text}");
}

#[test]
fn a_second_gateway_cannot_share_the_port_of_the_first() {
    let gateway = Gateway::start(&GOOD.replace("127.0.0.1}", "127.0.0.1, workers: 2}"));
    let port = gateway.address.port().to_string();
    let (code, text) = start(&GOOD.replace("127.0.0.1}", "127.0.0.1, workers: 2}"), &[("SERVER_PORT", &port)]);
    assert_eq!(code, 1);
    assert!(text.contains("Address already in use"), "{text}");
}

#[test]
fn an_address_of_another_machine_is_reported() {
    let (code, text) = start(&GOOD.replace("127.0.0.1", "192.0.2.1"), &[]);
    assert_eq!(code, 1);
    assert!(text.contains("cannot listen on 192.0.2.1:0 (`server."), "{text}");
}

#[test]
fn an_unreadable_file_exits_with_2() {
    let (code, text) = run(&["--config", "/does/not/exist.yaml"], &[]);
    assert_eq!(
        (code, text.as_str()),
        (2, "tollgate: cannot read /does/not/exist.yaml: No such file or directory (os error 2)\n")
    );
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = run(&["-c", folder.path().to_str().unwrap()], &[]);
    assert_eq!(code, 2);
    assert!(text.contains("cannot read") && text.contains("Is a directory"), "{text}");
    let binary = folder.path().join("binary.yaml");
    std::fs::write(&binary, b"routes: \xff\xfe").unwrap();
    let (code, text) = run(&["-c", binary.to_str().unwrap()], &[]);
    assert!(code == 1 || code == 2, "{code} {text}");
    assert!(text.contains("binary.yaml"), "{text}");
}

#[test]
fn without_a_file_the_error_explains_the_options() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(TOLLGATE).current_dir(folder.path()).env_remove("TOLLGATE_CONFIG").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("--config FILE") && text.contains("tollgate demo"), "{text}");
}

#[test]
fn invalid_arguments_exit_with_2() {
    let (code, text) = run(&["--bogus"], &[]);
    assert_eq!(code, 2);
    assert!(text.contains("unexpected argument '--bogus'") && text.contains("Usage:"), "{text}");
    assert_eq!(run(&["check"], &[]).0, 2);
}

#[test]
fn configuration_errors_have_file_line_and_column() {
    for (yaml, expected) in [
        (
            "routes:\n  - {id: a, uri: 'echo:', predicates: ['Header=x,(']}\n",
            "FILE:2:50: error: invalid regular expression `(`",
        ),
        (
            "routes:\n  - id: a\n    uri: 'echo:'\n    predicates: [Path=/**]\n    filters:\n      - name: \
             RequestRateLimiter\n        args:\n          replenish-rate: 0\n",
            "FILE:8:27: error: `replenish-rate` must be at least 1, got 0",
        ),
        ("routes: []\nredis: {url: '${TOLLGATE_TEST_UNSET}'}\n", "TOLLGATE_TEST_UNSET"),
        ("routes: []\nservre: {port: 1}\n", "FILE:2:1: error: "),
        ("routes: [\n", "FILE:"),
    ] {
        let (code, text) = start(yaml, &[]);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn all_configuration_errors_are_reported_together() {
    let (code, text) = start(
        "routes:\n  - {id: a, uri: nowhere, predicates: [Path=/**]}\n  - {id: a, uri: 'echo:', predicates: [Pth=/**]}\n",
        &[],
    );
    assert_eq!(code, 1);
    assert!(text.contains("`nowhere` has no scheme") && text.contains("Pth"), "{text}");
}

#[test]
fn an_access_log_that_cannot_be_opened_is_reported() {
    let (code, text) = start(&format!("{GOOD}access-log: {{output: /does/not/exist/access.log}}\n"), &[]);
    assert_eq!(code, 1);
    let line = text.lines().last().unwrap();
    assert!(
        line.starts_with("tollgate: cannot open the access log /does/not/exist/access.log (`access-log.output`):"),
        "{text}"
    );
}

#[test]
fn check_reports_the_same_errors_without_starting() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), GOOD);
    let output = Command::new(TOLLGATE).args(["check", "--offline", &path]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{path}: ok, 1 route\n"));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    write(folder.path(), "routes: [{id: a, uri: nowhere, predicates: [Path=/**]}]\n");
    let (code, text) = run(&["check", "--offline", &path], &[]);
    assert_eq!(code, 1);
    assert!(text.starts_with(&format!("{path}:1:23: error: `nowhere` has no scheme")), "{text}");
    assert_eq!(run(&["check", "/does/not/exist.yaml"], &[]).0, 2);
}

#[test]
fn an_unreachable_redis_does_not_prevent_the_start() {
    let gateway = Gateway::start(&format!("redis: {{url: 'redis://{}'}}\n{GOOD}", free_address()));
    let line = gateway.logged("cannot connect to redis");
    assert!(line.contains("retrying"), "{line}");
    assert_eq!(gateway.get("/a").status, 200);
}

#[test]
fn no_secret_is_printed() {
    let redis = Redis::start_with(&["--requirepass", "other"]);
    let address = redis.address;
    for url in ["redis://user:s3cret@host:port/", "rediss://:s3cret@localhost/x", "http://:s3cret@localhost"] {
        let (code, text) = start(&format!("{GOOD}redis: {{url: '${{REDIS_URL}}'}}\n"), &[("REDIS_URL", url)]);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("redis") && !text.contains("s3cret"), "{text}");
    }
    let url = format!("redis://:s3cret@{address}");
    let yaml = format!("redis: {{url: '${{REDIS_URL}}'}}\nlog: {{level: trace}}\n{GOOD}");
    let gateway = Gateway::start_with(&yaml, &[("REDIS_URL", &url)]);
    gateway.logged("cannot connect to redis");
    gateway.reload(&yaml);
    assert!(!gateway.log().contains("s3cret"), "{}", gateway.log());
}

#[test]
fn the_version_names_commit_and_features() {
    let (code, out, _) = crate::support::gateway::run(&["--version"]);
    let parts = [concat!("tollgate ", env!("CARGO_PKG_VERSION"), " (commit "), "features jwt,redis-tls)"];
    assert!(code == Some(0) && parts.iter().all(|part| out.contains(part)), "{out}");
}

#[test]
fn each_command_has_a_manual_page_and_completions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(run(&["generate", path], &[]), (0, String::new()));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let help = crate::support::gateway::run(&["--help"]).1;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"check") && !commands.contains(&"generate"), "{commands:?}");
    for command in commands.iter().filter(|command| **command != "help") {
        assert!(read(&format!("tollgate-{command}.1")).contains(".TH"), "{command}");
        for completions in ["tollgate.bash", "tollgate.fish", "_tollgate"] {
            assert!(read(completions).contains(command), "{completions}: {command}");
        }
    }
    let (code, err) = run(&["generate", &format!("{path}/none")], &[]);
    assert!(code == 2 && err.contains("cannot write to") && err.contains("No such file"), "{err}");
}
