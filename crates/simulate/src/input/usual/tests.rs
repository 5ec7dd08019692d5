use super::super::json;
use super::*;

/// Returns the entry of a line as text, or the problem; `None` if the line has another form.
fn usual(line: &str, map: &Map) -> Option<String> {
    let mut fields = Fields::default();
    let outcome = parse(line, map, &mut fields)?;
    Some(format!("{:?}", outcome.map_err(str::to_owned).and_then(|()| json::finish(&mut fields, map))))
}

fn general(line: &str, map: &Map) -> String {
    let mut fields = Fields::default();
    format!("{:?}", json::parse_any(line, map, &mut fields))
}

#[test]
fn usual_lines_are_read_as_by_the_general_parser() {
    let own = Map::default();
    let line = r#"{"time":"2026-11-22T10:00:00.000007Z","client":"192.0.2.1","host":"a","method":"POST","target":"/a?b","status":429,"bytes":0,"duration_ms":1.25,"route":"r","verdict":"denied","rule":"x","key":"kü","remaining":0,"decided_us":[1795341600000042,1795341600000043],"decided_order":[1,0],"observed":["s","t"],"none":[],"keys":{"x":"k","y":""},"more":null,"user_agent":"-","referer":"u","gone":false}"#;
    assert_eq!(usual(line, &own), Some(general(line, &own)));
    let spaced = line.replace(':', " : ").replace("2026-11-22T10 : 00 : 00", "2026-11-22T10:00:00").replace(',', " , ");
    assert_eq!(usual(&format!(" {spaced} "), &own), Some(general(&spaced, &own)));
    let map = Map::parse("time=ts,ip=addr,path=uri,query=q,header.x-key=key,status=code").unwrap();
    for line in [
        r#"{"ts":1795341600,"uri":"/a","q":"b=c","key":7,"addr":"192.0.2.1:5","code":"200"}"#,
        r#"{"uri":"/a","ts":"soon"}"#,
        r#"{"uri":null,"ts":1}"#,
        r#"{"ts":1795341600,"uri":"/a","q":"","key":"-"}"#,
        r#"{"ts":[1],"uri":"/a"}"#,
        "{}",
    ] {
        assert_eq!(usual(line, &map), Some(general(line, &map)), "{line}");
    }
}

#[test]
fn other_lines_are_left_to_the_general_parser() {
    let map = Map::parse("time=ts,path=http.uri").unwrap();
    for line in [
        "",
        "{",
        "{\"a\"",
        "{\"a\":1",
        "{\"a\":1,}",
        "{\"a\":1}x",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":1e5}",
        "{\"a\":-1}",
        "{\"a\":nul}",
        "{\"a\":\"b}",
        "{\"a\" 1}",
        "{a:1}",
        "{\"a\":\"\\u0041\"}",
        "{\"a\":\"\t\"}",
        "{\"ts\":1.5}",
        "{\"ts\":12345678901234567890}",
        "{\"ts\":[]}",
        "{\"a\":[\"b\"}",
        "{\"a\":[1,]}",
        "{\"a\":[[1]]}",
        "{\"a\":[{}]}",
        "{\"ts\":[1,2,3,4,5,6,7,8,9]}",
        "{\"ts\":1,\"http\":{\"uri\":\"/\"}}",
        "[1]",
    ] {
        assert_eq!(usual(line, &map), None, "{line}");
    }
}
