//! Stand-ins for parts of an application that are Java, and the overlay that `check` proposes.

use crate::tests::files::Folder;
use crate::tests::*;

const APPLICATION: &str = "\
spring.cloud.gateway:
  default-filters: [RequestTime]
  routes:
  - {id: a, uri: 'lb://ORDER-SERVICE', predicates: [Path=/a/**], filters: [TokenRelay=, JwtAuthenticationFilter, 'AuthCheck=admin', SaveSession]}
  - {id: b, uri: 'lb://order-service', predicates: [Path=/b/**], filters: [TokenRelay, {name: JwtAuthenticationFilter}]}
  - id: c
    uri: 'lb:ws://chat'
    predicates: [Path=/c/**]
    filters:
    - {name: RequestRateLimiter, args: {key-resolver: '#{@userKeyResolver}', redis-rate-limiter.replenishRate: 1}}
    - {name: RequestRateLimiter, args: {redis-rate-limiter.replenishRate: 2}}
";

#[test]
fn a_misspelled_filter_and_one_of_our_own_form_have_no_stand_in() {
    for (name, filter, is_proposed) in [
        ("application.yml", "RequestRatelimiter", false),
        ("application.yml", "RequestRateLimter", false),
        ("application.yml", "RateLimitByUser", true),
        ("application.yml", "RequestTime", true),
        ("a.yaml", "RequestRatelimiter", false),
        ("a.yaml", "RateLimitByUser", false),
    ] {
        let root = if name == "a.yaml" { "routes" } else { "spring.cloud.gateway.routes" };
        let text = format!("{root}: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{filter}]}}]\n");
        let report = parse(name, &text, &no_env).unwrap_err();
        assert_eq!(report.overlay(&[name], None).is_some(), is_proposed, "{filter}");
        assert_eq!(report.has_other_errors(), !is_proposed, "{filter}");
    }
}

#[test]
fn a_filter_that_limits_by_another_name_is_asked_about() {
    for filter in ["Throttle=1", "RateLimiting", "ThrottleRequests", "RequestLimiterByUser", "RateLimitByUser"] {
        let text = format!(
            "spring.cloud.gateway.routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{filter}]}}]\n"
        );
        let report = parse("application.yml", &text, &no_env).unwrap_err();
        assert!(report.to_string().contains("help: did you mean `RequestRateLimiter`?"), "{report}");
        let overlay = report.overlay(&["application.yml"], None).unwrap();
        assert!(overlay.contains(": skip # or correct the name: did you mean `RequestRateLimiter`?"), "{overlay}");
    }
}

#[test]
fn one_overlay_adds_everything_that_is_missing() {
    let folder = Folder::of(&[("application.yml", APPLICATION)]);
    let LoadError::Invalid(report) =
        load(&[folder.path("application.yml")], &crate::CommandLine::default()).unwrap_err()
    else {
        panic!()
    };
    let text = report.to_string();
    assert_eq!(text.matches("unknown filter `JwtAuthenticationFilter` (2 times)").count(), 1, "{text}");
    assert_eq!(text.matches("`TokenRelay` is left out (in 2 lists of filters)").count(), 1, "{text}");
    assert_eq!(text.matches("`SaveSession` is left out: ").count(), 1, "{text}");
    assert!(text.contains("warning: without `key-resolver` Spring takes the only KeyResolver bean"), "{text}");
    assert!(text.contains("or name the registry that knows it, such as `eureka.client"), "{text}");
    assert!(!report.has_other_errors());
    let overlay = report.overlay(&["application.yml"], None).unwrap();
    assert_eq!(
        overlay,
        "\
# Save this as overlay.yaml, correct the values, and use it:
#   tollgate check application.yml --config overlay.yaml
#   tollgate --config application.yml --config overlay.yaml
upstreams:
  ORDER-SERVICE: {endpoints: [\"${ORDER_SERVICE_URL:http://order-service:8080}\"]} # or `dns: {name: order-service, port: 8080}`
  chat: {endpoints: [\"${CHAT_URL:http://chat:8080}\"]} # or `dns: {name: chat, port: 8080}`
key-resolvers:
  default: ip # the KeyResolver bean of the application; without one, Spring counts by the user
  userKeyResolver: \"header:Authorization\" # counts by token; for its user write \"jwt:sub\" with `tollgate: {jwt: …}`, or \"header:X-User\"
filter-beans:
  AuthCheck: skip # `skip` admits requests that the filter refuses; `{use: jwt}` verifies tokens by `tollgate: {jwt: {jwks: …}}`
  JwtAuthenticationFilter: skip # `skip` admits requests that the filter refuses; `{use: jwt}` verifies tokens by `tollgate: {jwt: {jwks: …}}`
  RequestTime: skip # or correct the name: did you mean `RequestSize`?
"
    );
    folder.write("overlay.yaml", &overlay);
    let loaded = folder.load(&["application.yml", "overlay.yaml"], None).unwrap_or_else(|error| panic!("{error}"));
    let worst: Vec<&str> = loaded
        .notes
        .list()
        .iter()
        .filter(|note| note.severity != Severity::Note && !note.message.contains("is left out"))
        .map(|note| note.message.as_str())
        .collect();
    assert!(worst.is_empty(), "{}", loaded.notes);
    assert_eq!(loaded.notes.overlay(&["application.yml"], None), None);
    assert_eq!(loaded.config.routes.iter().map(|route| route.filters.len()).collect::<Vec<_>>(), [0, 0, 2]);
}

#[test]
fn a_stand_in_is_another_filter_with_its_own_arguments() {
    let with = |beans: &str| {
        format!(
            "spring.cloud.gateway.routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: ['Mine=1', Yours, StripPrefix=1]}}]\nfilter-beans: {beans}\n"
        )
    };
    let text = with("{Mine: {use: 'AddRequestHeader=X-A,b'}, yours: {use: RequestSize, args: {maxSize: 5}}}");
    let config = loaded(&text).config;
    assert_eq!(
        config.routes[0].definition.filters,
        ["AddRequestHeader=X-A,b", "RequestSize{maxSize=5}", "StripPrefix=1"]
    );
    for (beans, error) in [
        ("{Mine: yes, Yours: skip}", "`filter-beans.Mine` is no stand-in"),
        ("{Mine: {use: jwt, clam: sub}, Yours: skip}", "`filter-beans.Mine` is no stand-in"),
        ("{Mine: {args: {}}, Yours: skip}", "`filter-beans.Mine` is no stand-in"),
        ("{Mine: skip, Yours: {use: Nothing}}", "unknown filter `Nothing`"),
        ("{Mine: skip, Yours: skip, StripPrefix: skip}", "`StripPrefix` is a filter of the gateway"),
        (
            "{Mine: skip, Yours: {use: jwt}}",
            if cfg!(feature = "jwt") { "needs a section `jwt`" } else { "needs the feature `jwt`" },
        ),
    ] {
        let rendered = refused(&with(beans));
        assert!(rendered.contains(error), "{beans}: {rendered}");
    }
    let notes = loaded(&with("{Mine: skip, Yours: skip, Other: skip}")).notes.to_string();
    assert!(notes.contains("warning: `filter-beans.Other` has no effect"), "{notes}");
    assert!(notes.contains("note: the filter `Mine` is left out, in 1 list of filters"), "{notes}");
}

#[cfg(feature = "jwt")]
#[test]
fn a_verifier_of_tokens_requires_no_claim_and_limits_nothing() {
    let folder = Folder::of(&[(
        "jwks.json",
        r#"{"keys": [{"kty": "oct", "kid": "a", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}"#,
    )]);
    let with = |bean: &str| {
        format!(
            "spring.cloud.gateway.routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [JwtFilter]}}]\ntollgate.jwt: {{jwks: '{}', algorithms: [HS256], audience: a}}\nfilter-beans.JwtFilter: {bean}\n",
            folder.path("jwks.json").display()
        )
    };
    for (bean, filter, resolver, status) in [
        ("{use: jwt}", "RequireToken", "jwt", 401),
        ("{use: jwt, status: 403}", "RequireToken{status=403}", "jwt", 403),
        ("{use: jwt, claim: tenant.id}", "RequireToken{claim=tenant.id}", "jwt:tenant.id", 401),
    ] {
        let text = with(bean);
        let migrated = migrate("application.yml", &text, &no_env).unwrap().yaml;
        for text in [&text, &migrated] {
            let loaded = loaded(text);
            let route = &loaded.config.routes[0];
            let Filter::Plain(PlainFilter::RequireKey(settings)) = &route.filters[0] else { panic!("{text}") };
            assert_eq!((settings.key_resolver.to_string().as_str(), settings.status.as_u16()), (resolver, status));
            assert_eq!(route.definition.filters, [filter], "{text}");
            assert!(!route.filters[0].counts_requests());
            assert!(!format!("{}{text}", loaded.notes).to_lowercase().contains("limit"), "{text}{}", loaded.notes);
        }
    }
    assert!(refused(&with("{use: jwt, status: 500}")).contains("`RequireToken` needs a 4xx status"));
    let own = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**], filters: [RequireToken]}]\n";
    assert!(refused(own).contains("needs a section `jwt`"));
}

#[test]
fn a_default_resolver_is_that_of_limiters_without_one() {
    let text = "key-resolvers: {default: 'header:X-A'}\nspring.cloud.gateway.routes: [{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{name: RequestRateLimiter, args: {redis-rate-limiter.replenishRate: 1}}]}]\n";
    let loaded = loaded(text);
    let Filter::RequestRateLimiter(limiter) = &loaded.config.routes[0].filters[0] else { panic!() };
    assert_eq!(limiter.settings.key_resolver.to_string(), "header:x-a");
    assert!(!loaded.notes.to_string().contains("warning"), "{}", loaded.notes);
    let migrated = migrate("a.yml", text, &no_env).unwrap().yaml;
    let config = super::loaded(&migrated).config;
    let Filter::RequestRateLimiter(limiter) = &config.routes[0].filters[0] else { panic!() };
    assert_eq!(limiter.settings.key_resolver.to_string(), "header:x-a");
}

#[test]
fn filters_that_are_left_out_keep_their_numbers() {
    let run = |defaults: &str, own: &str| {
        let text = format!(
            "spring.cloud.gateway:\n  default-filters: [{defaults}]\n  routes: [{{id: a, uri: 'http://a', predicates: [Path=/**], filters: [{own}]}}]\nfilter-beans: {{Mine: skip, Yours: {{use: SetPath=/y}}}}\n"
        );
        let old = parse("application.yml", &text, &no_env).unwrap_or_else(|problems| panic!("{problems}"));
        let migrated = crate::migrate("application.yml", &text, &no_env).unwrap().yaml;
        let new = parse("new.yaml", &migrated, &no_env).unwrap_or_else(|problems| panic!("{problems}{migrated}"));
        let filters = |config: &Config| config.routes[0].definition.filters.join(" ");
        assert_eq!(filters(&old.config), filters(&new.config), "{migrated}");
        filters(&old.config)
    };
    let plain = run("PreserveHostHeader", "StripPrefix=1, StripPrefix=2");
    assert_eq!(plain, "PreserveHostHeader StripPrefix=1 StripPrefix=2");
    // In Spring: Mine (1), StripPrefix=1 (1), PreserveHostHeader (2), StripPrefix=2 (2).
    let behind = "StripPrefix=1 PreserveHostHeader StripPrefix=2";
    assert_eq!(run("Mine, PreserveHostHeader", "StripPrefix=1, StripPrefix=2"), behind);
    assert_eq!(run("{name: Mine, args: {a: 1}}, PreserveHostHeader", "StripPrefix=1, StripPrefix=2"), behind);
    assert_eq!(run("TokenRelay=, PreserveHostHeader", "StripPrefix=1, SaveSession, StripPrefix=2"), behind);
    // Those of the route: PreserveHostHeader (1), Mine (1), SecureHeaders (2), StripPrefix=1 (2).
    assert_eq!(
        run("PreserveHostHeader, SecureHeaders", "Mine, StripPrefix=1"),
        "PreserveHostHeader SecureHeaders StripPrefix=1"
    );
    assert_eq!(
        run("Mine, SaveSession, SecureHeaders", "Mine, StripPrefix=1, StripPrefix=2"),
        "StripPrefix=1 SecureHeaders StripPrefix=2"
    );
    assert_eq!(run("Yours, PreserveHostHeader", "StripPrefix=1, Mine"), "SetPath=/y StripPrefix=1 PreserveHostHeader");
    assert_eq!(run("Mine", "Mine"), "");
}

#[test]
fn rate_limiters_of_an_application_have_stand_ins() {
    let file = |args: &str| {
        format!(
            "spring.cloud.gateway.routes:\n- id: a\n  uri: http://a\n  predicates: [Path=/**]\n  filters:\n  - name: RequestRateLimiter\n    args: {{key-resolver: '#{{@ipKeyResolver}}', rate-limiter: '#{{@myLimiter}}'{args}}}\n"
        )
    };
    for (args, proposed, rate, burst) in [
        ("", "{use: RequestRateLimiter, args: {redis-rate-limiter: {replenishRate: 10, burstCapacity: 20}}}", 10, 20),
        (
            ", redis-rate-limiter.replenishRate: 3, redis-rate-limiter.burstCapacity: 5",
            "{use: RequestRateLimiter}",
            3,
            5,
        ),
    ] {
        let report = parse("a.yml", &file(args), &|_| None).unwrap_err();
        let overlay = report.overlay(&["a.yml"], None).unwrap();
        assert!(overlay.contains(&format!("  myLimiter: {proposed} # ")), "{report}{overlay}");
        assert!(overlay.contains("  ipKeyResolver: ip\n") && !report.has_other_errors(), "{report}");
        assert_eq!(report.list().iter().filter(|one| one.severity == Severity::Error).count(), 2, "{report}");
        let folder = Folder::of(&[("a.yml", &file(args)), ("overlay.yaml", &overlay)]);
        let loaded = folder.load(&["a.yml", "overlay.yaml"], None).unwrap_or_else(|error| panic!("{error}"));
        let same = format!(
            "{{key-resolver: ip, redis-rate-limiter.replenishRate: {rate}, redis-rate-limiter.burstCapacity: {burst}}}"
        );
        let plain = file("").replace("{key-resolver: '#{@ipKeyResolver}', rate-limiter: '#{@myLimiter}'}", &same);
        let plain = parse("b.yml", &plain, &|_| None).unwrap();
        let filters = |loaded: &Loaded| format!("{:?}", loaded.config.routes[0].filters);
        assert_eq!(filters(&loaded), filters(&plain));
        folder.write("overlay.yaml", "filter-beans.myLimiter: skip\n");
        assert!(folder.load(&["a.yml", "overlay.yaml"], None).unwrap().config.routes[0].filters.is_empty());
    }
}

#[test]
fn filters_and_predicates_without_a_sound_stand_in_name_the_way_on() {
    let text = |predicates: &str, filters: &str| {
        format!(
            "spring.cloud.gateway.routes:\n- {{id: a, uri: 'http://a', predicates: [{predicates}], filters: [{filters}]}}\n"
        )
    };
    let cached = text("Path=/**", "{name: CacheRequestBody, args: {bodyClass: java.lang.String}}, StripPrefix=1");
    let notes = loaded(&cached).notes.to_string();
    assert!(notes.contains("warning: `CacheRequestBody` is left out: bodies stream here"), "{notes}");
    let report = |text: &str| parse("a.yml", text, &|_| None).unwrap_err();
    let grpc = report(&text("Path=/**", "'JsonToGrpc=a.pb,a.proto,S,m'"));
    assert_eq!(grpc.overlay(&[], None), None);
    assert!(grpc.to_string().contains("help: let the upstream speak JSON, or put a transcoder"), "{grpc}");
    let changed = report(&text("Path=/**", "{name: ModifyResponseBody}"));
    assert!(
        changed.overlay(&[], None).unwrap().contains("  ModifyResponseBody: skip # `skip` forwards bodies unchanged")
    );
    assert!(!changed.has_other_errors());
    let custom = report(&text("Path=/**, BusinessHours=9", "StripPrefix=1"));
    assert_eq!(custom.overlay(&[], None), None);
    assert!(custom.to_string().contains("`BusinessHoursRoutePredicateFactory`, does not run here"), "{custom}");
}

#[test]
fn a_fallback_to_a_controller_has_a_stand_in_only_in_a_spring_file() {
    let breaker = |path: &str| format!("{{name: CircuitBreaker, args: {{name: a, fallbackUri: 'forward:{path}'}}}}");
    let route = |path: &str| {
        format!("routes: [{{id: a, uri: 'http://a', predicates: [Path=/a/**], filters: [{}]}}]\n", breaker(path))
    };
    let proposed = |name: &str, text: &str| {
        let loaded = parse(name, text, &no_env).unwrap_or_else(|problems| panic!("{problems}"));
        loaded.notes.overlay(&[name], None)
    };
    let overlay = proposed("application.yml", &format!("spring.cloud.gateway.{}", route("/fallback/a?b=c"))).unwrap();
    let stand_in = "tollgate:\n  routes:\n  - {id: \"stand-in-fallback-a\", uri: \"no://op\", predicates: [\"Path=/fallback/a\"], \
                    filters: [SetStatus=503]} # for a controller of the application, which does not exist here\n";
    assert!(overlay.ends_with(stand_in), "{overlay}");
    assert_eq!(proposed("tollgate.yaml", &route("/fallback/a")), None, "no controller belongs to our own form");
}

#[test]
fn an_argument_that_a_comma_in_a_list_cut_off_is_told() {
    let text = "routes: [{id: a, uri: 'http://a', predicates: [Path=/a], filters: [AddResponseHeader=X-A, b, 'SetStatus=200']}]\n";
    for text in [text.to_owned(), format!("spring.cloud.gateway.{text}")] {
        let report = parse("application.yml", &text, &|_| None).unwrap_err();
        let shown = report.to_string();
        assert!(
            shown.contains("unknown filter `b`") && shown.contains("within `[…]`, a comma ends an entry"),
            "{shown}"
        );
        assert!(!shown.contains("Java class") && report.overlay(&[], None).is_none(), "{shown}");
    }
}
