//! Signals besides those that shut down: none of them ends the gateway.

use crate::support::eventually;
use crate::support::gateway::Gateway;

const ECHO: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";

#[test]
fn signals_that_arrive_before_the_gateway_listens_take_effect_later() {
    // The file is a pipe: the shell sends the signals when the gateway reads it, and then replaces it with the file.
    let before = "mv \"$2\" \"$2.real\"; mkfifo \"$2\"; { (exec 3>\"$2\"; kill -HUP $$; kill -USR1 $$; kill -USR2 $$; \
                  cat \"$2.real\" >&3; mv \"$2.real\" \"$2\") & }";
    let gateway = Gateway::start_under(before, ECHO);
    gateway.logged("configuration reloaded");
    gateway.logged("SIGUSR2 has no effect");
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
fn sigusr2_is_reserved_and_sigquit_drains() {
    let mut gateway = Gateway::start(ECHO);
    gateway.signal("USR2");
    gateway.logged("SIGUSR2 has no effect");
    assert_eq!(gateway.get("/a").status, 200);
    gateway.signal("QUIT");
    gateway.logged("all requests finished");
    assert_eq!(gateway.wait().code(), Some(0));
}
