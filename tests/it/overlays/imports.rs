//! Files that a file or the environment names.

use crate::overlays::replay;

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
