//! Spring's forms of settings.

use crate::tests::files::Folder;
use crate::tests::*;

#[test]
fn spring_roots_dots_and_spellings_all_mean_the_same() {
    let route = "[{id: a, uri: 'http://a:81', predicates: [Path=/a/**], filters: [StripPrefix=1]}]";
    for text in [
        format!("routes: {route}\n"),
        format!("spring: {{cloud: {{gateway: {{routes: {route}}}}}}}\n"),
        format!("spring: {{cloud: {{gateway: {{server: {{webflux: {{routes: {route}}}}}}}}}}}\n"),
        format!("spring.cloud:\n  gateway.server.webflux:\n    routes: {route}\n"),
        "spring.cloud.gateway:\n  routes[0].id: a\n  routes[0].uri: http://a:81\n  routes[0].predicates[0]: Path=/a/**\n  routes[0].filters[0].name: StripPrefix\n  routes[0].filters[0].args.parts: 1\n".to_owned(),
        "routes:\n  - a=http://a:81,Path=/a/**\ndefaultFilters: [StripPrefix=1]\n".to_owned(),
        "routes:\n  - a=http://a:81,Path=/a/**\ndefault_filters: [StripPrefix=1]\n".to_owned(),
    ] {
        let config = loaded(&text).config;
        assert_eq!(config.routes.len(), 1, "{text}");
        let route = &config.routes[0];
        assert_eq!((&*route.id, route.predicates.len(), route.filters.len()), ("a", 1, 1), "{text}");
        assert!(matches!(&route.uri, Target::Http { host, port: 81, .. } if host == "a"), "{text}");
    }
}

#[test]
fn the_newer_spring_root_wins_with_a_warning() {
    let text = "spring:\n  cloud:\n    gateway:\n      httpclient: {connect-timeout: 1000}\n      routes: [\"old=http://a,Path=/a\"]\n      server.webflux:\n        routes: [\"new=http://b,Path=/b\"]\n";
    let loaded = loaded(text);
    assert_eq!(&*loaded.config.routes[0].id, "new");
    assert_eq!(loaded.config.http_client.connect_timeout.get(), Duration::from_secs(1));
    assert!(loaded.notes.to_string().contains("warning: settings stand under both"), "{}", loaded.notes);
}

#[test]
fn limiter_arguments_work_with_and_without_springs_prefix() {
    for args in [
        "redis-rate-limiter.replenishRate: 10\n        redis-rate-limiter.burstCapacity: 20\n        redis-rate-limiter.requestedTokens: 2",
        "redis-rate-limiter: {replenish-rate: 10, burst_capacity: 20, REQUESTEDTOKENS: 2}",
        "\"[redis-rate-limiter.replenishRate]\": 10\n        burst-capacity: 20\n        requestedTokens: \"2\"",
        "replenish-rate: ${RATE:10}\n        burst-capacity: 20\n        requested-tokens: 2\n        key-resolver: [ip, \"header:X\"]",
    ] {
        let text = format!(
            "routes:\n- id: a\n  uri: 'echo:'\n  predicates: [Path=/**]\n  filters:\n    - name: RequestRateLimiter\n      args:\n        {args}\n"
        );
        let config = loaded(&text).config;
        let Filter::RequestRateLimiter(limiter) = &config.routes[0].filters[0] else { panic!("no limiter: {text}") };
        let Some(Limit { rule, cost, .. }) = limiter.limits().next() else { panic!("no rule: {text}") };
        assert_eq!((rule.rate(), rule.capacity(), cost.tokens), (10, 20, 2), "{text}");
    }
}

#[test]
fn spring_redis_parts_are_one_server_with_a_hidden_password() {
    let text = "spring:\n  data.redis: {host: cache, port: 6380, password: \"p@ss/word\", database: 3, timeout: 250ms}\n  cloud.gateway.routes: [\"a=http://a,Path=/**\"]\n";
    let config = loaded(text).config;
    let redis = config.redis.as_ref().unwrap();
    assert_eq!(redis.settings.servers, Servers::One("redis://cache:6380".into()));
    assert_eq!((redis.settings.login.password.as_deref(), redis.settings.database), (Some("p@ss/word"), Some(3)));
    assert_eq!(redis.settings.timeout, Duration::from_millis(250));
    assert!(!format!("{config:?}").contains("word"));
}

#[test]
fn foreign_sections_of_an_application_yml_are_skipped_with_one_message() {
    let text = "spring: {application: {name: gw}, cloud: {gateway: {routes: [\"a=http://a,Path=/**\"]}}}\neureka: {client: {enabled: false}}\nlogging: {level: {root: info}}\nmanagement: {endpoints: {web: {exposure: {include: \"*\"}}}}\n";
    let loaded = loaded(text);
    let rendered = loaded.notes.to_string();
    assert!(
        rendered.contains("note: settings that are not Tollgate's are skipped: spring.application, eureka, logging"),
        "{rendered}"
    );
    assert!(loaded.notes.list().iter().all(|problem| problem.severity == Severity::Note), "{rendered}");
    assert!(has_springs_timeouts(&loaded.config));
}

#[test]
fn extra_arguments_are_an_error_but_a_warning_in_a_spring_file() {
    let own = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**], filters: ['StripPrefix=1,2']}]";
    assert!(refused(own).contains("error: `StripPrefix` takes 1 argument; `2` is one too many"));
    let spring = format!("spring: {{cloud: {{gateway: {{{own}}}}}}}");
    assert!(loaded(&spring).notes.to_string().contains("warning: `StripPrefix` takes 1 argument"));
}

#[test]
fn a_spring_file_without_redis_reports_limits_in_memory() {
    let text = "spring.cloud.gateway.routes:\n- id: a\n  uri: http://a\n  predicates: [Path=/**]\n  filters: [{name: RequestRateLimiter, args: {redis-rate-limiter.replenishRate: 1, key-resolver: ip}}]\n";
    assert!(loaded(text).notes.to_string().contains("limits are kept in memory"));
}

const OLD_ROUTES: &str = "spring.cloud.gateway.routes:\n- {id: a, uri: 'http://a', predicates: [Path=/a]}\n";

#[test]
fn settings_of_the_gateway_stand_below_tollgate_in_a_spring_file() {
    let text = format!("{OLD_ROUTES}tollgate: {{memory: {{max-keys: 77}}, via: edge}}\n");
    let loaded = loaded(&text);
    assert_eq!(loaded.config.memory.max_keys().get(), 77);
    let own = "tollgate: {memory: {max-keys: 78}}\nroutes: [\"a=http://a,Path=/a\"]\n";
    assert_eq!(self::loaded(own).config.memory.max_keys().get(), 78);
    let overridden =
        parse("tollgate.yaml", &text, &|name| (name == "TOLLGATE_MEMORY_MAXKEYS").then(|| "79".to_owned()));
    assert_eq!(overridden.unwrap().config.memory.max_keys().get(), 79);
    assert!(refused(&format!("{OLD_ROUTES}tollgate: yes\n")).contains("`tollgate` must be a map of sections"));
    let unknown = self::loaded(&format!("{OLD_ROUTES}tollgate: {{memori: {{max-keys: 1}}}}\n")).notes.to_string();
    assert!(unknown.contains("memori") && unknown.contains("did you mean `memory`?"), "{unknown}");
}

#[test]
fn sections_of_an_application_are_not_taken_for_ours() {
    let text = format!(
        "{OLD_ROUTES}jwt: {{secret: abc, expiration: 3600}}\ncors: {{origins: \"*\"}}\nroutes: none\nmemory: 5\nenabled: false\n\
         forwarded: 1\nredis: {{host: cache}}\nlog: x\naccess-log: y\ntrusted-proxies: z\n"
    );
    let loaded = loaded(&text);
    assert_eq!(loaded.config.routes.len(), 1);
    assert!(loaded.config.redis.is_none());
    let notes = loaded.notes.to_string();
    let names = "`jwt` (line 3), `cors` (line 4), `routes` (line 5), `memory` (line 6), `enabled` (line 7), `forwarded` (line 8), \
                 `redis` (line 9), `log` (line 10), `access-log` (line 11), `trusted-proxies` (line 12)";
    assert!(
        notes.contains(&format!(
            "3:1: note: sections at the top level that are the application's own are skipped: {names}"
        )),
        "{notes}"
    );
    assert!(loaded.notes.list().iter().all(|problem| problem.severity == Severity::Note), "{notes}");
}

#[test]
fn the_old_root_ignores_a_slash_at_the_end_of_a_path() {
    let shown = |text: &str| loaded(text).config.routes[0].predicates[0].to_string();
    assert_eq!(shown(OLD_ROUTES), "Paths: [/a], match trailing slash: true");
    let new = OLD_ROUTES.replace("gateway.", "gateway.server.webflux.");
    assert_eq!(shown(&new), "Paths: [/a], match trailing slash: false");
    assert_eq!(
        shown(&OLD_ROUTES.replace("/a]", "'/a,false']").replace("Path='", "'Path=")),
        "Paths: [/a], match trailing slash: false"
    );
    assert!(loaded(OLD_ROUTES).notes.to_string().matches("trailing").count() == 0);
}

#[test]
fn a_path_with_two_slashes_is_a_warning() {
    let loaded = loaded("spring.cloud.gateway.routes: [\"a=http://a,Path=//a///**\"]\n");
    assert!(loaded.config.routes[0].predicates[0].to_string().contains("[/a/**]"));
    let notes = loaded.notes.to_string();
    assert!(
        notes.contains("warning: `//a///**` is read as `/a/**`") && notes.contains("help: write `/a/**`"),
        "{notes}"
    );
    assert!(refused("routes: [\"a=http://a,Path=//a/**\"]\n").contains("error: `//a/**` is read as `/a/**`"));
}

#[test]
fn unknown_names_below_the_root_are_reported() {
    for (text, name) in [
        (OLD_ROUTES.replace("gateway.routes", "gateway.webflx.routes"), "webflx"),
        (OLD_ROUTES.replace("gateway.routes", "gateway.server.webflx.routes"), "webflx"),
    ] {
        assert!(loaded(&text).notes.to_string().contains(name), "{text}");
    }
    for name in ["webflux", "web flux", "webflx"] {
        let text = OLD_ROUTES.replace("gateway.routes", &format!("gateway.{name}.routes"));
        let notes = loaded(&text).notes.to_string();
        assert!(notes.contains("help: did you mean `spring.cloud.gateway.server.webflux`?"), "{text}: {notes}");
    }
    let spaced = "spring:\n  cloud:\n    gateway:\n      server:\n        web flux:\n          routes: [\"a=http://a,Path=/a\"]\n";
    assert_eq!(loaded(spaced).config.routes.len(), 1, "Spring's binder ignores the space");
}

#[test]
fn a_misspelling_in_our_own_form_is_no_key_of_spring() {
    let text = "management: {tracing: {enabledx: true}, metrics: {distribution: {}}}\nroutes: []\n";
    let report = parse("test.yaml", text, &|_| None).unwrap_err().to_string();
    assert!(report.contains("help: did you mean `enabled`?") && report.contains("has no effect here"), "{report}");
}

#[test]
fn skipped_sections_are_named_once_per_file() {
    let routes = format!("{OLD_ROUTES}jwt: {{a: b}}\nlogging: {{c: d}}\n");
    let folder =
        Folder::of(&[("application.yml", &routes), ("application-dev.yml", "log: {a: b}\njwt: {e: f}\ncors: 1\n")]);
    let loaded = folder.load(&["application.yml"], Some("dev")).unwrap();
    let sections = loaded.notes.render_sections(false);
    let lines: Vec<&str> = sections.lines().filter(|line| line.contains("note:")).collect();
    let skipped = "note: sections at the top level that are the application's own are skipped:";
    assert_eq!(lines.len(), 2, "{sections}");
    assert!(lines[0].ends_with(&format!("application.yml:3:1: {skipped} `jwt` (line 3)")), "{sections}");
    assert!(
        lines[1].ends_with(&format!("application-dev.yml:1:1: {skipped} `log` (line 1), `cors` (line 3)")),
        "{sections}"
    );
    assert!(!sections.contains("logging") && loaded.notes.to_string().contains("logging"), "{sections}");
}

#[test]
fn a_misspelled_root_is_a_warning() {
    let warned = |text: &str, written: &str, meant: &str| {
        let notes = loaded(text).notes.to_string();
        assert!(notes.contains(&format!("warning: `{written}` is not known, to Spring either")), "{text}: {notes}");
        assert!(notes.contains(&format!("help: did you mean `{meant}`?")), "{text}: {notes}");
        let is_skipped = |line: &&str| line.contains("skipped") && line.contains(written);
        assert_eq!((notes.matches("below it").count(), notes.lines().find(is_skipped)), (1, None), "{notes}");
        let migrated = crate::migrate("application.yml", text, &no_env).unwrap().yaml;
        parse("tollgate.yaml", &migrated, &no_env).unwrap_or_else(|error| panic!("{migrated}{error}"));
    };
    let lost = |root: &str| format!("{root}:\n  routes: [{{id: b, uri: 'http://b', predicates: [Path=/b]}}]\n");
    for beside in ["spring.application.name: x\n", OLD_ROUTES] {
        for (written, meant) in [
            ("spring.cloud.gatway", "spring.cloud.gateway"),
            ("spring.cloud.gatwy", "spring.cloud.gateway"),
            ("spring.gateway", "spring.cloud.gateway"),
            ("cloud.gateway", "spring.cloud.gateway"),
        ] {
            warned(&format!("{beside}{}", lost(written)), written, meant);
        }
        warned(&format!("{beside}{}", lost("spring.clod.gateway")), "spring.clod", "spring.cloud");
        warned(&format!("{beside}{}", lost("sprng.cloud.gateway")), "sprng", "spring");
    }
    let own = "string: {a: b}\ncloud: {region: eu}\nspring.cloud.function.definition: a\ngateway: {routes: x}\n";
    let notes = loaded(&format!("{OLD_ROUTES}{own}")).notes;
    assert!(notes.list().iter().all(|note| note.severity == Severity::Note), "{notes}");
    let own = refused(&lost("sprng.cloud.gateway"));
    assert!(own.contains("unknown key `sprng`") && own.contains("did you mean `spring`?"), "{own}");
}

#[test]
fn a_name_that_registers_the_gateway_is_not_skipped() {
    let of = |registers: bool| {
        let consul = format!("spring.cloud.consul: {{host: consul, discovery.register: {registers}}}\n");
        loaded(&format!("{OLD_ROUTES}spring.application.name: edge\n{consul}")).notes.to_string()
    };
    assert!(!of(true).contains("spring.application"), "{}", of(true));
    assert!(of(false).contains("skipped: spring.application"), "{}", of(false));
}

#[test]
fn misspelled_names_at_every_depth_say_what_where_and_the_likely_name() {
    for (line, place, message, meant) in [
        ("sever: {port: 1}", "2:1", "`sever` is not known, to Spring either: everything below it is dropped", "server"),
        ("mangement: {server: {port: 1}}", "2:1", "`mangement` is not known, to Spring either: ", "management"),
        ("resiliance4j: {timelimiter: {}}", "2:1", "`resiliance4j` is not known, ", "resilience4j"),
        ("key-resolver: {a: ip}", "2:1", "`key-resolver` is not known, ", "key-resolvers"),
        ("upstream: {a: {endpoints: ['http://a:1']}}", "2:1", "`upstream` is not known, ", "upstreams"),
        ("tolgate: {memory: {max-keys: 1}}", "2:1", "`tolgate` is not known, ", "tollgate"),
        ("spring.profile: {active: dev}", "2:1", "`spring.profile` is not known, ", "spring.profiles"),
        ("spring.data.rediss: {host: a}", "2:1", "`spring.data.rediss` is not known, ", "spring.data.redis"),
        (
            "spring.config.activate.on-profil: a",
            "2:1",
            "`spring.config.activate.on-profil` is not known, to Spring either, and has no effect",
            "spring.config.activate.on-profile",
        ),
        ("server: {prot: 1}", "2:10", "unknown key `prot` in `server` has no effect, as in Spring", "port"),
        (
            "management: {endpoint: {health: {show-detail: a}}}",
            "2:34",
            "unknown key `show-detail` in `management.endpoint.health` has no effect",
            "show-details",
        ),
        (
            "spring.cloud.gateway.httpclient: {pool: {max-conections: 1}}",
            "2:42",
            "unknown key `max-conections` in `httpclient.pool` has no effect",
            "max-connections",
        ),
        (
            "spring.cloud.gateway.default-filter: [StripPrefix=1]",
            "2:1",
            "unknown key `default-filter` has no effect, as in Spring",
            "default-filters",
        ),
        ("spring.data.redis: {hots: a}", "2:21", "unknown key `hots` in `redis` has no effect, as in Spring", "host"),
    ] {
        let notes =
            loaded(&format!("spring.cloud.gateway.routes: ['a=http://a,Path=/**']\n{line}\n")).notes.to_string();
        assert!(notes.contains(&format!("test.yaml:{place}: warning: {message}")), "{line}: {notes}");
        assert!(notes.contains(&format!("help: did you mean `{meant}`?\n")), "{line}: {notes}");
    }
    let in_route =
        "spring.cloud.gateway.routes: [{id: a, uri: 'http://a', predicates: [Path=/**], filter: [StripPrefix=1]}]\n";
    let notes = loaded(in_route).notes.to_string();
    assert!(notes.contains("unknown key `filter` has no effect, as in Spring"), "{notes}");
    for own in [
        "servers: {a: b}",
        "upstream: {a: b}",
        "sever: x",
        "spring.date: {x: y}",
        "resilience: {a: b}",
        "service: {port: 1}",
    ] {
        let notes = loaded(&format!("spring.cloud.gateway.routes: ['a=http://a,Path=/**']\n{own}\n")).notes.to_string();
        assert!(!notes.contains("warning"), "{own}: {notes}");
    }
}
