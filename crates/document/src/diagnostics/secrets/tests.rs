//! Tests of masking.

use super::*;
use crate::diagnostics::{Diagnostic, Severity, UnknownKind, UnknownName};

fn file(text: &str) -> SourceFile {
    let name = if text.contains(".ribbon.") { "a.properties" } else { "a.yaml" };
    SourceFile::new(name, text)
}

/// Returns `text` as excerpts show it.
fn masked_with(text: &str, unknown: &UnknownNames) -> String {
    let (secrets, lines) = (Secrets::of(&file(text), unknown), FileLines::of(text));
    (0..lines.count()).map(|at| secrets.mask_line(&lines, at, &SecretValues::default())).collect::<Vec<_>>().join("\n")
}

fn masked(text: &str) -> String {
    masked_with(text, &UnknownNames::default())
}

/// Returns a message about the line at `at` of `text`.
fn message(message: &str, text: &str, at: Option<usize>) -> String {
    let secrets = Secrets::of(&file(text), &UnknownNames::default());
    let line = at.map(|at| FileLines::of(text).bytes(at)).map(|line| (line.clone(), line.start));
    secrets.mask_message(
        message,
        line,
        &SecretValues::of(secrets.texts(), Some(|text| ["password", "unknown"].contains(&text))),
    )
}

#[test]
fn secrets_are_masked_and_columns_stay() {
    for (line, shown) in [
        ("  password: hunter2", "  password: *******"),
        ("  password: 'hun ter2' # note", "  password: '********' # note"),
        ("redis: {key-store-password: abc, url: x}", "redis: {key-store-password: ***, url: x}"),
        ("  spring.data.redis.password: abc # note", "  spring.data.redis.password: *** # note"),
        ("  url: redis://user:pä:s@s@host:6379/0", "  url: redis://user:******@host:6379/0"),
        ("  url: 'redis://:a/b@host'", "  url: 'redis://:***@host'"),
        ("  url: redis://u:hunter2@:6379", "  url: redis://u:*******@:6379"),
        ("  url: redis://u:hunter2@/0", "  url: redis://u:*******@/0"),
        ("  url: redis://u:hunter2@", "  url: redis://u:*******@"),
        ("  url: redis://u:hunter2@_redis:6379", "  url: redis://u:*******@_redis:6379"),
        ("  uri: http://h:@port@/a", "  uri: http://h:@port@/a"),
        ("  url: 'redis://:a/b'", "  url: 'redis://:***'"),
        ("  url: redis://:123456", "  url: redis://:******"),
        ("  url: jdbc:oracle:thin:scott/tiger@//h:1/x", "  url: jdbc:oracle:thin:scott/*****@//h:1/x"),
        ("  url: jdbc:sqlserver://h:1;user=sa;password=abc", "  url: jdbc:sqlserver://h:1;user=sa;password=***"),
        ("  database-url: postgres://u:pw@h/d", "  database-url: postgres://u:**@h/d"),
        ("  amqp-url: 'amqp://u:pw@h:1/v'", "  amqp-url: 'amqp://u:**@h:1/v'"),
        ("a: {auth: abc, jwt: {issuer: d}, basic-auth: [e]}", "a: {auth: ***, jwt: {issuer: d}, basic-auth: [*]}"),
        ("cors: {allowCredentials: true}", "cors: {allowCredentials: true}"),
        ("  url: redis://user:6379x/0", "  url: redis://user:*******"),
        ("  listOfServers: \"a:80, u:pw@h:1,b:2\"", "  listOfServers: \"a:80, u:**@h:1,b:2\""),
        ("a.ribbon.listOfServers=u:pw@h:1", "a.ribbon.listOfServers=u:**@h:1"),
        ("- AddRequestHeader=Authorization, Bearer x, y", "- AddRequestHeader=Authorization, ***********"),
        ("filters: ['SetRequestHeader=X-Api-Key, k1', A=b]", "filters: ['SetRequestHeader=X-Api-Key, **', A=b]"),
        ("args: {name: X-Token, value: abc}", "args: {name: X-Token, value: ***}"),
        ("    value: Basic abc", "    value: *********"),
        ("ca: \"-----BEGIN RSA PRIVATE KEY-----\\nMI\"", "ca: \"***********************************\""),
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
        (
            "redis: {url: x, x: {password: a, x}, passwords: [b, c]}",
            "redis: {url: x, x: {password: *, x}, passwords: [*, *]}",
        ),
        ("exempt: [{abc: def}, ghi]", "exempt: [{***: ***}, ***]"),
        ("redis: {password: {abc: def}, url: x}", "redis: {password: {***: ***}, url: x}"),
        ("table: {abc: gold, abc: gold}", "table: {***: gold, ***: gold}"),
        ("otlp: {headers: {A: b, A: c}}", "otlp: {headers: {A: *, A: *}}"),
        ("redis: {url: x}\t# password: abc", "redis: {url: x}\t#**************"),
    ] {
        assert_eq!(masked(line), shown);
        assert_eq!(line.chars().count(), shown.chars().count());
    }
}

#[test]
fn other_values_are_shown() {
    for line in [
        "  password: ${REDIS_PASSWORD}",
        "redis: {password: '${REDIS_PASSWORD}', timeout: 1s}",
        "  args: {redis-rate-limiter.requestedTokens: 1, algorithm: token-bucket}",
        "  uri: http://localhost:8080/a@b",
        "- uri: http://localhost:8080/a:b",
        "- uri: http://[::1]:8080/",
        "- uri: http://${HOST:a}:${PORT:80}/",
        "  nodes: redis://a:1,b:2",
        "- AddRequestHeader=X-Colour, red",
        "  key-resolver: header:x-api-key",
        "  args: {key-resolvers: [ip, cookie:session], a: '${PORT:80}'}",
        "  username: gateway",
    ] {
        let shown = masked(line);
        assert!(shown == line || line.contains("a@b"), "{shown}");
    }
}

#[test]
fn messages_do_not_repeat_a_secret() {
    let line = "- AddRequestHeader=Authorization, Bearer x, and y";
    for (words, text, at, shown) in [
        ("expected text, found `hunter2`", "  password: hunter2", Some(0), "expected text, found `****`"),
        ("`and y` is one too many for `X`", line, Some(0), "`****` is one too many for `X`"),
        ("cannot read `redis://u:p@h:1x`", "", None, "cannot read `redis://u:****@h:1x`"),
        ("found `a\"b c`", "a: 1\npassword: \"a\\\"b c\"", Some(1), "found `****`"),
        // A value of another line.
        ("`hunter2-long` is no number", "a: 1\npassword: hunter2-long", Some(0), "`****` is no number"),
        ("hunter2-longer is no number", "a: 1\npassword: hunter2-long", Some(0), "****er is no number"),
        ("`redis` is no number", "a: 1\npassword: redis", Some(0), "`redis` is no number"),
        ("`password` is no number", "a: 1\npassword: password", Some(0), "`password` is no number"),
        // A word of messages, and one within a longer word.
        ("found `password` in `password-file`", "password: password", Some(0), "found `****` in `password-file`"),
    ] {
        assert_eq!(message(words, text, at), shown);
    }
}

#[test]
fn messages_do_not_repeat_a_key() {
    let text = "exempt:\n  - abc\n  - 10.0.0.0/99";
    let shown = |at| message("`abc` is no network; `10.0.0.0/99` neither", text, Some(at));
    assert_eq!(shown(1), "`****` is no network; `10.0.0.0/99` neither");
    assert_eq!(shown(2), "`abc` is no network; `10.0.0.0/99` neither");
}

#[test]
fn a_text_that_cannot_be_read_is_masked_if_it_mentions_a_secret() {
    for text in [
        "password: \"hunter2",
        "redis: {password: hunter2: x",
        "- AddRequestHeader=Authorization, Bearer x: y: z",
        "a: b: redis://u:pw@h",
        "a:\n\tpassword: hunter2\n b: [",
        "exempt:\n- a\n- b: [",
        "exempt:\n  - a\n - b",
        "password: ''\n  \"a\"",
        "pass\nword:\n a: [",
        "a: {b: [}\n---\npasswrd: c",
    ] {
        let shown: String = text.chars().map(|c| if c.is_whitespace() { c } else { '*' }).collect();
        assert_eq!(masked(text).replace(' ', "*"), shown.replace(' ', "*"));
    }
    for text in
        ["routes: [{id: a, uri: 'echo:', predicates: [Path=/a}]", "key-resolver: [ip", "cors: {allowCredentials: [true"]
    {
        assert_eq!(masked(text), text);
    }
    let properties = Secrets::of(&SourceFile::new("a.properties", "password=hunter2\\u12"), &UnknownNames::default());
    assert_eq!(
        properties.mask_line(&FileLines::of("password=hunter2\\u12"), 0, &SecretValues::default()),
        "*".repeat(20)
    );
}

#[test]
fn a_comment_behind_a_value_shows_no_secret() {
    for (text, shown) in [
        ("port: x # password: hunter2", "port: x #******************"),
        ("#redis://u:pw@h", "#**************"),
        ("port: x # two ports", "port: x # two ports"),
        ("key-resolver: #{@apiKey}", "key-resolver: #{@apiKey}"),
        ("key-resolver: #{@apiKey} password: a", "key-resolver: #*********************"),
    ] {
        assert_eq!(masked(text), shown);
    }
}

#[test]
fn secrets_of_properties_are_masked() {
    let text = "a.password=hunter2\na.ribbon.listOfServers=u:pw@h:1\nf.args.name=X-Token\nf.args.value = abc\n\
                g.args.value=def\nb.exempt[0]=key\nc.table.key=gold\nd.headers.X=abc";
    let shown = "a.password=*******\na.ribbon.listOfServers=u:**@h:1\nf.args.name=X-Token\nf.args.value = ***\n\
                 g.args.value=def\nb.exempt[0]=***\nc.table.***=gold\nd.headers.X=***";
    assert_eq!(masked(text), shown);
}

#[test]
fn keys_in_lists_are_masked() {
    for (text, shown) in [
        ("exempt: [abc, 'd e', 10.0.0.0/8]", "exempt: [***, '***', 10.0.0.0/8]"),
        ("args: {exempt: [abc, d], block: [e], rate: 1}", "args: {exempt: [***, *], block: [*], rate: 1}"),
        ("args: {block: abc, rate: 1}", "args: {block: ***, rate: 1}"),
        ("  block: abc, def # note", "  block: ***, *** # note"),
        ("exempt:\n  - abc # one\n  # two\n  - 'd e'\nrate: 1", "exempt:\n  - *** # one\n  # two\n  - '***'\nrate: 1"),
        ("  exempt:\n  - abc\n  - ::1\n  rate: x", "  exempt:\n  - ***\n  - ::1\n  rate: x"),
        ("exempt: [abc,\n  def,\n  g]\nrate: 1", "exempt: [***,\n  ***,\n  *]\nrate: 1"),
        ("args: {exempt: [abc], block: [\n  def]}", "args: {exempt: [***], block: [\n  ***]}"),
        ("exempt: >-\n  abc,\n  def", "exempt: >-\n  ****\n  ***"),
        ("filters[0].args.exempt[0]: abc", "filters[0].args.exempt[0]: ***"),
        ("exempt: ['${KEY}', '${KEY:abc}']", "exempt: ['${KEY}', '**********']"),
        ("table: {abc: gold, 'd e': silver}", "table: {***: gold, '***': silver}"),
        ("table:\n  abc: gold\n  'd:e': silver\ncache: 5s", "table:\n  ***: gold\n  '***': silver\ncache: 5s"),
        ("plan-resolver: {table: {\n  abc: gold}}", "plan-resolver: {table: {\n  ***: gold}}"),
        ("password:\n  abc", "password:\n  ***"),
        ("password: |\n  abc def", "password: |\n  *******"),
        ("args:\n  name: X-Token\n  value: abc", "args:\n  name: X-Token\n  value: ***"),
        ("- regexp: abc\n  name: X-Token", "- regexp: ***\n  name: X-Token"),
    ] {
        assert_eq!(masked(text), shown);
    }
}

#[test]
fn other_lists_are_shown() {
    for text in [
        "predicates:\n  - Path=/a",
        "filters:\n  - name: RequestRateLimiter\n    args:\n      exempt: []\n      rate: 1",
        "credentials:\n  username: gateway",
        "args:\n  name: X-Token\n  status: 401\nother:\n  value: a",
        "tokens: [{name: ops, role: write}]",
    ] {
        assert_eq!(masked(text), text);
    }
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
    let reports = [
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
    ];
    let names = UnknownNames::of(reports.iter().filter_map(|report| report.unknown.as_ref()));
    for (line, masked) in [
        ("- AddRequestHeadr=X-Api-Key, abc", "- AddRequestHeadr=X-Api-Key, ***"),
        ("- 'OurHeader=X-Token, abc'", "- 'OurHeader=X-Token, ***'"),
        ("- OurHeader=X-Key:abc,X-B:c", "- OurHeader=X-Key:***,X-B:c"),
        ("- OurHeader=X-Colour, red", "- OurHeader=X-Colour, red"),
        ("a: {client-scr: abc, client-nm: d}", "a: {client-scr: ***, client-nm: d}"),
        ("a: {zone: abc, x: d}", "a: {zone: abc, x: d}"),
    ] {
        assert_eq!(masked_with(line, &names), masked);
    }
    let secrets = Secrets::of(&file("client-scr: abc"), &names);
    let shown = secrets.mask_message("found `abc`", Some((0..15, 0)), &SecretValues::default());
    assert_eq!(shown, "found `****`");
}

/// A part that reaches the end of its text is one secret, not one for each sign within it.
#[test]
fn secrets_of_a_long_text_are_no_longer_than_the_text() {
    for part in [
        "?password=x",
        "password:",
        "X-Key: a ",
        "AddRequestHeader=Authorization, x ",
        "user:secret@host,",
        "jdbc:oracle:thin:user/secret@//host ",
        "redis://:secret ",
        ":",
        "=",
        "password=abc ",
    ] {
        let text = part.repeat(1_000);
        let secrets = Secrets::of(&file(&format!("x: '{text}'\n")), &UnknownNames::default());
        let length: usize = secrets.all.iter().map(|secret| secret.text.len()).sum();
        assert!(length <= 40 * text.len(), "{part}: {length} bytes of secrets in {} bytes", text.len());
    }
}
