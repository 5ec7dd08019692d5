//! The walkthrough of the migration from Spring, with a stand-in for Consul.

use std::process::{Command, Stdio};
use std::time::Instant;

use tollgate_test_support::registry::ConsulServer;

use super::file;
use crate::support::PATIENCE;
use crate::support::gateway::{Gateway, TOLLGATE};

const PAGE: &str = "docs/how-to/migrate-from-spring.md";

/// Returns the blocks of the page in the list of steps, each with the line above its fence.
fn blocks() -> Vec<(String, String)> {
    let page = file(PAGE);
    let (mut found, mut above) = (Vec::new(), "");
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("```") {
            let indent = line.len() - line.trim_start().len();
            let body = lines.by_ref().take_while(|line| line.trim() != "```");
            let body: String = body.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect();
            found.push((above.trim().to_owned(), body));
        }
        above = line;
    }
    found
}

/// Starts what the page starts in a shell.
fn start(folder: &tempfile::TempDir, arguments: &[&str], environment: &[(&str, &str)]) -> Gateway {
    let mut command = Command::new(TOLLGATE);
    command.current_dir(folder.path()).env("SERVER_PORT", "0").env("MANAGEMENT_SERVER_PORT", "0");
    command.args(arguments.iter().flat_map(|file| ["--config", file])).envs(environment.iter().copied());
    Gateway::from_command(command)
}

/// Replaces the ports that the page shows by those of the servers.
fn with_ports(line: &str, ports: &[(&str, String)]) -> String {
    let number = |text: &str| match ports.iter().find(|(shown, _)| *shown == text) {
        Some((_, port)) => port.clone(),
        None => text.to_owned(),
    };
    let (mut out, mut digits) = (String::new(), String::new());
    for letter in line.chars() {
        if letter.is_ascii_digit() {
            digits.push(letter);
        } else {
            out.push_str(&number(&std::mem::take(&mut digits)));
            out.push(letter);
        }
    }
    out + &number(&digits)
}

#[test]
fn the_walkthrough_answers_as_shown() {
    let (folder, blocks) = (tempfile::tempdir().unwrap(), blocks());
    for (above, body) in &blocks {
        if let Some(name) = above.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->")) {
            std::fs::write(folder.path().join(name), body).unwrap();
        }
    }
    let consul = ConsulServer::start();
    let service = |name: &str| start(&folder, &["service.yaml"], &[("SERVICE", name)]);
    let services = ["orders-1", "accounts-1", "accounts-2"].map(service);
    let mut ports: Vec<(&str, String)> = vec![("8500", consul.address.port().to_string())];
    for (shown, service) in ["8081", "8082", "8083"].into_iter().zip(&services) {
        ports.push((shown, service.address.port().to_string()));
    }
    let consul_port = consul.address.port().to_string();
    let (mut gateway, mut steps) = (None, 0);
    for (_, body) in blocks.iter().filter(|(above, _)| above == "<!-- replayed -->") {
        for step in body.split("$ ").skip(1) {
            let (line, expected) = step.split_once('\n').unwrap();
            if line.contains("localhost:8080") && gateway.is_none() {
                let files = ["application.yml", "overlay.yaml"];
                let started = start(&folder, &files, &[("SPRING_CLOUD_CONSUL_PORT", &consul_port)]);
                ports.push(("8080", started.address.port().to_string()));
                gateway = Some(started);
            }
            let here = with_ports(line, &ports).replace("tollgate ", &format!("{TOLLGATE} "));
            let here = here.replace("localhost", "127.0.0.1");
            // Changes of the registry arrive soon after.
            let (begun, is_repeatable) = (Instant::now(), line.contains("/api/accounts"));
            loop {
                let mut shell = Command::new("bash");
                let output = shell.args(["-c", &here]).current_dir(folder.path()).stdin(Stdio::null()).output();
                let printed = String::from_utf8(output.unwrap().stdout).unwrap().replace('\r', "");
                if printed == expected {
                    break;
                }
                let may_repeat = is_repeatable && begun.elapsed() < PATIENCE;
                assert!(may_repeat, "{line}\n{printed}instead of\n{expected}");
            }
            steps += 1;
        }
    }
    assert!(steps >= 15 && gateway.is_some(), "{steps} commands");
    let shells: String = blocks.iter().map(|(_, body)| body.as_str()).collect();
    for shown in ["SERVICE=accounts-2 SERVER_PORT=8083", "tollgate --config application.yml --config overlay.yaml &"] {
        assert!(shells.contains(shown), "{shown}");
    }
}
