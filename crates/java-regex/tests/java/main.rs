//! Replacements compared with recorded results of Java, and with a model that tries every possible match.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod model;

use proptest::prelude::*;
use tollgate_java_regex::{Charset, JavaRegex, Replacement};

use model::{Node, model_replace_all, node};

/// Replaces all matches in `text`; `None` if Java would fail on the replacement.
fn replaced(expression: &str, replacement: &str, text: &str) -> Option<String> {
    let regex = JavaRegex::new(expression, Charset::Bytes).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let replacement = Replacement::parse(replacement, &regex).ok()?;
    let mut out = Vec::new();
    let is_changed = replacement.replace_all(&regex, text.as_bytes(), &mut out).unwrap();
    Some(if is_changed { String::from_utf8(out).unwrap() } else { text.to_owned() })
}

#[test]
fn replacements_equal_the_recorded_results_of_java() {
    let table = include_str!("data/replace_all.tsv");
    let mut cases = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [expression, replacement, text, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert_eq!(replaced(expression, replacement, text).as_deref(), Some(expected), "{line}");
        cases += 1;
    }
    assert!(cases >= 200, "only {cases} cases");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replacements_equal_those_of_the_model(
        mut root in node(),
        replacement in "(x|1|\\$[0-3]|\\$\\{(g1|g2|no)\\}|\\$1[0-2]|\\\\[$x]|\\$|\\\\){0,3}",
        texts in prop::collection::vec("[ab/1.]{0,7}", 4),
    ) {
        let groups = root.number();
        let expression = root.to_string();
        for text in texts {
            let expected = model_replace_all(&root, groups, &replacement, &text);
            prop_assert_eq!(
                replaced(&expression, &replacement, &text), expected, "{} -> {} on {}", expression, replacement, text
            );
        }
    }
}

#[test]
fn the_model_agrees_with_java() {
    let a = || Node::Char('a');
    let mut root = Node::Seq(vec![Node::Group(0, true, Box::new(Node::Alt(vec![a(), Node::Char('b')]))), a()]);
    assert_eq!((root.number(), root.to_string().as_str()), (1, "(?<g1>a|b)a"));
    assert_eq!(model_replace_all(&root, 1, "<${g1}$10>", "abaa"), Some("a<bb0>a".to_owned()));
    assert_eq!(model_replace_all(&root, 1, "$2", "x"), None);
    let star = Node::Repeat(Box::new(a()), 0, None, false);
    assert_eq!(model_replace_all(&star, 0, "-", "baac"), Some("-b--c-".to_owned()));
}
