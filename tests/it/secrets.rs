//! Secrets of a configuration: no page of the admin port, no line of a log and no message of `check` shows one.

use std::process::Command;

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::{Gateway, TOLLGATE, run};
use crate::support::redis::Redis;
use crate::support::upstream::{Upstream, response};

/// Part of every secret below.
const SECRET: &str = "s3cret";

const MANAGEMENT: &str = "
log: {level: debug}
management:
  tokens: [{name: ops, role: write, token: s3cret-token-0123456789}]
  hash-secret: s3cret-hash-0123456789
  hash-keys: true
  endpoint: {gateway: {access: unrestricted}}
  endpoints: {web: {exposure: {include: '*'}}}
  otlp: {tracing: {endpoint: 'http://127.0.0.1:9/v1/traces', headers: {Authorization: Bearer s3cret-otlp, X-A: s3cret-a}}}
httpclient: {proxy: {host: 127.0.0.1, port: 9, username: gate, password: s3cret-proxy, non-proxy-hosts-pattern: '127.*'}}
";

const ROUTES: &str = "
routes:
  - id: a
    uri: 'echo:'
    predicates: [Path=/a, 'Header=X-Key, s3cret.*', {any: ['Query=k, s3cret', 'Cookie=c, s3cret']}]
    metadata: {token: s3cret-metadata, owner: s3cret-owner}
    filters:
      - AddRequestHeader=Authorization, Bearer s3cret-authorization
      - AddRequestHeadersIfNotPresent=Authorization:Bearer s3cret-b,X-B:s3cret-c
      - {name: SetRequestHeader, args: {name: X-Api-Key, value: s3cret-d}}
      - AddResponseHeader=Set-Cookie, sid=s3cret-e
      - AddRequestParameter=key, s3cret-f
      - RewriteRequestParameter=key, s3cret-g
      - RewriteResponseHeader=X-R, s3cret-h, s3cret-i
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-key'
          replenish-rate: 1
          burst-capacity: 2
          exempt: [s3cret-exempt]
          block: [s3cret-block]
          plan-resolver: {table: {s3cret-plan: gold}}
          plans: {gold: {replenish-rate: 5}}
  - {id: b, uri: 'echo:', predicates: [Path=/b], filters: ['RedirectTo=302, https://gate:s3cret-j@example.com/?a=b&token=s3cret-k']}
";

/// The same secrets, each on a line with an error.
const BROKEN: [&str; 28] = [
    "redis: {url: 'redis://gate:s3cret@127.0.0.1:1/x y'}",
    "redis: {host: a, password: s3cret, prot: 1}",
    "management: {tokens: [{name: a, role: x, token: s3cret}]}",
    "management: {hash-secret: s3cret}",
    "management: {otlp: {tracing: {endpoint: 'http://gate:s3cret@a/', headers: {Bad Name: s3cret}}}}",
    "httpclient: {proxy: {host: a, port: x, username: gate, password: s3cret}}",
    "server: {ssl: {key-store: a.jks, key-store-password: s3cret, key-password: s3cret}}",
    "routes: [{id: a, uri: 'http://gate:s3cret@a', predicates: [Path=/a]}]",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: ['AddRequestHeader=Authorization Bearer s3cret']}]",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: ['AddRequestHeader=Author ization, Bearer s3cret']}]",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{name: AddRequestHeader, args: {nam: Authorization, value: s3cret}}]}]",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: ['AddRequestHeadersIfNotPresent=X-Key:s3cret,X Y:1']}]",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a, 'Header=X-Key, s3cret(']}]",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: x, exempt: [s3cret], block: 's3cret'}}]}]",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1, plan-resolver: {table: {s3cret: none}}, plans: {gold: {replenish-rate: 5}}}}]}]",
    "routes:\n- id: a\n  uri: 'echo:'\n  filters:\n  - name: RequestRateLimiter\n    args:\n      exempt:\n      - {s3cret: 1}\n      - s3cret",
    "redis: {host: a, passwrd: s3cret}",
    "jwt: {secrt: s3cret}",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: ['AddRequestHeadr=X-Api-Key, s3cret']}]",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: ['AddRequestHeadersIfNotPrsent=X-Api-Key:s3cret']}]",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a, 'Headr=X-Api-Key, s3cret']}]",
    "routes:\n- id: a\n  uri: 'echo:'\n  filters:\n  - name: AddRequestHeader\n    args:\n      name: X-Token\n      value: [s3cret]\n",
    "redis:\n  password: ''\n   \"s3cret\"",
    "redis: {password: !!int s3cret}",
    "redis:\n- password=s3cret",
    "management: {tokens: {a: s3cret}}",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{name: RequestRateLimiter, args: {exempt: [s3cret], block:\n- s3cret: [",
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: ['AddRequestHeader =X-Key, s3cret', 'NoSuch=1']}]",
];

fn check(file: &std::path::Path) -> (Option<i32>, String) {
    let output = Command::new(TOLLGATE).args(["check", "--offline"]).arg(file).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(printed).unwrap())
}

#[test]
fn no_page_and_no_log_shows_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let access_log = folder.path().join("access.log");
    let redis = Redis::start();
    let url = redis.url().replace("redis://", "redis://default:s3cret-url@");
    let gateway = Gateway::start(&format!(
        "redis: {{url: '{url}', timeout: 1s}}\naccess-log: {{output: '{}', format: json}}\n{MANAGEMENT}{ROUTES}",
        access_log.display()
    ));
    for key in ["s3cret-x", "s3cret-exempt", "s3cret-block", "s3cret-plan"] {
        let headers = [("x-key", key), ("cookie", "c=s3cret"), ("authorization", "Bearer s3cret-client")];
        gateway.connect().request("GET", "/a", &headers, b"");
    }
    eventually("requests are logged", || {
        std::fs::read_to_string(&access_log).is_ok_and(|log| log.lines().count() == 4)
    });
    let document = gateway.admin("/openapi.json").json();
    let mut pages = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let answers = &methods["get"]["responses"]["200"]["content"];
        if answers.is_null() || !answers["text/event-stream"].is_null() {
            continue;
        }
        let path = path
            .replace("{route}", "a")
            .replace("{id}", "a")
            .replace("{key}", "s3cret-x")
            .replace("{", "")
            .replace("}", "");
        let text = gateway.admin(&path).text();
        assert!(!text.contains(SECRET), "{path}: {text}");
        pages += 1;
    }
    assert!(pages >= 25, "{pages}");
    let change = |method: &str, path: &str, body: &[u8]| {
        let answer = Connection::open(gateway.admin).request(method, path, &[], body);
        assert!(!answer.text().contains(SECRET), "{method} {path}: {}", answer.text());
        answer.status
    };
    change("POST", "/api/limits/a", b"{\"keys\": [{\"key\": \"s3cret-x\"}]}");
    change("DELETE", "/api/limits/a/s3cret-x", b"");
    let block = b"{\"block\": true, \"plan\": \"\", \"expires-in\": \"1h\"}";
    assert_eq!(change("PUT", "/api/overrides/a/s3cret-x", block), 200);
    change("GET", "/api/overrides", b"");
    assert_eq!(change("DELETE", "/api/overrides/a/s3cret-x?plan=", b""), 200);
    assert_eq!(change("POST", "/api/reload", b""), 200);
    for line in BROKEN {
        std::fs::write(gateway.config(), format!("{line}\n")).unwrap();
        assert_eq!(change("POST", "/api/reload", b""), 422, "{line}");
        let (code, printed) = check(gateway.config());
        assert!(code == Some(1) && !printed.contains(SECRET), "{line}: {printed}");
    }
    assert!(!gateway.log().contains(SECRET), "{}", gateway.log());
    let log = std::fs::read_to_string(&access_log).unwrap();
    assert!(!log.contains(SECRET), "{log}");
}

const EXPLAINED: &str = "
management: {endpoint: {gateway: {access: unrestricted}}, endpoints: {web: {exposure: {include: '*'}}}}
httpclient: {proxy: {host: 127.0.0.1, port: 9, username: gate, password: s3cret-proxy, non-proxy-hosts-pattern: '127.*'}}
routes:
  - {id: skipped, uri: 'echo:', predicates: [Path=/s3cret-proxy/**]}
  - id: a
    uri: 'echo:'
    predicates: [Path=/a]
    filters:
      - AddRequestHeader=X-Tenant, acme
      - AddRequestHeader=X-Upstream, s3cret-proxy
      - AddRequestHeader=Authorization, Bearer s3cret-b
      - AddRequestHeader=X-Basic, ZzpzM2NyZXQtcHJveHk=
      - AddRequestHeader=X-Signing, s3c
      - AddRequestHeader=X-Webhook-Url, s3c
      - AddRequestParameter=sig, s3c
      - {name: SetRequestHeader, args: {value: s3c, name: X-Api-Key}}
      - AddRequestHeadersIfNotPresent=X-Token:s3c,X-Colour:blue
      - AddRequestParameter=token, s3c
      - AddRequestParameter=plain, shown
      - PrefixPath=/S3CRET-PROXY
";

#[test]
fn explanations_show_no_secret_but_other_values() {
    let gateway = Gateway::start(EXPLAINED);
    let file = gateway.config().to_str().unwrap();
    let is_free = |text: &str| {
        let text = text.to_lowercase();
        !text.contains("s3c") && !text.contains("zzpzm2nyzxq")
    };
    for options in [&[][..], &["--json"]] {
        let (code, shown, _) = run(&[&["explain", file, "/a?b=c"][..], options].concat());
        assert!(code == Some(0) && is_free(&shown), "{shown}");
        for value in ["acme", "blue", "plain=shown", "b=c", "****"] {
            assert!(shown.contains(value), "{value}: {shown}");
        }
    }
    // A mask would tell the client that it has found a secret.
    let (_, shown, _) = run(&["explain", file, "/a", "-H", "X-Mine: s3cret-proxy"]);
    assert!(shown.contains("x-mine: s3cret-proxy") && shown.matches("s3cret").count() == 1, "{shown}");
    for path in ["/api/explain?url=/a", "/api/config", "/actuator/gateway/routes", "/actuator/gateway/routedefinitions"]
    {
        let answer = gateway.admin(path);
        assert!(answer.status == 200 && is_free(&answer.text()), "{path}: {}", answer.text());
    }
}

#[test]
fn no_command_shows_a_secret_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("application.yml");
    for (filter, code) in [("'AddRequestHeader=X-A, 4zq81kx7v'", 0), ("Foo=4zq81kx7v", 1)] {
        let route = format!("{{id: a, uri: 'http://4zq81kx7v:1', predicates: [Path=/a], filters: [{filter}]}}");
        std::fs::write(&file, format!("spring.data.redis.host: localhost\nspring.cloud.gateway.routes: [{route}]\n"))
            .unwrap();
        for (command, more) in [("check", &[][..]), ("check", &["--json"][..]), ("explain", &["/a"][..])] {
            let mut run = Command::new(TOLLGATE);
            run.arg(command).arg(&file).args(more).env("SPRING_DATA_REDIS_PASSWORD", "4zq81kx7v");
            let output = run.output().unwrap();
            let shown = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert!(output.status.code() == Some(code) && !shown.contains("4zq81kx7v"), "{command} {more:?}: {shown}");
        }
    }
}

#[test]
fn no_line_of_the_log_shows_the_value_of_a_secret() {
    let text = |secret: &str, host: &str| {
        let management = format!("management: {{hash-keys: true, hash-secret: {secret}}}");
        let routes = format!("routes: [{{id: a, uri: 'http://{host}.invalid', predicates: [Path=/**]}}]");
        format!("log: {{level: debug}}\n{management}\n{routes}\n")
    };
    let gateway = Gateway::start(&text("zq81kx7v-0123456789", "ZQ81KX7V-0123456789"));
    gateway.get("/x");
    let line = gateway.logged("request not forwarded");
    assert!(line.contains("****.invalid"), "{line}");
    // Connections of the configuration before may still fail.
    gateway.reload(&text("another-0123456789", "zq81kx7v-0123456789"));
    gateway.get("/x");
    eventually("both requests are logged", || gateway.log().matches("request not forwarded").count() >= 2);
    assert!(!gateway.log().to_lowercase().contains("zq81kx7v"), "{}", gateway.log());
}

#[test]
fn no_line_of_the_log_shows_a_short_secret() {
    // Values of fewer than six characters are masked by their places: a line of the log has no such place.
    let other = Upstream::start(|_| response(401, &[], b"not welcome"));
    let of = |path: &str| format!("http://gate:zQ7@{}/{path}", other.address);
    let text = |port: &str| {
        format!(
            "log: {{level: trace}}\nserver: {{address: 127.0.0.1, workers: 1, port: {port}}}\n\
             redis: {{url: 'redis://gate:zQ7@{}', timeout: 1s}}\n\
             eureka.client: {{service-url: {{defaultZone: '{}'}}, registry-fetch-interval-seconds: 1}}\n\
             management: {{otlp: {{tracing: {{endpoint: 'http://{}/v1/traces', headers: {{Authorization: Bearer zQ7}}}}}}, tracing: {{sampling: {{probability: 1}}}}}}\n\
             httpclient: {{proxy: {{host: 127.0.0.1, port: 9, username: gate, password: zQ7}}}}\n\
             routes:\n- {{id: a, uri: 'lb://orders', predicates: [Path=/a]}}\n\
             - {{id: b, uri: 'http://127.0.0.1:9', predicates: [Path=/b], filters: ['AddRequestHeader=X-Key, zQ7', \
             {{name: RequestRateLimiter, args: {{key-resolver: 'header:x-key', deny-empty-key: false, replenish-rate: 1, burst-capacity: 1, exempt: [zQ7]}}}}]}}\n",
            other.address,
            of("eureka/"),
            other.address,
        )
    };
    let gateway = Gateway::start(&text("0"));
    gateway.logged("registry request failed");
    gateway.logged("cannot connect to redis");
    for path in ["/a", "/b", "/b"] {
        gateway.get(path);
    }
    gateway.logged("request not forwarded");
    gateway.reload(&text("x"));
    gateway.reload(&text("0"));
    assert!(!gateway.log().contains("zQ7"), "{}", gateway.log());
}

#[test]
fn check_shows_as_many_problems_as_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    let keys: String = (0..120).map(|at| format!("unknown{at}: 1\n")).collect();
    std::fs::write(&file, format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/a]}}]\n{keys}")).unwrap();
    let file = file.to_str().unwrap();
    for (options, shown, end) in [
        (&[][..], 100, "and 20 more: 20 errors; `tollgate check --max-problems 0` shows more\n"),
        (&["--max-problems", "119"][..], 119, "and 1 more: 1 error; `tollgate check --max-problems 0` shows more\n"),
        (&["--max-problems", "0"][..], 120, ""),
    ] {
        let (code, _, said) = run(&[&["check", "--offline", file][..], options].concat());
        assert_eq!((code, said.matches(": error: unknown key").count()), (Some(1), shown), "{said}");
        assert!(said.ends_with(end) && said.contains("\nand ") != end.is_empty(), "{said}");
        let (_, json, _) = run(&[&["check", "--offline", "--json", file][..], options].concat());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["diagnostics"].as_array().unwrap().len(), shown);
        assert_eq!(json["more"].as_u64().unwrap_or_default() as usize, 120 - shown);
    }
}
