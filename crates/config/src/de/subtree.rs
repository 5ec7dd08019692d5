//! Parts of the file that their sections read by hand, and the entries of `metadata`.

use std::ops::Deref;

use serde::de::{Deserialize, Deserializer};

use crate::de::argument_value::NamedEntries;
use crate::de::spanned::{Spanned, schema_of_anything};
use crate::yaml::{Node, NodeKind};

/// Copy of a node, for a section that has more than one form, or errors of its own. Two are equal at one place only, so a section
/// that a reload compares hands it out in its check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subtree(Node);

/// Value in the form of the file.
#[derive(serde::Deserialize)]
#[serde(rename = "$tollgate::Shape", rename_all = "lowercase")]
enum Shape {
    Scalar(String),
    Seq(Vec<Subtree>),
    Map(NamedEntries<Subtree>),
}

impl Deref for Subtree {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Subtree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, span } = Spanned::<Option<Shape>>::deserialize(deserializer)?;
        let kind = match value {
            None => NodeKind::Null,
            Some(Shape::Scalar(text)) => NodeKind::Scalar(text),
            Some(Shape::Seq(items)) => NodeKind::Seq(items.into_iter().map(|item| item.0).collect()),
            Some(Shape::Map(NamedEntries(entries))) => {
                NodeKind::Map(entries.into_iter().map(|(key, value)| (key, value.0)).collect())
            }
        };
        Ok(Self(Node { span, kind }))
    }
}

schema_of_anything!(Subtree);

/// Texts by name, in the order of the file; of equal names the last counts. Nested maps and lists become dotted and indexed
/// names, such as `management.port` and `tags[0]`. A key without a value, and an empty list, are the empty text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metadata(Vec<(String, Spanned<String>)>);

impl Metadata {
    /// Returns the text of `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Spanned<String>> {
        self.0.iter().rev().find(|(other, _)| other == name).map(|(_, text)| text)
    }

    /// Returns each name with its text.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Spanned<String>)> {
        self.0.iter().map(|(name, text)| (name, text))
    }

    fn add(&mut self, name: String, node: &Node) {
        match &node.kind {
            NodeKind::Seq(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    self.add(format!("{name}[{index}]"), item);
                }
            }
            NodeKind::Map(entries) => {
                for (key, value) in entries {
                    self.add(format!("{name}.{key}"), value);
                }
            }
            _ => {
                let value = node.scalar().unwrap_or_default().to_owned();
                self.0.push((name, Spanned { value, span: node.span }));
            }
        }
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let NamedEntries(entries) = NamedEntries::<Subtree>::deserialize(deserializer)?;
        let mut metadata = Self::default();
        for (name, value) in entries {
            metadata.add(name, &value);
        }
        Ok(metadata)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Metadata {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Metadata".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "object", "additionalProperties": true})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::de;
    use crate::diagnostics::Diagnostics;
    use crate::yaml::{Bytes, Span};

    fn node(kind: NodeKind) -> Node {
        Node { span: Span::new(0, Bytes::NONE), kind }
    }

    fn text(text: &str) -> Node {
        node(NodeKind::Scalar(text.to_owned()))
    }

    #[test]
    fn nested_values_become_dotted_names_and_nothing_the_empty_text() {
        let map = |entries: Vec<(&str, Node)>| {
            node(NodeKind::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()))
        };
        let root = map(vec![
            ("zone", text("eu")),
            ("version", node(NodeKind::Null)),
            ("none", node(NodeKind::Seq(Vec::new()))),
            ("gone", map(Vec::new())),
            ("management", map(vec![("port", text("8081")), ("context", map(vec![("path", text("/a"))]))])),
            ("tags", node(NodeKind::Seq(vec![text("a,b"), map(vec![("c", node(NodeKind::Null))])]))),
        ]);
        let mut diagnostics = Diagnostics::default();
        let (metadata, unknown): (Metadata, _) = de::read(&root, &mut diagnostics);
        let found: Vec<_> = metadata.iter().map(|(name, value)| (name.as_str(), value.value.as_str())).collect();
        assert_eq!(
            found,
            [
                ("zone", "eu"),
                ("version", ""),
                ("none", ""),
                ("management.port", "8081"),
                ("management.context.path", "/a"),
                ("tags[0]", "a,b"),
                ("tags[1].c", ""),
            ]
        );
        assert!(unknown.is_empty() && !diagnostics.has_errors());
    }
}
