//! `serde_yaml` as the oracle: it reads the same tree.

use std::fmt;

use proptest::prelude::*;
use serde::de::{DeserializeSeed, EnumAccess, Error as _, MapAccess, SeqAccess, Visitor};

use crate::yaml::tests::texts::{changed, seeds, texts};
use crate::yaml::{Node, NodeKind, parse};

/// A tree without spans.
#[derive(Debug, PartialEq)]
enum Tree {
    Null,
    Scalar(String),
    Seq(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    fn of(node: &Node) -> Self {
        match &node.kind {
            NodeKind::Null => Self::Null,
            NodeKind::Scalar(text) => Self::Scalar(text.clone()),
            NodeKind::Seq(items) => Self::Seq(items.iter().map(Self::of).collect()),
            NodeKind::Map(entries) => {
                Self::Map(entries.iter().map(|(key, value)| (key.clone(), Self::of(value))).collect())
            }
        }
    }

    fn merge(self, entries: &mut Vec<(String, Self)>) {
        match self {
            Self::Map(more) => more.into_iter().for_each(|entry| add(entries, entry)),
            Self::Seq(items) => items.into_iter().for_each(|item| item.merge(entries)),
            Self::Null | Self::Scalar(_) => {}
        }
    }
}

fn add(entries: &mut Vec<(String, Tree)>, entry: (String, Tree)) {
    if !entries.iter().any(|(key, _)| *key == entry.0) {
        entries.push(entry);
    }
}

/// Reads a tree with `serde_yaml`.
struct Read;

impl<'de> DeserializeSeed<'de> for Read {
    type Value = Tree;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! plain_values {
    ($($method:ident $type:ty;)*) => {$(
        fn $method<E>(self, value: $type) -> Result<Tree, E> {
            Ok(Tree::Scalar(value.to_string()))
        }
    )*};
}

impl<'de> Visitor<'de> for Read {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    plain_values! { visit_bool bool; visit_i64 i64; visit_u64 u64; visit_i128 i128; visit_u128 u128; visit_str &str; }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Scalar(format!("{value:?}")))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Tree, A::Error> {
        Err(A::Error::custom("a tag"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Read)? {
            items.push(item);
        }
        Ok(Tree::Seq(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let (mut entries, mut merged) = (Vec::new(), Vec::new());
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(Read)?;
            if key == "<<" { merged.push(value) } else { add(&mut entries, (key, value)) }
        }
        merged.into_iter().for_each(|value| value.merge(&mut entries));
        Ok(Tree::Map(entries))
    }
}

/// Returns the documents as `serde_yaml` reads them; `None` for a text that it refuses.
fn expected(text: &str) -> Option<Vec<Tree>> {
    serde_yaml::Deserializer::from_str(text).map(|document| Read.deserialize(document).ok()).collect()
}

/// Returns the documents as [`parse`] reads them; `None` for a text that it refuses.
fn found(text: &str) -> Option<Vec<Tree>> {
    let parsed = parse(text, 0);
    let is_refused = parsed.problems.iter().any(|problem| problem.message.starts_with("not valid YAML"));
    (!is_refused).then(|| parsed.documents.iter().map(Tree::of).collect())
}

#[test]
fn every_text_of_the_repository_is_read_as_serde_yaml_reads_it() {
    let texts = texts();
    assert!(texts.len() > 300, "{}", texts.len());
    for (path, text) in texts {
        // `serde_yaml` does not know placeholders of Maven.
        if text.contains(": @") || text.contains("- @") {
            continue;
        }
        assert_eq!(found(&text), expected(&text), "{}", path.display());
    }
}

/// Words, numbers and texts that resemble them.
const SCALARS: [&str; 78] = [
    "",
    "~",
    "null",
    "Null",
    "NULL",
    "nULL",
    "true",
    "True",
    "TRUE",
    "tRUE",
    "false",
    "False",
    "FALSE",
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
    "0",
    "-0",
    "+0",
    "00",
    "007",
    "-007",
    "+007",
    "00.5",
    "1",
    "+1",
    "-1",
    "--1",
    "+-1",
    "-+1",
    "++1",
    "1_000",
    "0x1F",
    "-0x1f",
    "+0x1F",
    "0x",
    "0x+1",
    "0xG",
    "0X1",
    "0o17",
    "-0o17",
    "0o8",
    "017",
    "0b101",
    "-0b1",
    "0b2",
    "1.0",
    "1.",
    ".5",
    "-.5",
    "+.5",
    ".",
    "-",
    "+",
    "1e3",
    "1E-3",
    "1e400",
    "-1e400",
    "1.5.2",
    "1e",
    ".inf",
    "-.inf",
    "+.inf",
    ".Inf",
    ".nan",
    "+.nan",
    "-.nan",
    ".NaN",
    "inf",
    "NaN",
    "infinity",
    "18446744073709551616",
    "-170141183460469231731687303715884105728",
    "-170141183460469231731687303715884105729",
    "340282366920938463463374607431768211456",
];

#[test]
fn texts_that_end_within_a_block_scalar_are_those_of_serde_yaml() {
    for head in ["|", ">", "|+", ">+", "|-", ">-", "|2", "| # c"] {
        for body in
            ["  a", "  a\n", "  a\n  ", "  a\n\n", "  a\n\n  b", "  a\r\n  b", "  a # b", "  a\ny: 1", "  a\n# c"]
        {
            for text in [format!("x: {head}\n{body}"), format!("- {head}\n{body}")] {
                if !(text.starts_with('-') && body.contains("y:")) {
                    assert_eq!(found(&text), expected(&text), "{text:?}");
                }
            }
        }
    }
}

#[test]
fn words_and_numbers_are_those_of_serde_yaml() {
    for scalar in SCALARS {
        for tag in ["", "!!str ", "!!int ", "!!float ", "!!bool ", "!!null ", "!!x ", "!<tag:a> ", "! ", "!x "] {
            for quote in ["", "\"", "'"] {
                let text = format!("[{tag}{quote}{scalar}{quote}]\n");
                // YAML 1.2 has no such text.
                if (scalar, quote) != ("-", "") {
                    assert_eq!(found(&text), expected(&text), "{text}");
                }
            }
        }
    }
}

proptest! {
    /// Texts that only one of the two accepts are outside of both grammars' common part: see `docs/design/config.md`.
    #[test]
    fn changed_texts_are_read_as_serde_yaml_reads_them(
        seed in prop::sample::select(seeds()),
        changes in prop::collection::vec(
            (0_u8..3, any::<prop::sample::Index>(), prop::sample::select(" \n:-#{}[],&*!|>'\"?~0é<".chars().collect::<Vec<_>>())),
            1..4,
        ),
    ) {
        let text = changed(&seed, &changes);
        if let (Some(found), Some(expected)) = (found(&text), expected(&text)) {
            prop_assert_eq!(found, expected, "{}", text);
        }
    }

    #[test]
    fn numbers_are_those_of_serde_yaml(scalar in "[-+]?(0[xob])?[0-9a-f_+-]{0,24}(\\.[0-9]{0,8})?([eE][-+]?[0-9]{0,3})?") {
        let text = format!("a: {scalar}\n");
        prop_assert_eq!(found(&text), expected(&text));
    }
}
