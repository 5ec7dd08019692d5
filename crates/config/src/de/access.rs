//! Access for visitors: items of lists, entries of maps, arguments.

use std::collections::HashSet;

use serde::de::value::{StrDeserializer, U64Deserializer};
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess};

use crate::de::deserializer::{Context, De};
use crate::de::error::DeError;
use crate::de::{SAME_MAP, same_name};
use crate::diagnostics::UnknownKey;
use crate::yaml::{Node, NodeKind};

pub(super) struct Items<'n, 'c> {
    pub(super) items: std::slice::Iter<'n, Node>,
    pub(super) context: &'c Context<'c>,
}

impl<'n, 'c> Items<'n, 'c> {
    fn next_item(&mut self) -> Option<De<'n, 'c>> {
        let node = self.items.by_ref().find(|item| !self.context.leaves_out(item))?;
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
            if self.context.leaves_out(node) {
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

impl PlacedAccess<'_, '_> {
    /// Reads the value; `None` if it is wrong. An error below it is not reported here: the value is read again without its part.
    fn next_checked<'de, T: DeserializeSeed<'de>>(&self, seed: T) -> Result<Option<T::Value>, DeError> {
        let lacks_values = &self.de.context.lacks_values;
        let lacked_values = lacks_values.replace(false);
        let value = self.de.here(seed.deserialize(self.de));
        let is_whole = !lacks_values.replace(lacked_values);
        match value {
            Ok(value) => Ok(is_whole.then_some(value)),
            Err(error) if error.span == Some(self.de.node.span) => {
                self.de.report(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
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
            4 if self.reports => self.next_checked(seed),
            4 => self.de.here(seed.deserialize(self.de)).map(Some),
            _ => Ok(None),
        }
    }
}

impl<'de> IntoDeserializer<'de, DeError> for De<'_, '_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
