//! Access for visitors: items of lists, entries of maps, names of variants.

use std::collections::HashSet;

use serde::de::value::{StrDeserializer, U64Deserializer};
use serde::de::{DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor};

use crate::de::error::DeError;
use crate::de::read::identity;
use crate::de::{Context, De, SAME_MAP, same_name};
use crate::diagnostics::UnknownKey;
use crate::yaml::{Node, NodeKind};

pub(super) struct Items<'n, 'c> {
    pub(super) items: std::slice::Iter<'n, Node>,
    pub(super) context: &'c Context<'c>,
}

impl<'n, 'c> Items<'n, 'c> {
    fn next_item(&mut self) -> Option<De<'n, 'c>> {
        let node = self.items.by_ref().find(|item| !self.context.blank.contains(&identity(item.span)))?;
        Some(De { node, context: self.context })
    }
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = DeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DeError> {
        match self.next_item() {
            Some(de) => de.here(seed.deserialize(de)).map(Some),
            None => Ok(None),
        }
    }
}

pub(super) struct Entries<'n, 'c> {
    entries: std::slice::Iter<'n, (String, Node)>,
    value: Option<(Option<&'n String>, &'n Node)>,
    fields: Option<&'static [&'static str]>,
    /// Fields of the struct around this one, which read their entries themselves.
    around: &'static [&'static str],
    /// The map itself, if it is yet to be read as a [`SAME_MAP`].
    whole: Option<&'n Node>,
    seen: HashSet<&'static str>,
    context: &'c Context<'c>,
}

impl<'n, 'c> Entries<'n, 'c> {
    /// Creates the access to the entries of a map, which takes any key.
    pub(super) fn of_map(entries: &'n [(String, Node)], context: &'c Context<'c>) -> Self {
        let entries = entries.iter();
        Self { entries, value: None, fields: None, around: &[], whole: None, seen: HashSet::new(), context }
    }

    /// Creates the access to the entries of the map `de` as a struct with the names `fields`.
    pub(super) fn of_struct(entries: &'n [(String, Node)], fields: &'static [&'static str], de: De<'n, 'c>) -> Self {
        Self {
            fields: Some(fields),
            around: de.context.around.take(),
            whole: fields.contains(&SAME_MAP).then_some(de.node),
            ..Self::of_map(entries, de.context)
        }
    }

    /// Moves to the next entry that has a value and returns its name, of a struct as the field is spelled. Reports
    /// unknown and repeated fields.
    fn next_name(&mut self) -> Option<&'n str> {
        while let Some((key, node)) = self.entries.next() {
            if self.context.blank.contains(&identity(node.span)) {
                continue;
            }
            let name: &str = match self.fields {
                None => key,
                Some(fields) => match fields.iter().find(|field| **field != SAME_MAP && same_name(field, key)) {
                    None => {
                        // The struct in the same map reports what neither has.
                        if self.whole.is_none()
                            && !self.around.iter().any(|field| *field != SAME_MAP && same_name(field, key))
                        {
                            self.report_unknown(key, node, fields);
                        }
                        continue;
                    }
                    Some(_) if matches!(node.kind, NodeKind::Null) => continue,
                    Some(field) if !self.seen.insert(field) => {
                        let message = format!("`{key}` is the same key as one above");
                        self.context.found.borrow_mut().push((node.span.key(), message));
                        continue;
                    }
                    Some(field) => field,
                },
            };
            self.value = Some((Some(key), node));
            return Some(name);
        }
        self.value = Some((None, self.whole.take()?));
        Some(SAME_MAP)
    }

    fn report_unknown(&self, key: &str, node: &Node, fields: &[&'static str]) {
        let mut path = self.context.path.borrow().clone();
        path.push(key.to_owned());
        let fields = fields.iter().chain(self.around).copied().filter(|field| *field != SAME_MAP).collect();
        self.context.unknown.borrow_mut().push(UnknownKey { span: node.span, path, fields });
    }
}

impl<'de> MapAccess<'de> for Entries<'_, '_> {
    type Error = DeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DeError> {
        match self.next_name() {
            Some(name) => seed.deserialize(StrDeserializer::<DeError>::new(name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DeError> {
        let (key, node) = self.value.take().ok_or_else(|| serde::de::Error::custom("a value without a key"))?;
        let de = De { node, context: self.context };
        match key {
            Some(key) => self.context.path.borrow_mut().push(key.clone()),
            None => self.context.around.set(self.fields.unwrap_or_default()),
        }
        let value = de.here(seed.deserialize(de));
        if key.is_some() {
            self.context.path.borrow_mut().pop();
        }
        value
    }
}

/// A span, as three numbers, and its value, as a sequence. If `reports`, a value of the wrong type is reported and left out;
/// otherwise it is an error.
pub(super) struct PlacedAccess<'n, 'c> {
    pub(super) de: De<'n, 'c>,
    pub(super) reports: bool,
    pub(super) step: u8,
}

impl<'de> SeqAccess<'de> for PlacedAccess<'_, '_> {
    type Error = DeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DeError> {
        self.step += 1;
        match self.step {
            number @ 1..=3 => {
                let part = self.de.node.span.pack()[usize::from(number - 1)];
                let part: U64Deserializer<DeError> = part.into_deserializer();
                seed.deserialize(part).map(Some)
            }
            4 => match self.de.here(seed.deserialize(self.de)) {
                Err(error) if self.reports => {
                    self.de.report(error);
                    Ok(None)
                }
                value => value.map(Some),
            },
            _ => Ok(None),
        }
    }
}

/// Name of an enum variant without content.
pub(super) struct Variant(pub(super) &'static str);

impl<'de> EnumAccess<'de> for Variant {
    type Error = DeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), DeError> {
        let value = seed.deserialize(StrDeserializer::<DeError>::new(self.0))?;
        Ok((value, self))
    }
}

impl<'de> VariantAccess<'de> for Variant {
    type Error = DeError;

    fn unit_variant(self) -> Result<(), DeError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, DeError> {
        Err(serde::de::Error::custom("expected a plain name"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, DeError> {
        Err(serde::de::Error::custom("expected a plain name"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, DeError> {
        Err(serde::de::Error::custom("expected a plain name"))
    }
}

/// The variant that is named like the shape of the node, with the node as its value.
pub(super) struct ShapeAccess<'n, 'c> {
    pub(super) de: De<'n, 'c>,
    pub(super) shape: &'static str,
}

impl<'de> EnumAccess<'de> for ShapeAccess<'_, '_> {
    type Error = DeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), DeError> {
        let value = seed.deserialize(StrDeserializer::<DeError>::new(self.shape))?;
        Ok((value, self))
    }
}

impl<'de> VariantAccess<'de> for ShapeAccess<'_, '_> {
    type Error = DeError;

    fn unit_variant(self) -> Result<(), DeError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DeError> {
        self.de.here(seed.deserialize(self.de))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DeError> {
        serde::Deserializer::deserialize_any(self.de, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, DeError> {
        serde::Deserializer::deserialize_any(self.de, visitor)
    }
}
