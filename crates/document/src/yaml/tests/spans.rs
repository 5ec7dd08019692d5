//! Spans of nodes and keys.

use crate::yaml::{Node, NodeKind, Span, parse, parse_json};

/// Adds every node below `node` with its path, and every key.
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

fn spans(text: &str) -> Vec<(String, Span)> {
    let parsed = parse(text, 0);
    let mut found = Vec::new();
    parsed.documents.iter().enumerate().for_each(|(number, document)| all(document, &number.to_string(), &mut found));
    found
}

#[test]
fn every_node_and_key_has_its_position() {
    let text = "# first\na: 1\nb:\n- c: x\n  d: [1, {e: }, [2]]\n- \"f\"\ng: {h: {}, i: [[], 3]}\nj:\n  - - k\n    - l: [\n      ü, m]\n---\nn:\n  o: &p {q: r}\n  s: *p\nt:\nu: |\n  v\n";
    let lines: Vec<String> = spans(text)
        .iter()
        .map(|(path, span)| {
            let before = &text[..span.bytes().range().start];
            let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
            format!("{path} {}:{column}", before.matches('\n').count() + 1)
        })
        .collect();
    assert_eq!(
        lines.join(", "),
        "0 2:1, 0.a: 2:1, 0.a 2:4, 0.b: 3:1, 0.b 4:1, 0.b[0] 4:3, 0.b[0].c: 4:3, 0.b[0].c 4:6, \
         0.b[0].d: 5:3, 0.b[0].d 5:6, 0.b[0].d[0] 5:7, 0.b[0].d[1] 5:10, 0.b[0].d[1].e: 5:11, \
         0.b[0].d[1].e 5:14, 0.b[0].d[2] 5:17, 0.b[0].d[2][0] 5:18, 0.b[1] 6:3, 0.g: 7:1, 0.g 7:4, \
         0.g.h: 7:5, 0.g.h 7:8, 0.g.i: 7:12, 0.g.i 7:15, 0.g.i[0] 7:16, 0.g.i[1] 7:20, 0.j: 8:1, \
         0.j 9:3, 0.j[0] 9:5, 0.j[0][0] 9:7, 0.j[0][1] 10:7, 0.j[0][1].l: 10:7, 0.j[0][1].l 10:10, \
         0.j[0][1].l[0] 11:7, 0.j[0][1].l[1] 11:10, 1 13:1, 1.n: 13:1, 1.n 14:3, 1.n.o: 14:3, \
         1.n.o 14:9, 1.n.o.q: 14:10, 1.n.o.q 14:13, 1.n.s: 15:3, 1.n.s 14:9, 1.n.s.q: 14:10, \
         1.n.s.q 14:13, 1.t: 16:1, 1.t 16:3, 1.u: 17:1, 1.u 17:4"
    );
}

#[test]
fn spans_hold_the_text_of_their_nodes() {
    let text = "!x : no\na: {b: 'c', !!str d: \"e\"}\nf: &g [h, *g2]\n".replace("!x : no\n", "").replace(", *g2", "");
    let shown: Vec<(String, &str)> =
        spans(&text).into_iter().map(|(path, span)| (path, &text[span.bytes().range()])).collect();
    let expected = [
        ("0.a:", "a"),
        ("0.a", "{b: 'c', !!str d: \"e\"}"),
        ("0.a.b:", "b"),
        ("0.a.b", "'c'"),
        ("0.a.d:", "d"),
        ("0.a.d", "\"e\""),
        ("0.f:", "f"),
        ("0.f", "[h]"),
        ("0.f[0]", "h"),
    ];
    assert_eq!(shown[1..], expected.map(|(path, text)| (path.to_owned(), text)));
}

#[test]
fn placeholders_of_maven_leave_positions_unchanged() {
    let text = "a: @x.y@\nb: [@z@, ü]\nc: d\n";
    let shown: Vec<(String, &str)> =
        spans(text).into_iter().map(|(path, span)| (path, &text[span.bytes().range()])).collect();
    let expected = [
        ("0.a:", "a"),
        ("0.a", "@x.y@"),
        ("0.b:", "b"),
        ("0.b", "[@z@, ü]"),
        ("0.b[0]", "@z@"),
        ("0.b[1]", "ü"),
        ("0.c:", "c"),
        ("0.c", "d"),
    ];
    assert_eq!(shown[1..], expected.map(|(path, text)| (path.to_owned(), text)));
}

#[test]
fn nodes_of_an_alias_are_others_at_the_same_place() {
    let parsed = parse("a: &x {b: c}\nd: *x\n", 0);
    let [a, d] = ["a", "d"].map(|key| parsed.documents[0].get(key).unwrap());
    assert!(a.span != d.span && a.span.bytes() == d.span.bytes() && a.span.key().bytes() != d.span.key().bytes());
    assert_ne!(a.get("b").unwrap().span.node, d.get("b").unwrap().span.node);
}

#[test]
fn a_syntax_error_leaves_the_documents_before_it() {
    let parsed = parse("a: 1\n---\nb: {c: d, e: [f\ng: h: i\n", 0);
    assert_eq!((parsed.documents.len(), parsed.problems.len()), (1, 1));
    assert!(parsed.is_broken);
}

#[test]
fn aliases_and_depth_have_a_bound() {
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (name, before) in ["b", "c", "d", "e", "f", "g", "h", "i"].iter().zip("abcdefgh".chars()) {
        bomb.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 10].join(", ")));
    }
    let error = |text: &str| parse(text, 0).problems.pop().map(|problem| problem.message).unwrap_or_default();
    let too_large = "not valid YAML: more than 250,000 nodes, with those that anchors and aliases repeat; 32 bytes of \
                     text count as one";
    assert_eq!(error(&bomb), too_large);
    // Long texts, as values, as keys, and kept for anchors within each other.
    let long = "x".repeat(100_000);
    let list = vec!["*a"; 1_000].join(", ");
    assert_eq!(error(&format!("a: &a {long}\nb: [{list}]")), too_large);
    let keys: Vec<_> = (0..40).map(|at| format!("{}{at}: 1", "k".repeat(1_000))).collect();
    assert_eq!(error(&format!("a: &a {{{}}}\nb: [{list}]", keys.join(", "))), too_large);
    assert_eq!(error(&format!("a: &a \"{long}\"\nb: [{}]", vec!["*a"; 75].join(", "))), "");
    let anchors: String = (0..100).map(|at| format!("[&n{at} ")).collect();
    assert_eq!(error(&format!("a: {anchors}\"{}\"{}", "x".repeat(400_000), "]".repeat(100))), too_large);
    let nested = |depth: usize| format!("a: {}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(
        (error(&nested(127)).as_str(), error(&nested(128)).as_str()),
        ("", "not valid YAML: recursion limit exceeded")
    );
    let deep: String = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert_eq!(error(&deep), "not valid YAML: recursion limit exceeded");
    let through = format!("a: &a {}{}\nb: [[[*a]]]", "[".repeat(126), "]".repeat(126));
    assert_eq!(error(&through), "not valid YAML: recursion limit exceeded");
    assert_eq!(error("&a [*a]"), "not valid YAML: an alias cannot stand within the node that it repeats");
}

#[test]
fn texts_that_yaml_1_1_reads_otherwise_are_refused() {
    for text in [
        "a: b\u{85}c",
        "a: b # c\u{2028}d: e",
        "a: \"b\u{2029}c\"",
        "[?a]",
        "[?a: b]",
        "{?a: v}",
        "{?a : v}",
        "{?: b}",
        "{&x: v, q: w}",
        "a: &x: b",
        "&a: b",
        "&a:b [c]",
    ] {
        let parsed = parse(text, 0);
        assert!(parsed.is_broken && parsed.problems[0].help.is_some(), "{text}: {:?}", parsed.problems);
    }
    for text in ["a: ?b", "? a\n: b", "{? a : b}", "['?a', a?]", "a: \"\\u2028\"", "a: &x b\nc: *x", "a: b\u{feff}c"] {
        assert!(!parse(text, 0).is_broken, "{text}");
    }
    assert!(!parse_json("{\"a\": \"b\u{2028}\"}", 0).is_broken);
}

#[test]
fn texts_that_only_yaml_1_1_has_are_refused() {
    for text in ["[-, q]", "{m: -}", "a: [\n\tb]", "k: \"a\"#c"] {
        let parsed = parse(text, 0);
        assert!(parsed.is_broken && parsed.documents.is_empty(), "{text}");
    }
}

#[test]
fn entries_that_aliases_repeat_in_vain_are_not_kept() {
    let map: String = (0..100).map(|at| format!("  k{at}: v\n")).collect();
    let merges = |count: usize| (0..count).map(|at| format!("m{at}:\n  <<: [*a, *a, {{k1: w}}]\n")).collect::<String>();
    for count in [1, 10, 100] {
        let parsed = parse(&format!("a: &a\n{map}{}", merges(count)), 0);
        assert_eq!(parsed.unused.len(), count, "those in the text");
    }
}
