//! The table of Spring's properties that have no effect here.

/// Meaning of a Spring property here.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// No effect, and the reason.
    Nothing(&'static str),
    /// No effect unless it is `false`, and the reason.
    Off(&'static str),
    /// Only one value is supported: the value, the missing feature, and the replacement.
    Only(&'static str, &'static str, &'static str),
}

use Meaning::{Nothing, Off, Only};

const STREAMS: &str = "every response streams, whatever its type";
const SPANS: &str = "`management.tracing` and `management.otlp.tracing` are read; `/metrics` counts and times requests";
const CONTEXT: &str = "the gateway continues W3C trace context; baggage is forwarded as it is";
const OTHER_SERVER: &str = "Spring Cloud Gateway runs on Netty, not on this server";
const CONCURRENCY: &str = "`ConcurrencyLimiter` limits the concurrent requests of a route";
const ONE_KIND: &str = "there is one kind of circuit breaker here";
const BREAKER_LABELS: &str = "metrics are labelled with the breaker's name";
const ANNOTATIONS: &str = "it orders Java annotations";
const CLIENT: &str = "each worker pipelines over a few shared connections; `connections` sets their number";

/// The properties by their path below the gateway's root or from the top. A path includes everything below it.
pub const PROPERTIES: &[(&str, Meaning)] = &[
    (
        "loadbalancer.cache",
        Nothing("the gateway caches endpoints itself; `dns.refresh` sets the interval of DNS lookups"),
    ),
    (
        "loadbalancer.retry",
        Nothing("what is safe to repeat goes to another endpoint by itself; the filter `Retry` does more"),
    ),
    ("loadbalancer.hint", Nothing("give each hint a route with a `Header` predicate and an upstream of its own")),
    (
        "loadbalancer.hint-header-name",
        Nothing("give each hint a route with a `Header` predicate and an upstream of its own"),
    ),
    (
        "loadbalancer.sticky-session",
        Nothing("`balance: consistent-hash` with `hash-by: \"cookie:NAME\"` keeps a session on one endpoint"),
    ),
    ("loadbalancer.subset", Nothing("all endpoints are used: connections are made as they are needed")),
    ("loadbalancer.api-version", Nothing("give each version a route and an upstream of its own")),
    ("loadbalancer.x-forwarded", Nothing("use `trusted-proxies` and `x-forwarded`")),
    ("loadbalancer.eager-load", Nothing("upstreams are known from the start")),
    ("loadbalancer.stats", Nothing("`tollgate_upstream_…` on `/metrics` describes endpoints")),
    ("loadbalancer.enabled", Nothing("`lb://` works wherever `upstreams` are listed")),
    ("loadbalancer.call-get-with-request-on-delegates", Nothing("endpoints are chosen with the request at hand")),
    ("loadbalancer.health-check.initial-delay", Nothing("endpoints are checked from the start")),
    ("loadbalancer.health-check.repeat-health-check", Nothing("checks are repeated as long as the gateway runs")),
    ("loadbalancer.health-check.refetch-instances", Nothing("`dns.refresh` sets the interval of DNS lookups")),
    ("loadbalancer.health-check.refetch-instances-interval", Nothing("`dns.refresh` sets the interval of DNS lookups")),
    ("loadbalancer.health-check.update-results-list", Nothing("an endpoint that fails its checks gets no request")),
    ("loadbalancer.nacos", Nothing("weights and zones of Nacos count without it")),
    ("loadbalancer.ribbon", Nothing("the gateway balances by itself, without Ribbon")),
    ("loadbalancer.clients", Nothing("write the service's own section below `upstreams`")),
    ("discovery.client", Nothing("define endpoints under `discovery.client.simple.instances` or `upstreams`")),
    ("streaming-media-types", Nothing(STREAMS)),
    ("streaming-buffer-size", Nothing(STREAMS)),
    ("file-buffer", Nothing(STREAMS)),
    ("form-filter", Nothing("bodies are forwarded as they are")),
    ("use-framework-retry-filter", Nothing("there is one filter `Retry`")),
    ("route-filter-cache-enabled", Nothing("filters are made once, when the file is read")),
    ("handler-mapping", Nothing("routes are the only handlers; they are tried by `order`")),
    (
        "restrictive-property-accessor",
        Nothing("expressions reach no properties of beans: `#{@name}` names a key resolver"),
    ),
    ("actuator.verbose", Nothing("`/actuator/gateway/routes` always shows routes in full")),
    ("observability", Nothing(SPANS)),
    ("httpserver.wiretap", Nothing("bytes are not logged")),
    ("httpclient.max-initial-line-length", Nothing("the status line is a part of the head: `max-header-size`")),
    ("httpclient.wiretap", Off("`log.level: debug` logs failures; use tcpdump for traffic")),
    (
        "httpclient.compression",
        Off("the client's `Accept-Encoding` reaches the upstream, and its response the client as it is"),
    ),
    ("httpclient.websocket.max-frame-payload-length", Nothing("frames are forwarded unread, whatever their length")),
    ("httpclient.websocket.proxy-ping", Only("true", "all frames are forwarded unread, pings included", "remove it")),
    ("httpclient.pool.name", Nothing("it names a series of Spring's metrics")),
    ("httpclient.pool.eviction-interval", Nothing("idle connections are checked every second")),
    ("httpclient.pool.metrics", Off("there are no metrics of connections")),
    ("resilience4j.bulkhead", Nothing(CONCURRENCY)),
    ("resilience4j.thread-pool-bulkhead", Nothing(CONCURRENCY)),
    ("resilience4j.enable-semaphore-default-bulkhead", Nothing(CONCURRENCY)),
    ("resilience4j.disable-thread-pool", Nothing("nothing here runs in a pool of threads")),
    ("resilience4j.ratelimiter", Nothing("`RequestRateLimiter` limits rates")),
    (
        "resilience4j.retry",
        Nothing("Spring Cloud Gateway does not read it either: the filter `Retry` repeats requests"),
    ),
    ("resilience4j.scheduled", Nothing("the gateway has no scheduler")),
    ("resilience4j.reactive", Nothing(ONE_KIND)),
    ("resilience4j.blocking", Nothing(ONE_KIND)),
    ("resilience4j.enable-group-meter-filter", Nothing(BREAKER_LABELS)),
    ("resilience4j.default-group-tag", Nothing(BREAKER_LABELS)),
    ("resilience4j.circuitbreaker.circuit-breaker-aspect-order", Nothing(ANNOTATIONS)),
    ("resilience4j.timelimiter.time-limiter-aspect-order", Nothing(ANNOTATIONS)),
    ("resilience4j.*.metrics", Nothing("metrics are always there")),
    ("resilience4j.*.tags", Nothing(BREAKER_LABELS)),
    (
        "resilience4j.circuitbreaker.*.*.register-health-indicator",
        Nothing("`/metrics` shows the state of each breaker"),
    ),
    (
        "resilience4j.circuitbreaker.*.*.allow-health-indicator-to-fail",
        Nothing("a breaker does not make the gateway unhealthy"),
    ),
    ("resilience4j.*.*.*.event-consumer-buffer-size", Nothing("the log has an entry for each change of state")),
    ("resilience4j.circuitbreaker.*.*.writable-stack-trace-enabled", Nothing("there are no stack traces")),
    ("resilience4j.circuitbreaker.*.*.ignore-class-binding-exceptions", Nothing("classes are names here")),
    (
        "redis-route-definition-repository.enabled",
        Only(
            "false",
            "routes are not kept in Redis",
            "keep them in the file: SIGHUP or `POST /actuator/gateway/refresh` reads it again",
        ),
    ),
    (
        "server.compression.enabled",
        Only(
            "false",
            "the gateway does not compress responses",
            "let the upstreams compress, or a proxy in front of the gateway",
        ),
    ),
    ("server.compression", Nothing("responses are forwarded as upstreams compress them")),
    ("server.error", Nothing("errors of the gateway are short texts, or problem+json if the client accepts it")),
    (
        "server.netty.connection-timeout",
        Nothing("`server.header-timeout` bounds how long a new connection may be silent"),
    ),
    (
        "server.netty.h2c-max-content-length",
        Nothing("HTTP/1.1 is not upgraded to h2c: HTTP/2 comes with prior knowledge"),
    ),
    ("server.netty.initial-buffer-size", Nothing("buffers grow on demand")),
    ("server.netty.max-keep-alive-requests", Nothing("a connection serves any number of requests")),
    (
        "server.netty.max-initial-line-length",
        Nothing("the request line counts into `server.max-http-request-header-size`"),
    ),
    ("server.netty.validate-headers", Nothing("fields are always validated")),
    ("server.server-header", Nothing("the gateway adds no `Server` field and forwards the upstream's")),
    ("server.servlet", Nothing(OTHER_SERVER)),
    ("server.reactive", Nothing("the gateway keeps no sessions")),
    ("server.tomcat", Nothing(OTHER_SERVER)),
    ("server.jetty", Nothing(OTHER_SERVER)),
    ("server.undertow", Nothing(OTHER_SERVER)),
    ("management.endpoints.web.cors", Nothing("the management port has no CORS")),
    ("management.endpoints.web.discovery", Nothing("`/actuator` lists the endpoints")),
    ("management.endpoints.jmx", Nothing("there is no JVM to manage")),
    ("management.endpoints.migrate-legacy-ids", Nothing("endpoints have one name")),
    ("management.endpoint.health.group", Nothing("there are two groups: `/health/live` and `/health/ready`")),
    ("management.endpoint.health.status", Nothing("200 while up, 503 otherwise")),
    ("management.endpoint.health.roles", Nothing("the management port has tokens, no users")),
    ("management.health", Nothing("`management.readiness.redis` includes Redis")),
    ("management.info", Nothing("there is no `/actuator/info`")),
    ("management.metrics.distribution", Nothing("buckets go from 1 ms to 10 s")),
    ("management.metrics.enable", Nothing("all metrics are enabled")),
    ("management.metrics.export", Nothing("Prometheus reads `/metrics`; nothing is pushed")),
    ("management.prometheus", Nothing("Prometheus reads `/metrics`; nothing is pushed")),
    ("management.metrics", Nothing("`management.metrics.tags` is read")),
    ("management.observations", Nothing(SPANS)),
    ("management.tracing.baggage", Nothing(CONTEXT)),
    ("management.tracing", Nothing("`enabled` and `sampling.probability` are read")),
    ("management.zipkin", Nothing("`management.otlp.tracing` sends traces")),
    ("management.otlp.tracing", Nothing("`endpoint`, `headers` and `timeout` are read")),
    ("management.otlp", Nothing("Prometheus reads `/metrics`; only traces are pushed")),
    ("management.opentelemetry", Nothing("`resource-attributes` are read")),
    ("management.httpexchanges", Nothing("the access log has a line per request")),
    ("management.trace", Nothing("the access log has a line per request")),
    ("management.auditevents", Nothing("the log of the gateway records reloads")),
    ("management.security", Nothing("`management.tokens` secures the management port")),
    ("redis.lettuce", Nothing(CLIENT)),
    ("redis.jedis", Nothing(CLIENT)),
    ("redis.client-type", Nothing("the gateway has its own client")),
    ("redis.client-name", Nothing("connections have no name; `CLIENT LIST` shows their `user`")),
    ("redis.connect-timeout", Nothing("connections are opened in the background; no request waits for one")),
    ("redis.repositories", Nothing("the gateway stores counters, not entities")),
    ("redis.cluster.max-redirects", Nothing("redirects are followed until `timeout`")),
];
