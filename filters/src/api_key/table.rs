//! Keys of a file, in little memory.

use std::collections::HashMap;
use std::sync::Arc;

use super::identity::ApiKey;
use crate::digest_cache::{Digest, digest};

/// SHA-256 of a key.
pub type KeyHash = Digest;

/// Index of an absent plan or list of routes.
const NONE: u32 = u32::MAX;
/// Time of keys that do not expire.
const NEVER: u64 = u64::MAX;

/// Returns the hash under which `key` is stored.
#[must_use]
pub fn hash(key: &[u8]) -> KeyHash {
    digest(key)
}

/// Returns `hash` in hex digits.
#[must_use]
pub fn hex(hash: &KeyHash) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    hash.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| DIGITS[usize::from(digit)]).collect()
}

/// Returns the hash of 64 hex digits, if `text` is one.
pub(super) fn unhex(text: &str) -> Option<KeyHash> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let mut hash = [0; 32];
    if pairs.len() != hash.len() {
        return None;
    }
    for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(hash)
}

/// Keys by their hash: 56 bytes each, and the text of the id.
#[derive(Debug, Default)]
pub struct KeyTable {
    /// Sorted by hash.
    rows: Box<[Row]>,
    /// Ids one after another.
    ids: Box<str>,
    plans: Box<[Arc<str>]>,
    routes: Box<[Arc<[Box<str>]>]>,
}

#[derive(Debug)]
struct Row {
    hash: KeyHash,
    expires: u64,
    id_start: u32,
    plan: u32,
    routes: u32,
    id_length: u8,
    disabled: bool,
}

/// Adds keys to a table.
#[derive(Debug, Default)]
pub(super) struct Builder {
    rows: Vec<Row>,
    ids: String,
    plans: Interned<str>,
    routes: Interned<[Box<str>]>,
}

/// Contradiction between two keys.
#[derive(Debug)]
pub(super) enum BuildError {
    /// Keys with these ids have the same hash.
    Hash([Box<str>; 2]),
    /// Keys with this id have different plans.
    Plan(Box<str>),
}

/// Values that many keys share.
#[derive(Debug)]
struct Interned<T: ?Sized> {
    index: HashMap<Arc<T>, u32>,
    values: Vec<Arc<T>>,
}

// === impl KeyTable ===

impl KeyTable {
    /// Returns the key with `hash`.
    #[must_use]
    pub fn find(&self, hash: &KeyHash) -> Option<ApiKey> {
        let at = self.rows.binary_search_by(|row| row.hash.cmp(hash)).ok()?;
        Some(self.key(&self.rows[at]))
    }

    /// Returns all keys with their hashes, in the order of the hashes.
    pub fn iter(&self) -> impl Iterator<Item = (&KeyHash, ApiKey)> {
        self.rows.iter().map(|row| (&row.hash, self.key(row)))
    }

    /// Returns the keys with the id `id`.
    pub fn with_id(&self, id: &str) -> impl Iterator<Item = (&KeyHash, ApiKey)> {
        let rows = self.rows.iter().filter(move |row| self.id(row) == id);
        rows.map(|row| (&row.hash, self.key(row)))
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true without a key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of keys that expire from `start` until before `end`, in seconds since 1970.
    #[must_use]
    pub fn expiring(&self, start: u64, end: u64) -> usize {
        self.rows.iter().filter(|row| (start..end).contains(&row.expires)).count()
    }

    /// Returns the plans of its keys.
    #[must_use]
    pub fn plans(&self) -> &[Arc<str>] {
        &self.plans
    }

    /// Returns the ids of the routes of its keys, some of them several times.
    pub fn routes(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().flat_map(|routes| routes.iter()).map(|route| &**route)
    }

    /// Returns the bytes that it allocates, without those of plans and routes.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        std::mem::size_of_val(&*self.rows) + self.ids.len()
    }

    fn id(&self, row: &Row) -> &str {
        let start = row.id_start as usize;
        self.ids.get(start..start + usize::from(row.id_length)).unwrap_or_default()
    }

    fn key(&self, row: &Row) -> ApiKey {
        ApiKey {
            id: self.id(row).into(),
            plan: self.plans.get(row.plan as usize).cloned(),
            routes: self.routes.get(row.routes as usize).cloned(),
            expires: (row.expires != NEVER).then_some(row.expires),
            disabled: row.disabled,
        }
    }
}

// === impl Builder ===

impl Builder {
    /// Adds `key`, whose id has at most 255 bytes. Returns false if there is no more room: for 4 GB of ids.
    pub(super) fn add(&mut self, hash: KeyHash, key: &ApiKey) -> bool {
        let (Ok(id_start), Ok(id_length)) = (u32::try_from(self.ids.len()), u8::try_from(key.id.len())) else {
            return false;
        };
        self.ids.push_str(&key.id);
        self.rows.push(Row {
            hash,
            expires: key.expires.unwrap_or(NEVER),
            id_start,
            plan: self.plans.intern(key.plan.as_ref()),
            routes: self.routes.intern(key.routes.as_ref()),
            id_length,
            disabled: key.disabled,
        });
        true
    }

    /// Sorts the keys.
    ///
    /// # Errors
    /// Two keys contradict each other.
    pub(super) fn build(mut self) -> Result<KeyTable, BuildError> {
        self.rows.sort_unstable_by_key(|row| row.hash);
        let table = KeyTable {
            rows: self.rows.into(),
            ids: self.ids.into(),
            plans: self.plans.values.into(),
            routes: self.routes.values.into(),
        };
        if let Some([one, other]) = table.rows.windows(2).find(|pair| pair[0].hash == pair[1].hash) {
            return Err(BuildError::Hash([one, other].map(|row| table.id(row).into())));
        }
        let mut plans = HashMap::with_capacity(table.len());
        match table.rows.iter().find(|row| *plans.entry(table.id(row)).or_insert(row.plan) != row.plan) {
            Some(row) => Err(BuildError::Plan(table.id(row).into())),
            None => Ok(table),
        }
    }
}

// === impl Interned ===

impl<T: ?Sized + std::hash::Hash + Eq> Interned<T> {
    fn intern(&mut self, value: Option<&Arc<T>>) -> u32 {
        let Some(value) = value else { return NONE };
        if let Some(index) = self.index.get(value) {
            return *index;
        }
        let index = u32::try_from(self.values.len()).unwrap_or(NONE);
        self.values.push(Arc::clone(value));
        self.index.insert(Arc::clone(value), index);
        index
    }
}

impl<T: ?Sized> Default for Interned<T> {
    fn default() -> Self {
        Self { index: HashMap::new(), values: Vec::new() }
    }
}
