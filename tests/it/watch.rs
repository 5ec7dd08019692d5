//! `config.watch`: changed files are live without a signal.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_test_support::Certificates;

use crate::support::eventually;
use crate::support::gateway::{Gateway, command};
use crate::support::load::{Load, statuses};
use crate::tls;

/// Bound of the time between a change of a file and its effect.
const LIVE: Duration = Duration::from_secs(2);
/// Longer than the watch takes for a change.
const SEEN: Duration = Duration::from_millis(1500);

const HEAD: &str = "server: {address: 127.0.0.1, workers: 2}\naccess-log: {output: off}\n";

/// Returns a configuration with the routes `/a` and `/ID`.
fn text(id: &str) -> String {
    format!(
        "{HEAD}routes:\n- {{id: a, uri: 'echo:', predicates: [Path=/a]}}\n- {{id: id, uri: 'echo:', predicates: [Path=/{id}]}}\n"
    )
}

/// Starts a gateway that watches its files.
fn start(arguments: &[&Path]) -> Gateway {
    let mut command = command();
    for file in arguments {
        command.arg("--config").arg(file);
    }
    Gateway::from_command(command)
}

fn is_live(gateway: &Gateway, id: &str) -> bool {
    gateway.get(&format!("/{id}")).status == 200
}

/// Returns the numbers of reloads that were applied and refused.
fn reloads(gateway: &Gateway) -> (f64, f64) {
    (gateway.metric("tollgate_reloads_total", &[]), gateway.metric("tollgate_failed_reloads_total", &[]))
}

/// Replaces the file at `path` in one step.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

/// `TOLLGATE_SWAPS=100` makes so many.
#[test]
fn swaps_of_a_config_map_under_load_are_live_within_two_seconds_and_lose_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // As the kubelet writes a volume: a folder per version, and a link to it that is replaced in one step.
    let publish = |version: usize, text: &str| {
        let name = format!("..version{version}");
        fs::create_dir(at(&name)).unwrap();
        fs::write(at(&name).join("tollgate.yaml"), text).unwrap();
        symlink(&name, at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        let _ = version.checked_sub(1).map(|before| fs::remove_dir_all(at(&format!("..version{before}"))));
    };
    publish(0, &text("v0"));
    symlink("..data/tollgate.yaml", at("tollgate.yaml")).unwrap();
    let gateway = start(&[&at("tollgate.yaml")]);
    let load = Load::paced(&[gateway.address], 4, &["/a"], Duration::from_millis(1));
    let (mut failed, mut took) = (0, Vec::new());
    let swaps = std::env::var("TOLLGATE_SWAPS").map_or(8, |number| number.parse().unwrap());
    for version in 1..=swaps {
        if version % 4 == 0 {
            failed += 1;
            publish(version, "routes: [{id: a, uri: nowhere}]\n");
            eventually("the broken file is refused", || reloads(&gateway).1 >= f64::from(failed));
            assert!(is_live(&gateway, &format!("v{}", version - 1)), "a broken file changes nothing");
            continue;
        }
        publish(version, &text(&format!("v{version}")));
        let published = Instant::now();
        eventually("the new version is live", || is_live(&gateway, &format!("v{version}")));
        took.push(published.elapsed());
    }
    load.more(100);
    let exchanges = load.stop();
    assert_eq!(statuses(&exchanges), [(200, exchanges.len())]);
    let longest = took.iter().max().unwrap();
    println!("{} requests over {swaps} swaps, each live after {longest:?} at most", exchanges.len());
    assert!(*longest < LIVE, "{took:?}");
    let broken = swaps / 4;
    assert_eq!(reloads(&gateway), ((swaps - broken) as f64, broken as f64));
}

#[test]
fn a_broken_file_is_reported_once_per_content_and_a_touch_is_no_reload() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.yaml");
    fs::write(&path, text("one")).unwrap();
    let gateway = start(&[&path]);
    let touch = || assert!(Command::new("touch").arg(&path).status().unwrap().success());
    touch();
    replace(&path, &text("one"));
    sleep(SEEN);
    assert_eq!(reloads(&gateway), (0.0, 0.0), "the same contents are no reload");

    fs::write(&path, "routes: [{id: a, uri: nowhere}]\n").unwrap();
    gateway.logged("configuration not reloaded");
    touch();
    sleep(SEEN);
    assert_eq!(reloads(&gateway), (0.0, 1.0), "the same broken contents are refused once");
    assert_eq!(gateway.log().matches("configuration not reloaded").count(), 1);
    assert_ne!(gateway.admin("/api/config").json()["refused-reload"], Value::Null);
    assert!(is_live(&gateway, "one"));

    // Back to the running one: nothing is refused any more.
    fs::write(&path, text("one")).unwrap();
    eventually("no refused reload is shown", || gateway.admin("/api/config").json()["refused-reload"] == Value::Null);
    assert_eq!(reloads(&gateway), (1.0, 1.0));
}

#[test]
fn a_file_that_is_written_in_steps_or_away_for_a_moment_is_read_once_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.yaml");
    fs::write(&path, text("start")).unwrap();
    let gateway = start(&[&path]);
    let step = || sleep(Duration::from_millis(60));
    let truncated = |new: &str| {
        fs::write(&path, "").unwrap();
        step();
        fs::write(&path, new.split_at(90).0).unwrap();
        step();
        fs::write(&path, new).unwrap();
    };
    let moved = |new: &str| {
        fs::rename(&path, folder.path().join("backup")).unwrap();
        step();
        fs::write(&path, new).unwrap();
    };
    for (name, write) in [("truncated", &truncated as &dyn Fn(&str)), ("moved", &moved as &dyn Fn(&str))] {
        // On a loaded machine, the steps can take longer than the pause that the watch waits for: then again.
        let is_complete = (0..20).any(|attempt| {
            let (id, before, began) = (format!("{name}{attempt}"), reloads(&gateway), Instant::now());
            write(&text(&id));
            let is_quick = began.elapsed() < Duration::from_millis(200);
            eventually("the complete file is live", || is_live(&gateway, &id));
            is_quick && reloads(&gateway) == (before.0 + 1.0, before.1)
        });
        assert!(is_complete, "{name}: {}", gateway.log());
    }
}

#[test]
fn folders_that_are_replaced_and_files_that_appear_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("conf")).unwrap();
    let with_import = format!("spring.config.import: 'optional:file:{}'\n{}", at("more/x.yaml").display(), text("one"));
    fs::write(at("conf/tollgate.yaml"), &with_import).unwrap();
    let gateway = start(&[&at("conf/tollgate.yaml")]);
    // The folder is exchanged, and the new one is watched.
    fs::rename(at("conf"), at("former")).unwrap();
    fs::create_dir(at("conf")).unwrap();
    fs::write(at("conf/tollgate.yaml"), with_import.replace("/one", "/two")).unwrap();
    eventually("the file of the new folder is live", || is_live(&gateway, "two"));
    fs::write(at("conf/tollgate.yaml"), with_import.replace("/one", "/three")).unwrap();
    eventually("a change in the new folder is live", || is_live(&gateway, "three"));
    // An import that was missing.
    fs::create_dir(at("more")).unwrap();
    fs::write(at("more/x.yaml"), "routes: [{id: x, uri: 'echo:', predicates: [Path=/x]}]\n").unwrap();
    eventually("the import is live", || is_live(&gateway, "x"));
}

#[test]
fn renewed_certificates_and_tokens_are_live_without_a_signal() {
    let certificates = Certificates::new();
    let folder = tempfile::tempdir().unwrap();
    let (path, token) = (folder.path().join("tollgate.yaml"), folder.path().join("token"));
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let tokens = format!(
        "management: {{server: {{address: 0.0.0.0}}, tokens: [{{name: ops, role: read, token-file: {}}}]}}\n",
        token.display()
    );
    let echo = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";
    fs::write(&path, tls::yaml(&certificates, "", &format!("{tokens}{echo}"))).unwrap();
    let gateway = start(&[&path]);
    let status = |token: &str| {
        let authorization = format!("Bearer {token}");
        gateway.connect_admin().request("GET", "/api/config", &[("authorization", authorization.as_str())], b"").status
    };
    assert_eq!((status("0123456789abcdef"), status("fedcba9876543210")), (200, 401));
    replace(&token, "fedcba9876543210\n");
    eventually("the new token is valid", || status("fedcba9876543210") == 200);
    assert_eq!(status("0123456789abcdef"), 401);

    let served = || {
        let address = format!("localhost:{}", gateway.address.port());
        let output = Command::new("openssl").args(["s_client", "-connect", &address]).stdin(Stdio::null()).output();
        let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        text.split("-----BEGIN CERTIFICATE-----").nth(1).unwrap_or_default().to_owned()
    };
    let former = served();
    assert_ne!(former, "");
    // The certificate and its key are two files: between the two writes, they do not fit.
    certificates.sign_for_other_host();
    eventually("the new certificate is served", || !["", &former].contains(&served().as_str()));
}

#[test]
fn without_the_watch_a_changed_file_waits_for_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.yaml");
    let off = |id: &str| format!("config: {{watch: false}}\n{}", text(id));
    fs::write(&path, off("one")).unwrap();
    let gateway = start(&[&path]);
    fs::write(&path, text("two")).unwrap();
    sleep(SEEN);
    assert!(is_live(&gateway, "one"));
    // The new file switches the watch on.
    gateway.signal("HUP");
    eventually("the file is live after the signal", || is_live(&gateway, "two"));
    fs::write(&path, off("three")).unwrap();
    eventually("the file is live without a signal", || is_live(&gateway, "three"));
    fs::write(&path, text("four")).unwrap();
    sleep(SEEN);
    assert!(is_live(&gateway, "three"));
}

#[test]
fn a_signal_at_the_moment_of_a_change_applies_the_latest_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.yaml");
    fs::write(&path, text("v0")).unwrap();
    let gateway = start(&[&path]);
    for version in 1..=6 {
        let id = format!("v{version}");
        replace(&path, &text(&id));
        sleep(Duration::from_millis(80 * version));
        gateway.signal("HUP");
        eventually("the file is live", || is_live(&gateway, &id));
    }
    sleep(SEEN);
    let (applied, refused) = reloads(&gateway);
    assert!((6.0..=12.0).contains(&applied) && refused == 0.0, "{applied} {refused}");
    assert!(is_live(&gateway, "v6"));
}

#[test]
fn a_change_without_an_event_is_seen_by_the_check_at_an_interval() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.yaml");
    fs::write(&path, text("one")).unwrap();
    let gateway = start(&[&path]);
    sleep(SEEN);
    // As with a volume that another machine writes: no event is seen, since the file stays open.
    let file = fs::File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, text("two").as_bytes(), 0).unwrap();
    eventually("the file is live", || is_live(&gateway, "two"));
    drop(file);
}

#[test]
fn files_of_a_folder_that_come_and_go_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("conf.d");
    let part = |id: &str| format!("routes: [{{id: {id}, uri: 'echo:', predicates: [Path=/{id}]}}]\n");
    let write = |id: &str| fs::write(conf.join(format!("{id}.yaml")), part(id)).unwrap();
    fs::create_dir(&conf).unwrap();
    fs::write(conf.join("0.yaml"), HEAD).unwrap();
    (0..300).for_each(|number| write(&format!("r{number}")));
    let gateway = start(&[&conf]);
    assert!(is_live(&gateway, "r299"));
    write("new");
    eventually("the new file is live", || is_live(&gateway, "new"));
    fs::remove_file(conf.join("r7.yaml")).unwrap();
    eventually("the removed file is not", || !is_live(&gateway, "r7"));
    // Files of editors are no parts.
    fs::write(conf.join(".new.yaml.swp"), "broken: [").unwrap();
    fs::write(conf.join("new.yaml~"), "broken: [").unwrap();
    // The folder is away, and made again: meanwhile, nothing changes.
    fs::rename(&conf, folder.path().join("former")).unwrap();
    eventually("a missing folder is refused", || reloads(&gateway).1 >= 1.0);
    assert!(is_live(&gateway, "new"));
    fs::create_dir(&conf).unwrap();
    fs::write(conf.join("again.yaml"), format!("{HEAD}{}", part("again"))).unwrap();
    eventually("the folder is live again", || is_live(&gateway, "again") && !is_live(&gateway, "new"));
}
