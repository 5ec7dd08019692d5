//! The OpenAPI document of the admin port, judged by tools of others. `tests/run` installs them, or leaves these tests
//! out and says so.

mod checker;
mod schemas;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::client::{Connection, Response};
use crate::support::eventually;
use crate::support::gateway::{Gateway, TOLLGATE};
use crate::support::redis::Redis;

const TOKEN: &str = "Bearer write-token-of-16-bytes";

/// Returns the path of a tool in the virtual environment below the build directory.
fn tool(name: &str) -> PathBuf {
    let found = Path::new(TOLLGATE).ancestors().map(|folder| folder.join("tools/openapi/bin").join(name));
    let found = found.into_iter().find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is missing: tests/run installs it"))
}

/// Starts a gateway whose every endpoint has something to show. Reads and changes need a token.
fn gateway(redis: &Redis) -> Gateway {
    let gateway = Gateway::start(&format!(
        "redis: {{url: '{}', timeout: 5s}}
management:
  server: {{address: 0.0.0.0}}
  tokens: [{{name: ops, role: write, token: write-token-of-16-bytes}}]
  endpoint: {{gateway: {{access: unrestricted}}}}
  endpoints: {{web: {{exposure: {{include: '*'}}}}}}
upstreams: {{pool: {{endpoints: ['http://127.0.0.1:1'], health: {{path: /}}}}}}
routes:
  - {{id: pool, uri: 'lb://pool', predicates: [Path=/pool], filters: [Retry=1, {{name: CircuitBreaker, args: {{name: pool}}}}]}}
  - id: orders
    uri: 'echo:'
    predicates: [Path=/orders]
    metadata: {{owner: shop}}
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-key'
          limits:
            - {{name: second, replenish-rate: 1, burst-capacity: 5}}
            - {{name: sold, algorithm: quota, allowance: 100}}
",
        redis.url()
    ));
    eventually("it is ready", || ask(&gateway, "/health/ready").status == 200);
    for _ in 0..10 {
        gateway.connect().request("GET", "/orders", &[("x-key", "alice")], b"");
        gateway.get("/pool");
    }
    gateway
}

fn admin(gateway: &Gateway) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], gateway.admin.port()))
}

fn ask(gateway: &Gateway, path: &str) -> Response {
    Connection::open(admin(gateway)).request("GET", path, &[("Authorization", TOKEN)], b"")
}

/// Returns the ids of the operations that answer with a stream of events, which has no end to wait for.
fn streams(document: &Value) -> Vec<String> {
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let is_stream = |operation: &&Value| !operation["responses"]["200"]["content"]["text/event-stream"].is_null();
    operations.filter(is_stream).map(|operation| operation["operationId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn schemathesis_finds_no_undocumented_answer() {
    let redis = Redis::start();
    let gateway = gateway(&redis);
    let folder = tempfile::tempdir().unwrap();
    // Names that exist, so that not all requests end with 404.
    let config = "[parameters]\n\"path.route\" = \"orders\"\n\"path.id\" = \"orders\"\n\"path.name\" = \"pool\"\n\
                  \"path.upstream\" = \"pool\"\n\"path.breaker\" = \"pool\"\n";
    std::fs::write(folder.path().join("schemathesis.toml"), config).unwrap();
    // From a file: the tool leaves out the endpoint that it reads the document from.
    let document = ask(&gateway, "/openapi.json");
    std::fs::write(folder.path().join("openapi.json"), document.text()).unwrap();
    let document = document.json();
    let operations: usize =
        document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len()).sum();
    let streams = streams(&document);
    let excluded = streams.iter().flat_map(|id| ["--exclude-operation-id", id]);
    let output = Command::new(tool("schemathesis"))
        .current_dir(folder.path())
        .args(["run", "openapi.json", "--url", &format!("http://{}", admin(&gateway))])
        .args(["--seed", "1", "--max-examples", "10", "--phases", "examples,coverage,fuzzing"])
        .args(["--no-shrink", "--continue-on-failure", "--warnings", "off", "--generation-database", "none"])
        // A change that could mean several rules is refused: no schema can say that.
        .args(["--exclude-checks", "positive_data_acceptance"])
        .args(["--header", &format!("Authorization: {TOKEN}")])
        .args(excluded)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "160")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let tested = format!("  Tested: {}\n", operations - streams.len());
    assert!(printed.contains(&tested), "expected {tested} in {printed}");
    assert_eq!(ask(&gateway, "/health/live").status, 200);
}

#[test]
fn the_document_is_valid_openapi_3_1() {
    let redis = Redis::start();
    let gateway = gateway(&redis);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, ask(&gateway, "/openapi.json").text()).unwrap();
    let validate = || {
        let tool = tool("openapi-spec-validator");
        Command::new(tool).args(["--schema", "3.1", "--validation-errors", "all"]).arg(&file).output().unwrap()
    };
    let valid = validate();
    assert!(valid.status.success(), "{}", String::from_utf8_lossy(&valid.stdout));
    std::fs::write(
        &file,
        ask(&gateway, "/openapi.json").text().replacen("\"summary\": \"", "\"summary\": 1, \"x\": \"", 1),
    )
    .unwrap();
    assert!(!validate().status.success(), "the validator finds a mistake");
}
