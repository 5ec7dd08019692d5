//! Parts of the file that their sections read by hand.

use std::ops::Deref;

use serde::de::{Deserialize, Deserializer};

use crate::de::argument_value::NamedEntries;
use crate::de::spanned::{Spanned, schema_of_anything};
use crate::yaml::{Node, NodeKind};

/// Copy of a node, for a section that has more than one form, or errors of its own.
#[derive(Clone, Debug)]
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
