//! `--config` several times.

use std::io::Write;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use crate::overlays::replay;
use crate::support::eventually;
use crate::support::gateway::{Gateway, TOLLGATE};

#[test]
fn commands_take_several_files_and_name_them() {
    replay(
        "\
== application.yml
spring.cloud.gateway.server.webflux.routes:
- {id: orders, uri: 'lb://orders', predicates: [Path=/orders/**]}
== overlay.yaml
upstreams: {orders: {endpoints: ['http://127.0.0.1:9001']}}
== wrong.yaml
upstreams:
  orders: {endpoints: nowhere}
$ tollgate check application.yml --config overlay.yaml
application.yml, overlay.yaml: ok, 1 route
$ tollgate check --config application.yml --config overlay.yaml
application.yml, overlay.yaml: ok, 1 route
$ tollgate check application.yml -c overlay.yaml -c wrong.yaml
wrong.yaml:2:23: error: `nowhere` is not an endpoint
  2 |   orders: {endpoints: nowhere}
    |                       ^
  help: write it like `http://10.0.0.1:9000`
$ tollgate explain application.yml GET /orders/1 --config overlay.yaml | grep -c orders
2
$ tollgate explain -c application.yml -c overlay.yaml GET /orders/1 | grep -c orders
2
$ tollgate explain /orders/1 -c application.yml -c overlay.yaml | grep -c orders
2
$ cp application.yml CONF; tollgate explain CONF GET /orders/1 --config overlay.yaml | grep -c orders
2
$ tollgate explain GET /orders/1
tollgate: no configuration: config/tollgate.yaml does not exist.
Set --config FILE, TOLLGATE_CONFIG or SPRING_CONFIG_LOCATION, or run `tollgate demo`, which needs no file.
$ tollgate migrate application.yml --config overlay.yaml | tollgate check /dev/stdin
/dev/stdin: ok, 1 route
$ tollgate check application.yml -c missing.yaml; echo $?
missing.yaml: error: cannot read the file: No such file or directory (os error 2)
2
",
    );
}

#[test]
fn pipes_that_a_process_writes_are_files_and_others_are_errors() {
    replay(
        "\
== a.yaml
routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]
== conf/b.txt
routes: []
$ tollgate check <(cat a.yaml) | sed 's|.*/||' | sed 's/^[0-9]*/N/'
N: ok, 1 route
$ (sleep 0.3; cat a.yaml) | tollgate check /dev/stdin
/dev/stdin: ok, 1 route
$ mkfifo pipe; (sleep 0.1; cat a.yaml >pipe) & tollgate check pipe; wait
pipe: ok, 1 route
$ tollgate check pipe a.yaml; echo $?
pipe: error: cannot read the file: it is an empty pipe to which no process writes
  help: start the process that writes the pipe first, and let it close the pipe; or name a file
a.yaml: ok, 1 route
2
$ tollgate check conf; echo $?
conf: error: cannot read the file: Is a directory without a file that ends in .yaml or .yml, or an application.properties
  help: name a file, or a folder that has one of these
2
$ tollgate check /dev/zero
/dev/zero: error: cannot read the file: the files of a configuration have at most 16 MiB
  help: import fewer or smaller files; links in a folder may lead back to it
$ tollgate serve --config pipe; echo $?
tollgate: cannot read pipe: it is an empty pipe to which no process writes
  help: start the process that writes the pipe first, and let it close the pipe; or name a file
2
$ tollgate check ''; tollgate check -c ''; echo $?
error: a value is required for '[FILE]...' but none was supplied

For more information, try '--help'.
error: a value is required for '--config <FILE>' but none was supplied

For more information, try '--help'.
2
",
    );
}

#[test]
fn check_reads_standard_input_and_prints_json() {
    replay(
        "\
== a.yaml
routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]
== x.yaml
server: {max-headers: 70}
== wrong.yaml
upstreams:
  orders: {endpoints: nowhere}
redis: {password: 'hunter22', port: hunter22}
routes: [{id: a, uri: 'lb://orders', predicates: [Path=/**]}]
$ cat a.yaml | tollgate check -
-: ok, 1 route
$ tollgate check a.yaml -c - <wrong.yaml 2>&1 | grep -c '^-:2:23: error: `nowhere` is not an endpoint$'
1
$ (cat a.yaml; echo 'spring.config.import: x.yaml') | tollgate check -
-: ok, 1 route
$ echo 'via: other' | tollgate check - a.yaml --json; echo $?
{\"files\":[\"-\"],\"valid\":true,\"routes\":0,\"diagnostics\":[{\"severity\":\"warning\",\"file\":\"-\",\"line\":1,\"column\":1,\"message\":\"no routes: every request gets 404\",\"help\":\"the smallest one: `routes: [{id: all, uri: \\\"echo:\\\", predicates: [Path=/**]}]`\"}]}
{\"files\":[\"a.yaml\"],\"valid\":true,\"routes\":1,\"diagnostics\":[]}
0
$ tollgate check --json wrong.yaml >out; echo $?; grep -c hunter22 out; python3 -c 'import json; r = json.load(open(\"out\")); print(r[\"valid\"], r[\"routes\"], [(d[\"line\"], d[\"column\"], d[\"message\"]) for d in r[\"diagnostics\"] if \"nowhere\" in d[\"message\"]])'
1
0
False None [(2, 23, '`nowhere` is not an endpoint')]
$ tollgate check --json none.yaml; echo $?
{\"files\":[\"none.yaml\"],\"valid\":false,\"routes\":null,\"diagnostics\":[{\"severity\":\"error\",\"file\":\"none.yaml\",\"line\":0,\"column\":0,\"message\":\"cannot read the file: No such file or directory (os error 2)\",\"help\":null}]}
2
$ tollgate check --json --overlay a.yaml 2>&1 | head -1
error: the argument '--json' cannot be used with '--overlay'
",
    );
}

#[test]
fn standard_input_may_be_a_socket_as_in_an_editor() {
    let (mut editor, stdin) = UnixStream::pair().unwrap();
    let mut command = Command::new(TOLLGATE);
    let command = command.args(["check", "--offline", "-", "--json"]).stdin(Stdio::from(OwnedFd::from(stdin)));
    let check = command.stdout(Stdio::piped()).spawn().unwrap();
    for line in ["routes:\n", "- {id: a, uri: 'echo:', predicates: [Path=/**]}\n"] {
        editor.write_all(line.as_bytes()).unwrap();
    }
    editor.shutdown(Shutdown::Write).unwrap();
    let output = check.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "{\"files\":[\"-\"],\"valid\":true,\"routes\":1,\"diagnostics\":[]}\n");
}

#[test]
fn standard_input_is_checked_once() {
    let output = Command::new(TOLLGATE).args(["check", "--offline", "-", "-"]).stdin(Stdio::null()).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{err}");
    assert_eq!(err, "tollgate: standard input, `-`, can be read once: name it for one configuration\n");
}

#[test]
fn standard_input_that_is_closed_and_an_output_that_is_full_are_errors() {
    let check = |input: Stdio, name: &str, arguments: &[&str]| {
        let full = std::fs::File::create(name).unwrap();
        let mut command = Command::new(TOLLGATE);
        let command = command.args(["check", "--offline"]).args(arguments).stdin(input).stdout(full);
        let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, err) = check(Stdio::null(), "/dev/null", &["-"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("-: error: cannot read the file: standard input is closed, or a device"), "{err}");
    for arguments in [&["config/tollgate.yaml"][..], &["--json", "config/tollgate.yaml"]] {
        let (code, err) = check(Stdio::null(), "/dev/full", arguments);
        assert_eq!(code, Some(2), "{err}");
        assert_eq!(err, "tollgate: cannot write to standard output: No space left on device (os error 28)\n");
    }
}

#[test]
fn migrate_joins_files_and_profiles_and_accepts_their_warnings() {
    replay(
        "\
== application.yml
spring.cloud.gateway.server.webflux.routes:
- {id: blue, uri: 'http://blue/ignored', predicates: [Path=/**, 'Weight=shop, 5']}
- {id: green, uri: 'lb://green', predicates: [Path=/**, 'Weight=shop, 5']}
== application-prod.properties
server.port=8443
== overlay.yaml
upstreams: {green: {endpoints: ['http://127.0.0.1:9001']}}
key-resolvers: {default: ip}
$ tollgate migrate application.yml --config overlay.yaml --profile prod --out new.yaml; grep -c -e 'port: 8443' -e 'default: ip' -e '127.0.0.1:9001' new.yaml
3
$ tollgate check new.yaml
new.yaml: ok, 2 routes
$ for path in a b c d e f g h; do tollgate explain application.yml GET /$path -c overlay.yaml | grep '^route'; done > old; for path in a b c d e f g h; do tollgate explain new.yaml GET /$path | grep '^route'; done > new; diff old new && sort -u new | wc -l
2
",
    );
}

#[test]
fn a_reload_reads_all_files() {
    let folder = tempfile::tempdir().unwrap();
    let overlay = folder.path().join("overlay.yaml");
    std::fs::write(&overlay, "routes: ['b=echo:,Path=/b']\n").unwrap();
    let gateway = Gateway::start_over("routes: ['a=echo:,Path=/a']\n", &[&overlay]);
    assert_eq!((gateway.get("/a").status, gateway.get("/b").status), (404, 200));
    let file = gateway.admin("/api/config").text();
    assert!(file.contains("tollgate.yaml, ") && file.contains("overlay.yaml"), "{file}");
    std::fs::write(&overlay, "routes: ['c=echo:,Path=/c']\n").unwrap();
    gateway.signal("HUP");
    eventually("the new overlay is used", || gateway.get("/c").status == 200);
    std::fs::write(&overlay, "routes: nonsense\n").unwrap();
    gateway.signal("HUP");
    gateway.logged("overlay.yaml:1:9: error");
    assert_eq!(gateway.get("/c").status, 200);
}
