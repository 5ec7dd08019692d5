//! The deserializer: each error of a value is noted, and the reading goes on.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use serde::de::value::{MapAccessDeserializer, MapDeserializer, StrDeserializer};
use serde::de::{Expected, Visitor};

use crate::de::access::{Entries, Items, PlacedAccess};
use crate::de::error::DeError;
use crate::de::read::identity;
use crate::de::{
    GIVEN, LEAST_BARE_MILLIS, SAME_MAP, SHAPE, SPANNED, TIME, bare_millis, canonical, parse_flag, same_name, with_help,
};
use crate::diagnostics::UnknownKey;
use crate::yaml::{Node, NodeKind, Span};

pub(super) struct Context<'c> {
    /// Values of the wrong type.
    pub(super) blank: &'c HashSet<(u32, u8)>,
    pub(super) unknown: RefCell<Vec<UnknownKey>>,
    pub(super) found: RefCell<Vec<(Span, String)>>,
    pub(super) path: RefCell<Vec<String>>,
    /// Times that are fewer milliseconds than a file may mean, with their keys.
    pub(super) bare_millis: RefCell<Vec<(Span, String, u64)>>,
    /// True if a value of the wrong type was left out, and no argument around it has taken notice.
    pub(super) lacks_values: Cell<bool>,
    /// Fields of the struct around the next one, which is its [`SAME_MAP`].
    pub(super) around: Cell<&'static [&'static str]>,
}

impl Context<'_> {
    /// Returns true for a value of the wrong type, which is left out.
    pub(super) fn leaves_out(&self, node: &Node) -> bool {
        let is_wrong = self.blank.contains(&identity(node.span));
        self.lacks_values.set(is_wrong || self.lacks_values.get());
        is_wrong
    }
}

#[derive(Clone, Copy)]
pub(super) struct De<'n, 'c> {
    pub(super) node: &'n Node,
    pub(super) context: &'c Context<'c>,
}

// The methods of `Deserializer` and of the accesses are compiled for each type that is read. What does not depend on the
// type stands in functions of its own.
impl<'n> De<'n, '_> {
    fn mismatch(self, wanted: &str) -> DeError {
        DeError::at(self.node.span, format!("expected {wanted}, found {}", self.node.describe()))
    }

    /// The same for the value that `expected` describes.
    fn mismatch_of(self, expected: &dyn Expected) -> DeError {
        self.mismatch(&expected.to_string())
    }

    /// Returns the name of the shape of the node; `None` for null.
    fn shape(self) -> Option<&'static str> {
        match self.node.kind {
            NodeKind::Null => None,
            NodeKind::Scalar(_) => Some("scalar"),
            NodeKind::Seq(_) => Some("seq"),
            NodeKind::Map(_) => Some("map"),
        }
    }

    /// Notes `idle-timeout: 60`, which is 60 milliseconds. A name such as `…-millis` says so.
    fn note_bare_millis(self) {
        let path = self.context.path.borrow();
        let bare = path.split_last().filter(|(name, _)| !name.to_ascii_lowercase().ends_with("millis"));
        let Some((name, above)) = bare else { return };
        let is_below = |section| above.last().is_some_and(|above| same_name(section, above));
        // Redis decides in milliseconds, and pauses before a lock is tried again are as short.
        let least = if is_below("redis") || is_below("lock") { 10 } else { LEAST_BARE_MILLIS };
        if let Some(number) = self.node.scalar().and_then(|text| bare_millis(text, least)) {
            self.context.bare_millis.borrow_mut().push((self.node.span, name.clone(), number));
        }
    }

    /// Adds the span of this node to an error without one, and its key to an error of its value.
    pub(super) fn here<T>(self, result: Result<T, DeError>) -> Result<T, DeError> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => Err(self.located(error)),
        }
    }

    #[inline(never)]
    fn located(self, error: DeError) -> DeError {
        error.of_key(self.context.path.borrow().last()).or_at(self.node.span)
    }

    /// Reports `error` and goes on.
    pub(super) fn report(self, error: DeError) {
        let span = error.span.unwrap_or(self.node.span);
        self.context.found.borrow_mut().push((span, error.message));
    }

    fn text(self) -> Result<&'n str, DeError> {
        self.node.scalar().ok_or_else(|| self.mismatch("a text"))
    }

    fn flag(self) -> Result<bool, DeError> {
        self.node.scalar().and_then(parse_flag).ok_or_else(|| self.mismatch("true or false"))
    }

    /// Items of a text with commas: Spring reads `a, b` as a list of two items.
    fn parts(self, text: &str) -> Vec<Node> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(|part| Node { span: self.node.span, kind: NodeKind::Scalar(part.to_owned()) }).collect()
    }

    /// Entries of the node; none for null.
    fn fields(self, fields: &[&str]) -> Result<&'n [(String, Node)], DeError> {
        match &self.node.kind {
            NodeKind::Map(entries) => return Ok(entries),
            NodeKind::Null => return Ok(&[]),
            NodeKind::Scalar(_) | NodeKind::Seq(_) => {}
        }
        let key = self.node.scalar().and_then(|text| text.split_once(':')).map(|(key, _)| key);
        if let Some(key) = key.filter(|key| fields.iter().any(|field| canonical(field) == canonical(key))) {
            // The rest may be a password.
            return Err(DeError::at(self.node.span, format!("`{key}:` lacks a space behind its colon")));
        }
        // `ssl` is Spring's form of `tls`.
        let keys: Vec<&str> = fields.iter().copied().filter(|field| !["ssl", SAME_MAP].contains(field)).collect();
        Err(self.mismatch(&format!("a map with {}", keys.join(", "))))
    }

    fn variant(self, variants: &[&'static str]) -> Result<&'static str, DeError> {
        let text = self.node.scalar();
        let variant = text.and_then(|text| variants.iter().find(|variant| canonical(variant) == canonical(text)));
        variant.copied().ok_or_else(|| self.mismatch(&format!("one of {}", variants.join(", "))))
    }
}

/// Returns the shapes that `variants` name, for a message.
fn wanted_shapes(variants: &[&str]) -> String {
    let words = variants.iter().map(|variant| match *variant {
        "scalar" => "a text",
        "seq" => "a list",
        _ => "a map",
    });
    words.collect::<Vec<_>>().join(" or ")
}

macro_rules! whole_numbers {
    ($($method:ident $visit:ident $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
            fn number(de: De<'_, '_>) -> Result<$type, DeError> {
                match de.node.scalar().and_then(|text| text.trim().replace('_', "").parse::<$type>().ok()) {
                    Some(number) => Ok(number),
                    // An upper bound of twenty digits helps no reader.
                    None if <$type>::BITS == 64 => Err(de.mismatch(&format!("a whole number from {}", <$type>::MIN))),
                    None => Err(de.mismatch(&format!("a whole number from {} to {}", <$type>::MIN, <$type>::MAX))),
                }
            }
            self.here(visitor.$visit(number(self)?))
        }
    )*};
}

impl<'de> serde::Deserializer<'de> for De<'_, '_> {
    type Error = DeError;

    whole_numbers! {
        deserialize_i8 visit_i8 i8; deserialize_i16 visit_i16 i16; deserialize_i32 visit_i32 i32; deserialize_i64 visit_i64 i64;
        deserialize_u8 visit_u8 u8; deserialize_u16 visit_u16 u16; deserialize_u32 visit_u32 u32; deserialize_u64 visit_u64 u64;
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match &self.node.kind {
            NodeKind::Null => self.here(visitor.visit_unit()),
            NodeKind::Scalar(text) => self.here(visitor.visit_str(text)),
            NodeKind::Seq(_) => self.deserialize_seq(visitor),
            NodeKind::Map(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.here(visitor.visit_bool(self.flag()?))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.here(visitor.visit_str(self.text()?))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.node.kind {
            NodeKind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, DeError> {
        match name {
            TIME => {
                self.note_bare_millis();
                visitor.visit_newtype_struct(self)
            }
            SPANNED => visitor.visit_seq(PlacedAccess { de: self, reports: false, step: 0 }),
            GIVEN if matches!(self.node.kind, NodeKind::Null) => visitor.visit_unit(),
            GIVEN => visitor.visit_seq(PlacedAccess { de: self, reports: true, step: 0 }),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match &self.node.kind {
            NodeKind::Seq(items) => visitor.visit_seq(Items { items: items.iter(), context: self.context }),
            NodeKind::Scalar(text) => {
                visitor.visit_seq(Items { items: self.parts(text).iter(), context: self.context })
            }
            NodeKind::Null => visitor.visit_seq(Items { items: [].iter(), context: self.context }),
            NodeKind::Map(_) => {
                let DeError { message, .. } = self.mismatch("a list");
                let help = "begin each item of the list with `- `, and indent the rest of it further";
                Err(DeError::at(self.node.span, with_help(&message, help)))
            }
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match &self.node.kind {
            NodeKind::Map(entries) => visitor.visit_map(Entries::of_map(entries, self.context)),
            _ => Err(self.mismatch_of(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_map(Entries::of_struct(self.fields(fields)?, fields, self))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        if name == SHAPE {
            return match self.shape() {
                Some(shape) if variants.contains(&shape) => {
                    let variant = MapDeserializer::new(std::iter::once((shape, self)));
                    self.here(visitor.visit_enum(MapAccessDeserializer::new(variant)))
                }
                _ => Err(self.mismatch(&wanted_shapes(variants))),
            };
        }
        self.here(visitor.visit_enum(StrDeserializer::new(self.variant(variants)?)))
    }

    serde::forward_to_deserialize_any! {
        i128 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}
