#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::yaml::locate::*;
use crate::yaml::{Node, NodeKind, Span, parse};

fn parsed(text: &str) -> (Vec<Node>, Places) {
    let mut places = Places::default();
    (parse(text, 0, &mut places).documents, places)
}

/// Every node below `node` with its path, and every key.
fn all(node: &Node, path: &str, into: &mut Vec<(String, Span)>) {
    into.push((path.to_owned(), node.span));
    match &node.kind {
        NodeKind::Seq(items) => {
            items.iter().enumerate().for_each(|(index, item)| all(item, &format!("{path}[{index}]"), into));
        }
        NodeKind::Map(entries) => {
            for (key, value) in entries {
                into.push((format!("{path}.{key}:"), value.span.key()));
                all(value, &format!("{path}.{key}"), into);
            }
        }
        NodeKind::Null | NodeKind::Scalar(_) => {}
    }
}

#[test]
fn every_node_and_key_is_located() {
    let text = "# first\na: 1\nb:\n- c: x\n  d: [1, {e: }, [2]]\n- \"f\"\ng: {h: {}, i: [[], 3]}\nj:\n  - - k\n    - l: [\n      ü, m]\n---\nn:\n  o: &p {q: r}\n  s: *p\n";
    let (documents, places) = parsed(text);
    let mut wanted = Vec::new();
    documents.iter().enumerate().for_each(|(number, document)| all(document, &number.to_string(), &mut wanted));
    let spans: Vec<Span> = wanted.iter().map(|(_, span)| *span).collect();
    let found = locate(text, &places, &spans);
    let lines: Vec<String> = wanted
        .iter()
        .zip(found)
        .map(|((path, _), at)| {
            format!("{path} {}", at.map_or("-".to_owned(), |(line, column)| format!("{line}:{column}")))
        })
        .collect();
    assert_eq!(
        lines.join(", "),
        "0 2:1, 0.a: 2:1, 0.a 2:4, 0.b: 3:1, 0.b 4:1, 0.b[0] 4:3, 0.b[0].c: 4:3, 0.b[0].c 4:6, \
         0.b[0].d: 5:3, 0.b[0].d 5:6, 0.b[0].d[0] 5:7, 0.b[0].d[1] 5:10, 0.b[0].d[1].e: 5:11, \
         0.b[0].d[1].e 5:14, 0.b[0].d[2] 5:17, 0.b[0].d[2][0] 5:18, 0.b[1] 6:3, 0.g: 7:1, 0.g 7:4, \
         0.g.h: 7:5, 0.g.h 7:8, 0.g.i: 7:12, 0.g.i 7:16, 0.g.i[0] 7:16, 0.g.i[1] 7:20, 0.j: 8:1, \
         0.j 9:3, 0.j[0] 9:5, 0.j[0][0] 9:7, 0.j[0][1] 10:7, 0.j[0][1].l: 10:7, 0.j[0][1].l 10:10, \
         0.j[0][1].l[0] 11:7, 0.j[0][1].l[1] 11:10, 1 13:1, 1.n: 13:1, 1.n 14:3, 1.n.o: 14:3, \
         1.n.o 14:9, 1.n.o.q: 14:10, 1.n.o.q 14:13, 1.n.s: 15:3, 1.n.s 14:9, 1.n.s.q: 14:10, \
         1.n.s.q 14:13"
    );
}

#[test]
fn keys_with_tags_are_found_as_well() {
    for text in ["a: {b: c,!x: \"y\"}\n", "!x a: [b]\n", "- {!x a: b, c: }\n"] {
        let (documents, places) = parsed(text);
        let mut wanted = Vec::new();
        all(&documents[0], "", &mut wanted);
        let spans: Vec<Span> = wanted.iter().map(|(_, span)| *span).collect();
        for ((path, _), at) in wanted.iter().zip(locate(text, &places, &spans)) {
            assert!(at.is_some(), "{path} in {text}");
        }
    }
}

#[test]
fn thousands_of_positions_need_few_readings() {
    let text: String = (0..3_000).map(|index| format!("- {{a: [{index}]}}\n")).collect();
    let (documents, places) = parsed(&text);
    let mut wanted = Vec::new();
    all(&documents[0], "", &mut wanted);
    let spans: Vec<Span> = wanted.iter().map(|(_, span)| *span).collect();
    let start = std::time::Instant::now();
    assert!(locate(&text, &places, &spans).iter().all(Option::is_some));
    // One reading for each would take minutes.
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
}
