//! Files that a file or the environment names.

use crate::overlays::replay;
use crate::support::eventually;
use crate::support::gateway::Gateway;

#[test]
fn imports_and_further_locations_are_read() {
    replay(
        "\
== application.properties
spring.config.import=optional:configserver:http://config:8888,optional:file:./limits.yml
spring.cloud.gateway.server.webflux.routes[0].id=orders
spring.cloud.gateway.server.webflux.routes[0].uri=lb://orders
spring.cloud.gateway.server.webflux.routes[0].predicates[0]=Path=/orders/**
== limits.yml
server: {max-headers: many}
== local/application.yml
server: {max-headers: 50}
upstreams: {orders: {endpoints: ['http://127.0.0.1:9001']}}
$ SPRING_CONFIG_ADDITIONAL_LOCATION=local/ tollgate check application.properties
application.properties:1:22: warning: `spring.config.import` is not read: `optional:configserver:http://config:8888` needs a server of the kind `configserver`
  1 | spring.config.import=optional:configserver:http://config:8888,optional:file:./limits.yml
    |                      ^
  help: export what the gateway needs of it with `curl http://SERVER/APPLICATION/PROFILE`, or the files of its repository, and pass it as a second file: `--config exported.yml`
application.properties: ok, 1 route
$ tollgate check application.properties -c local/ 2>&1 | tail -1
application.properties, local/: ok, 1 route
$ SPRING_CONFIG_ADDITIONAL_LOCATION=none/ tollgate check application.properties
none: error: cannot read the file: entity not found
",
    );
}

#[test]
fn the_status_names_imported_files() {
    let folder = tempfile::tempdir().unwrap();
    let imported = folder.path().join("limits.yaml");
    std::fs::write(&imported, "server: {max-headers: 50}\n").unwrap();
    let gateway = Gateway::start(&format!(
        "spring: {{config: {{import: 'file:{}'}}, cloud: {{gateway: {{routes: [{{id: a, uri: 'echo:', predicates: [Path=/a]}}]}}}}}}\n",
        imported.display()
    ));
    let files = gateway.admin("/api/config").json()["further-files"].clone();
    assert_eq!(files, serde_json::json!([imported.display().to_string()]));
    let (_, status, _) = crate::support::gateway::run(&["status", &gateway.admin.to_string()]);
    assert!(status.contains(&format!("also read  {}", imported.display())), "{status}");
}

#[test]
fn locations_of_the_environment_replace_the_search() {
    replay(
        "\
== base/application.yml
spring.cloud.gateway.routes: ['a=http://a,Path=/**']
server: {max-headers: many, port: 1, header-timeout: many}
== base/application-prod.yml
server: {port: 2}
== ext/gateway.yml
server: {max-headers: 60, header-timeout: 7s}
== ext/gateway-prod.properties
server.port=3
== config/tollgate.yaml
routes: nonsense
$ SPRING_CONFIG_LOCATION=base/,optional:none/,ext/gateway.yml tollgate check
SPRING_CONFIG_LOCATION: ok, 1 route
$ SPRING_CONFIG_LOCATION=base/,./ext/gateway.yml tollgate check -c ext/gateway.yml 2>&1 | grep LOCATION
ext/gateway.yml:1:1: note: SPRING_CONFIG_LOCATION=`base/,./ext/gateway.yml` is not read: the command line names files
  help: SPRING_CONFIG_ADDITIONAL_LOCATION adds files to those
$ SPRING_CONFIG_LOCATION=base/,none/ tollgate check; echo $?
none: error: cannot read the file: entity not found
2
$ SPRING_CONFIG_LOCATION=optional:none/ tollgate serve; echo $?
tollgate: cannot read optional:none/: no location has a configuration file
2
$ SPRING_CONFIG_LOCATION=base/ tollgate check 2>&1 | grep error
base/application.yml:2:23: error: expected a whole number from 0, found `many`
base/application.yml:2:54: error: expected a duration such as `500ms`, `5s` or `PT1S`, found `many`
$ tollgate check 2>&1 | grep error
config/tollgate.yaml:1:9: error: expected a route, found `nonsense`
",
    );
}

#[test]
fn a_gateway_starts_and_reloads_by_the_locations_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let route = |status: u16| {
        format!(
            "spring.cloud.gateway.routes: [{{id: a, uri: 'no://op', predicates: [Path=/a], filters: [SetStatus={status}]}}]\n"
        )
    };
    write(
        "etc/application.yml",
        &format!("{}server.address: 127.0.0.1\ntollgate.access-log.output: off\n", route(201)),
    );
    write("etc/application-dev.yml", &route(202));
    write("more/application.yml", &route(203));
    // Within a group, the files of profiles come behind all others.
    let start = |location: &str| {
        let mut command = std::process::Command::new(crate::support::gateway::TOLLGATE);
        command.current_dir(folder.path()).env("SERVER_PORT", "0").env("MANAGEMENT_SERVER_PORT", "0");
        command.env("SPRING_PROFILES_ACTIVE", "dev").env("SPRING_CONFIG_LOCATION", location);
        Gateway::from_command(command)
    };
    assert_eq!(start("etc/,more/").get("/a").status, 203);
    let gateway = start("etc/;more/,optional:file:./absent.yml");
    assert_eq!(gateway.get("/a").status, 202);
    write("absent.yml", &route(204));
    gateway.signal("HUP");
    eventually("the new file is used", || gateway.get("/a").status == 204);
}
