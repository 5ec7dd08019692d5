//! Servers around the gateway: the registry, its services, Redis, and all other hosts that a file names.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use tollgate_test_support::registry::{ConsulServer, EurekaServer, NacosServer};

use super::case::Case;
use crate::support::redis::Redis;
use crate::support::upstream::{Request, Upstream, read_request, response};

/// Servers of a case. They end with it.
pub struct Network {
    _registry: Option<Registry>,
    _services: Vec<Upstream>,
    _redis: Option<Redis>,
    /// Proxy that is every host.
    hosts: Upstream,
    /// Environment that leads to the servers, as a deployment sets it.
    pub environment: Vec<(String, String)>,
}

#[allow(clippy::large_enum_variant)]
enum Registry {
    Eureka(EurekaServer),
    Nacos(NacosServer),
    Consul(ConsulServer),
}

impl Network {
    /// Starts the servers that `case` names.
    pub fn start(case: &Case) -> Self {
        let mut environment = Vec::new();
        let mut set = |name: &str, value: String| environment.push((name.to_owned(), value));
        let words = case.words("registry");
        let names = words.get(1..).unwrap_or_default();
        let services: Vec<Upstream> = names.iter().map(|name| service(name)).collect();
        let registry = words.first().map(|kind| Registry::start(kind));
        if let Some(registry) = &registry {
            registry.environment(&mut set);
            names.iter().zip(&services).for_each(|(name, service)| registry.register(name, service.address));
        }
        let redis = case.words("redis").first().map(|prefix| {
            let redis = Redis::start();
            set(&format!("{prefix}_HOST"), "127.0.0.1".to_owned());
            set(&format!("{prefix}_PORT"), redis.address.port().to_string());
            redis
        });
        let hosts = Upstream::scripted(|stream, _| {
            // `CONNECT HOST:PORT` opens a tunnel to that host.
            let Some(connect) = read_request(stream) else { return };
            if stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_ok() {
                serve(connect.target().trim_end_matches(":80"), stream);
            }
        });
        Self { _registry: registry, _services: services, _redis: redis, hosts, environment }
    }

    /// Returns a file that leads to all other hosts.
    pub fn overlay(&self) -> String {
        format!(
            "server: {{address: 127.0.0.1, workers: 1}}\ntollgate:\n  access-log: {{output: off}}\n  \
             httpclient: {{proxy: {{host: 127.0.0.1, port: {}, non-proxy-hosts-pattern: '127\\..*'}}}}\n",
            self.hosts.address.port()
        )
    }
}

impl Registry {
    fn start(kind: &str) -> Self {
        match kind {
            "eureka" => Self::Eureka(EurekaServer::start()),
            "nacos" => Self::Nacos(NacosServer::start()),
            "consul" => Self::Consul(ConsulServer::start()),
            _ => panic!("unknown registry {kind}"),
        }
    }

    fn environment(&self, set: &mut dyn FnMut(&str, String)) {
        match self {
            Self::Eureka(server) => set("EUREKA_CLIENT_SERVICEURL_DEFAULTZONE", server.url()),
            Self::Nacos(server) => set("SPRING_CLOUD_NACOS_DISCOVERY_SERVERADDR", server.address.to_string()),
            Self::Consul(server) => {
                set("SPRING_CLOUD_CONSUL_HOST", "127.0.0.1".to_owned());
                set("SPRING_CLOUD_CONSUL_PORT", server.address.port().to_string());
            }
        }
    }

    /// Registers `name`, in Nacos also `name@namespace/group`.
    fn register(&self, name: &str, address: SocketAddr) {
        match self {
            Self::Eureka(server) => server.register(name, name, address, Value::Null),
            Self::Consul(server) => server.register(name, name, address, Value::Null),
            Self::Nacos(server) => {
                let (name, place) = name.split_once('@').unwrap_or((name, "/DEFAULT_GROUP"));
                let (namespace, group) = place.split_once('/').unwrap();
                server.register((namespace, group, name), address, Value::Null);
            }
        }
    }
}

/// Starts the service `name`.
fn service(name: &str) -> Upstream {
    let name = name.split('@').next().unwrap().to_owned();
    Upstream::scripted(move |stream, _| serve(&name, stream))
}

/// Answers as the host `name`, with the requests as it received them.
fn serve(name: &str, stream: &mut TcpStream) {
    while let Some(request) = read_request(stream) {
        if request.header("upgrade").is_some() {
            let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
            let _ = stream.write_all(format!("{head}X-Upstream: {name} {}\r\n\r\n", request.target()).as_bytes());
            return;
        }
        if stream.write_all(&response(200, &[], described(name, &request).as_bytes())).is_err() {
            return;
        }
    }
}

fn described(name: &str, request: &Request) -> String {
    let mut fields: Vec<String> = Vec::new();
    for (field, value) in &request.headers {
        let field = field.to_ascii_lowercase();
        let is_shown = field.starts_with("x-")
            || ["authorization", "cookie", "from", "first-request"].contains(&field.as_str())
            || field == "host" && !value.starts_with("127.0.0.1") && value.trim_end_matches(":80") != name;
        if is_shown && !value.contains("127.0.0.1") {
            fields.push(format!("  {field}: {value}\n"));
        }
    }
    let method = request.line.split(' ').next().unwrap_or_default();
    format!("{name} {method} {}\n{}", request.target(), fields.concat())
}
