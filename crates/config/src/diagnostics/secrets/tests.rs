//! Tests of masking.

use super::*;
use crate::diagnostics::{Diagnostic, Severity, UnknownKind, UnknownName};

#[test]
fn secrets_are_masked_and_columns_stay() {
    for (line, masked) in [
        ("  password: hunter2", "  password: *******"),
        ("  password: 'hun ter2' # note", "  password: '********' # note"),
        ("redis: {key-store-password: abc, url: x}", "redis: {key-store-password: ***, url: x}"),
        ("  spring.data.redis.password: abc # note", "  spring.data.redis.password: *** # note"),
        ("  url: redis://user:pä:s@s@host:6379/0", "  url: redis://user:******@host:6379/0"),
        ("  url: 'redis://:a/b@host'", "  url: 'redis://:***@host'"),
        ("  listOfServers: \"a:80, u:pw@h:1,b:2\"", "  listOfServers: \"a:80, u:**@h:1,b:2\""),
        ("a.ribbon.listOfServers=u:pw@h:1", "a.ribbon.listOfServers=u:**@h:1"),
        ("- AddRequestHeader=Authorization, Bearer x, y", "- AddRequestHeader=Authorization, ***********"),
        ("filters: ['SetRequestHeader=X-Api-Key, k1', A=b]", "filters: ['SetRequestHeader=X-Api-Key, **', A=b]"),
        ("args: {name: X-Token, value: abc}", "args: {name: X-Token, value: ***}"),
        ("    value: Basic abc", "    value: *********"),
        ("args: {nam: Authorization, value: abc}", "args: {nam: Authorization, value: ***}"),
        ("- AddRequestHeader=Authorization Bearer x", "- AddRequestHeader=Authorization ********"),
        ("- AddRequestHeadersIfNotPresent=X-Key:a b,X-B:c", "- AddRequestHeadersIfNotPresent=X-Key:***,X-B:c"),
        ("otlp: {headers: {A: b, C: \"d\"}, timeout: 1s}", "otlp: {headers: {A: *, C: \"*\"}, timeout: 1s}"),
        ("  Authorization: Bearer abc", "  Authorization: **********"),
        ("  password: ${PASSWORD:abc}", "  password: ***************"),
        ("redis: {passwrd: abc, url: x}", "redis: {passwrd: ***, url: x}"),
        ("jwt: {secrt: abc}", "jwt: {secrt: ***}"),
        ("  pwd: abc", "  pwd: ***"),
        ("redis: {password:abc, url: x}", "redis: {password:***, url: x}"),
        ("redis: {url: ä,api-key:äbc}", "redis: {url: ä,api-key:***}"),
    ] {
        assert_eq!(mask_line(&FileLines::of(line), 0, &UnknownNames::default()), masked);
        assert_eq!(line.chars().count(), masked.chars().count());
    }
}

#[test]
fn other_values_are_shown() {
    for line in [
        "  password: ${REDIS_PASSWORD}",
        "redis: {password: ${REDIS_PASSWORD}, timeout: 1s}",
        "  args: {redis-rate-limiter.requestedTokens: 1, algorithm: token-bucket}",
        "  uri: http://localhost:8080/a@b",
        "- AddRequestHeader=X-Colour, red",
        "  key-resolver: header:x-api-key",
        "  args: {key-resolvers: [ip, cookie:session], a: ${PORT:80}}",
        "  username: gateway",
    ] {
        let shown = mask_line(&FileLines::of(line), 0, &UnknownNames::default());
        assert!(shown == line || line.contains("a@b"), "{shown}");
    }
}

#[test]
fn messages_do_not_repeat_a_secret() {
    let line = "- AddRequestHeader=Authorization, Bearer x, and y";
    assert_eq!(
        mask_message(
            "expected text, found `hunter2`",
            &FileLines::of("  password: hunter2"),
            Some(0),
            &UnknownNames::default()
        ),
        "expected text, found `****`"
    );
    assert_eq!(
        mask_message(
            "`and y` is one too many for `AddRequestHeader`",
            &FileLines::of(line),
            Some(0),
            &UnknownNames::default()
        ),
        "`****` is one too many for `AddRequestHeader`"
    );
    assert_eq!(
        mask_message("cannot read `redis://u:p@h:1x`", &FileLines::of(""), None, &UnknownNames::default()),
        "cannot read `redis://u:****@h:1x`"
    );
}

#[test]
fn unknown_names_are_masked_as_the_suggested_ones() {
    // The wording of messages has no effect.
    let unknown = |kind, name: &str, suggested: Option<&str>| Diagnostic {
        severity: Severity::Error,
        file: 0,
        line: 1,
        column: 1,
        message: format!("there is no such thing, in `x`: `{name}`"),
        also: Vec::new(),
        help: Some("try `y` or `client-secret`".to_owned()),
        unknown: Some(UnknownName { kind, name: name.to_owned(), suggested: suggested.map(str::to_owned) }),
        is_mistake: false,
        names_sections: false,
    };
    let reworded = unknown(UnknownKind::Key, "other", None);
    let names = UnknownNames::of(&[
        unknown(UnknownKind::Component, "AddRequestHeadr", Some("AddRequestHeader")),
        unknown(UnknownKind::Component, "OurHeader", None),
        unknown(UnknownKind::Key, "client-scr", Some("client-secret")),
        unknown(UnknownKind::Key, "client-nm", Some("client-name")),
        // Words in messages are not names.
        Diagnostic {
            message: "unknown key `zone`".to_owned(),
            help: Some("did you mean `secret`?".to_owned()),
            unknown: None,
            ..reworded
        },
    ]);
    for (line, masked) in [
        ("- AddRequestHeadr=X-Api-Key, abc", "- AddRequestHeadr=X-Api-Key, ***"),
        ("- 'OurHeader=X-Token, abc'", "- 'OurHeader=X-Token, ***'"),
        ("- OurHeader=X-Key:abc,X-B:c", "- OurHeader=X-Key:***,*****"),
        ("- OurHeader=X-Colour, red", "- OurHeader=X-Colour, red"),
        ("a: {client-scr: abc, client-nm: d}", "a: {client-scr: ***, client-nm: d}"),
        ("a: {zone: abc, x: d}", "a: {zone: abc, x: d}"),
    ] {
        assert_eq!(mask_line(&FileLines::of(line), 0, &names), masked);
    }
    assert_eq!(mask_message("found `abc`", &FileLines::of("client-scr: abc"), Some(0), &names), "found `****`");
}
