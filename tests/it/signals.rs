//! Signals besides those that shut down: none of them ends the gateway.

use crate::support::eventually;
use crate::support::gateway::{Gateway, run};

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
    let gateway = Gateway::start(&format!("access-log: {{output: '{}'}}\n{ECHO}", path.display()));
    std::fs::rename(&logs, &moved).unwrap();
    gateway.signal("USR1");
    let line = gateway.logged("log not opened again");
    assert!(line.contains(path.to_str().unwrap()) && line.contains("No such file"), "{line}");
    assert_eq!(gateway.metric("tollgate_access_log_misplaced", &[]), 1.0);
    assert_eq!(gateway.admin("/api/config").json()["access-log-misplaced"], true);
    let (code, out, _) = run(&["status", &gateway.admin.to_string()]);
    assert!(code == Some(0) && out.contains("could not be opened again"), "{out}");
    assert_eq!(gateway.get("/a").status, 200);
    eventually("the moved file has the line", || {
        std::fs::read_to_string(moved.join("access.log")).is_ok_and(|text| text.contains("GET /a HTTP/1.1"))
    });
    std::fs::create_dir(&logs).unwrap();
    gateway.logged("log opened again");
    assert_eq!((gateway.metric("tollgate_access_log_misplaced", &[]), path.exists()), (0.0, true));
}
