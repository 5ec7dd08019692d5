//! Properties on the command line.

use crate::overlays::replay;
use crate::support::eventually;
use crate::support::gateway::{Gateway, TOLLGATE};

#[test]
fn commands_take_properties() {
    replay(
        "\
== base/application.yml
spring.cloud.gateway.routes: [{id: a, uri: 'http://a:81', predicates: [Path=/**]}]
server: {max-headers: many}
== base/application-prod.yml
server: {max-headers: 40}
== more.yml
server: {max-headers: 50}
== own.yaml
routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]
$ tollgate check --spring.config.location=base/ --spring.profiles.active=prod
--spring.config.location: ok, 1 route
$ tollgate check --spring.config.location=base/ --spring.config.additional-location=more.yml
--spring.config.location: ok, 1 route
$ tollgate --server.max-headers=60 check --offline base/application.yml
base/application.yml: ok, 1 route
$ tollgate check base/application.yml --server.max-headers=none; echo $?
--server.max-headers: error: expected a whole number from 0, found `none`
1
$ tollgate explain GET /x --spring.config.location=more.yml,base/ --server.maxHeaders=9 | head -1
route a: Path=/**
$ tollgate migrate --spring.config.location=base/ --server.max-headers=61 | grep max-headers
  max-headers: 61
$ tollgate check --spring.config.location=base/,none.yml; echo $?
none.yml: error: cannot read the file: entity not found
2
$ tollgate --spring.config.location=none/application.yml; echo $?
tollgate: cannot read none/application.yml: entity not found
2
$ tollgate check own.yaml --spring.config.location=base/ 2>&1 | head -1
error: --spring.config.location replaces all files: leave out the others, or use --spring.config.additional-location
$ tollgate check own.yaml --sever.port=1
--sever.port: error: unknown key `sever`
  help: did you mean `server`?
$ tollgate check own.yaml --spring.profiles.active prod 2>&1 | head -1
error: missing value of a property: write --spring.profiles.active=VALUE
$ tollgate check own.yaml --overlai 2>&1 | head -3
error: unexpected argument '--overlai' found

  tip: a similar argument exists: '--overlay'
$ tollgate schema --server.port=1 2>&1 | head -1
error: --server.port has no effect: this command reads no configuration
",
    );
}

#[test]
fn every_command_finds_its_configuration_in_the_same_way() {
    replay(
        "\
== a.yaml
routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]
== b.yaml
routes: [{id: b, uri: 'echo:', predicates: [Path=/**]}]
== log
127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /x HTTP/1.0\" 200 1
$ for command in serve check 'explain /x' 'simulate log' migrate; do tollgate $command | head -1; echo ${PIPESTATUS[0]}; done
tollgate: no configuration: config/tollgate.yaml does not exist.
Set --config FILE, TOLLGATE_CONFIG or SPRING_CONFIG_LOCATION, or run `tollgate demo`, which needs no file.
2
tollgate: no configuration: config/tollgate.yaml does not exist.
Set --config FILE, TOLLGATE_CONFIG or SPRING_CONFIG_LOCATION, or run `tollgate demo`, which needs no file.
2
tollgate: no configuration: config/tollgate.yaml does not exist.
Set --config FILE, TOLLGATE_CONFIG or SPRING_CONFIG_LOCATION, or run `tollgate demo`, which needs no file.
2
tollgate: no configuration: config/tollgate.yaml does not exist.
Set --config FILE, TOLLGATE_CONFIG or SPRING_CONFIG_LOCATION, or run `tollgate demo`, which needs no file.
2
tollgate: no configuration: config/tollgate.yaml does not exist.
Set --config FILE, TOLLGATE_CONFIG or SPRING_CONFIG_LOCATION, or run `tollgate demo`, which needs no file.
2
== config/tollgate.yaml
routes: [{id: default, uri: 'echo:', predicates: [Path=/**]}]
$ tollgate check
config/tollgate.yaml: ok, 1 route
$ tollgate explain /x | grep ^route
route default: Path=/**
$ tollgate simulate log | grep requests,
config/tollgate.yaml: 1 requests, 0 denied (0 %)
$ tollgate migrate | grep id:
  - id: default
$ TOLLGATE_CONFIG=a.yaml,b.yaml tollgate check
b.yaml:1:1: warning: `routes` here replaces the list at a.yaml:1:1; no longer in effect: route `a` at a.yaml:1:10
  1 | routes: [{id: b, uri: 'echo:', predicates: [Path=/**]}]
    | ^
  help: a later list or value takes the place of an earlier one, as in Spring: repeat the entries that must stay; `tollgate: {routes: […]}` adds routes, or replaces those of the same id
a.yaml, b.yaml: ok, 1 route
$ TOLLGATE_CONFIG=a.yaml,b.yaml tollgate explain GET /x | grep ^route
route b: Path=/**
$ TOLLGATE_CONFIG=a.yaml tollgate simulate log | grep requests,
a.yaml: 1 requests, 0 denied (0 %)
$ TOLLGATE_CONFIG=a.yaml tollgate migrate | grep id:
  - id: a
$ tollgate check -c a.yaml -c b.yaml 2>/dev/null
a.yaml, b.yaml: ok, 1 route
$ tollgate check a.yaml -c b.yaml 2>/dev/null
a.yaml, b.yaml: ok, 1 route
$ tollgate explain -c a.yaml -c b.yaml GET /x | grep ^route
route b: Path=/**
$ tollgate explain a.yaml /x -c b.yaml | grep ^route
route b: Path=/**
$ tollgate simulate log -c a.yaml -c b.yaml | grep requests,
a.yaml, b.yaml: 1 requests, 0 denied (0 %)
$ tollgate simulate a.yaml log -c b.yaml | grep requests,
a.yaml, b.yaml: 1 requests, 0 denied (0 %)
$ tollgate migrate -c a.yaml -c b.yaml | grep id:
  - id: b
$ tollgate migrate a.yaml -c b.yaml | grep id:
  - id: b
$ tollgate serve a.yaml -c none.yaml; echo $?
tollgate: cannot read none.yaml: No such file or directory (os error 2)
2
$ tollgate serve none.yaml; echo $?
tollgate: cannot read none.yaml: No such file or directory (os error 2)
2
$ tollgate -c none.yaml; echo $?
tollgate: cannot read none.yaml: No such file or directory (os error 2)
2
",
    );
}

#[test]
fn a_gateway_runs_with_properties_and_a_reload_keeps_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("application.yml");
    let write = |status: u16| {
        let text = format!(
            "spring.cloud.gateway.routes: [{{id: a, uri: 'no://op', predicates: [Path=/a], filters: [SetStatus={status}]}}]\n\
             server: {{address: 127.0.0.1, port: 1}}\nmanagement.server.port: 1\ntollgate.access-log.output: off\n---\n\
             spring.config.activate.on-profile: dev\nspring.cloud.gateway.default-filters: ['AddResponseHeader=X-Profile,dev']\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    write(201);
    let mut command = std::process::Command::new(TOLLGATE);
    command.current_dir(folder.path()).env("SERVER_PORT", "2").env("TOLLGATE_CONFIG", "none.yaml");
    command.args(["--spring.config.location=./", "--spring.profiles.active=dev"]);
    command.args(["--server.port=0", "--management.server.port=0"]);
    let gateway = Gateway::from_command(command);
    let answer = gateway.get("/a");
    assert_eq!((answer.status, answer.header("x-profile")), (201, Some("dev")));
    write(202);
    gateway.signal("HUP");
    eventually("the file is read again", || gateway.get("/a").status == 202);
    assert_eq!(gateway.get("/a").header("x-profile"), Some("dev"));
}
