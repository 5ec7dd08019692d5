//! Signals besides those that shut down: none of them ends the gateway.

use std::process::{Command, Stdio};

use crate::support::eventually;
use crate::support::gateway::{Gateway, TOLLGATE, command, run, signal};

const ECHO: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";

#[test]
fn signals_that_arrive_before_the_gateway_listens_take_effect_later() {
    // The file is a pipe: the shell sends the signals when the gateway reads it, and then replaces it with the file.
    let before = "mv \"$2\" \"$2.real\"; mkfifo \"$2\"; { (exec 3>\"$2\"; kill -HUP $$; kill -USR1 $$; \
                  cat \"$2.real\" >&3; mv \"$2.real\" \"$2\") & }";
    let gateway = Gateway::start_under(before, ECHO);
    gateway.logged("configuration reloaded");
    assert_eq!(gateway.get("/a").status, 200);
}

#[test]
fn signals_that_arrive_before_their_handlers_do_not_end_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("a.yaml");
    std::fs::write(&config, "routes: 5\n").unwrap();
    // They take a moment to read, before the handlers are installed.
    let arguments: Vec<String> = (0..5_000).map(|at| format!("--name.{at}=x")).collect();
    let mut held = 0;
    for (name, number) in [("HUP", 1), ("USR1", 10), ("USR2", 12)].into_iter().cycle().take(300) {
        let mut command = command();
        command.arg("--config").arg(&config).args(&arguments).stdout(Stdio::null()).stderr(Stdio::null());
        let mut gateway = command.spawn().unwrap();
        let pid = gateway.id();
        let has = |mask: &str| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let bits = status.lines().find_map(|line| line.strip_prefix(mask)).unwrap_or("0");
            u64::from_str_radix(bits.trim(), 16).unwrap() & 1 << (number - 1) != 0
        };
        while gateway.try_wait().unwrap().is_none() {
            if has("SigCgt:") {
                break;
            }
            if has("SigBlk:") && !has("SigCgt:") {
                signal(pid, name);
                held += 1;
                break;
            }
        }
        assert_eq!(gateway.wait().unwrap().code(), Some(1), "{name} has ended the gateway, not the error of the file");
        if held == 6 {
            return;
        }
    }
    panic!("signals are not held back");
}

#[test]
fn sigusr1_opens_the_access_log_again_without_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let gateway = Gateway::start(&format!("access-log: {{output: '{}'}}\n{ECHO}", path.display()));
    std::fs::rename(&path, folder.path().join("access.log.1")).unwrap();
    gateway.signal("USR1");
    eventually("the log is a new file", || path.exists());
    assert_eq!(gateway.get("/a").status, 200);
    eventually("the new file has the line", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text.contains("GET /a HTTP/1.1"))
    });
    assert!(!gateway.log().contains("configuration reloaded"));
}

#[test]
fn sigquit_drains() {
    let mut gateway = Gateway::start(ECHO);
    assert_eq!(gateway.get("/a").status, 200);
    gateway.signal("QUIT");
    gateway.logged("all requests finished");
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn a_log_that_cannot_be_opened_again_is_reported_and_opened_when_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, moved) = (folder.path().join("logs"), folder.path().join("moved"));
    std::fs::create_dir(&logs).unwrap();
    let path = logs.join("access.log");
    let text = format!("access-log: {{output: '{}'}}\n{ECHO}", path.display());
    let gateway = Gateway::start(&text);
    std::fs::rename(&logs, &moved).unwrap();
    gateway.reload(&text);
    let line = gateway.logged("log not opened again");
    assert!(line.contains(path.to_str().unwrap()) && line.contains("No such file"), "{line}");
    assert_eq!(gateway.metric("tollgate_access_log_misplaced", &[]), 1.0);
    assert_eq!(gateway.admin("/api/config").json()["access-log-misplaced"], true);
    let (code, out, _) = run(&["status", &gateway.admin.to_string()]);
    assert!(code == Some(0) && out.contains("could not be opened again"), "{out}");
    assert!(out.contains("its folder does not exist here"), "{out}");
    assert_eq!(gateway.get("/a").status, 200);
    eventually("the moved file has the line", || {
        std::fs::read_to_string(moved.join("access.log")).is_ok_and(|text| text.contains("GET /a HTTP/1.1"))
    });
    std::fs::create_dir(&logs).unwrap();
    gateway.logged("log opened again");
    assert_eq!((gateway.metric("tollgate_access_log_misplaced", &[]), path.exists()), (0.0, true));
    let (code, out, _) = run(&["status", &gateway.admin.to_string()]);
    assert!(code == Some(0) && !out.contains("opened") && !out.contains("does not exist here"), "{out}");
}

#[test]
fn a_configuration_from_standard_input_is_there_again_at_a_reload_and_a_handover() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.yaml");
    std::fs::write(&file, format!("server: {{workers: 1}}\naccess-log: {{output: off}}\n{ECHO}")).unwrap();
    let mut command = Command::new("sh");
    command.env("SERVER_PORT", "0").env("MANAGEMENT_SERVER_PORT", "0");
    command.args(["-c", "exec \"$0\" --config - <\"$1\"", TOLLGATE]).arg(&file);
    let mut gateway = Gateway::from_command(command);
    gateway.signal("HUP");
    gateway.logged("configuration reloaded");
    gateway.hand_over();
    gateway.hand_over();
    assert_eq!(gateway.wait().code(), Some(0));
    assert_eq!(gateway.get("/a").status, 200);
    signal(gateway.processes().pop().unwrap(), "HUP");
    eventually("the last process reloads", || gateway.log().matches("configuration reloaded").count() == 2);
    assert!(!gateway.log().contains("WARN") && !gateway.log().contains("ERROR"), "{}", gateway.log());
}
