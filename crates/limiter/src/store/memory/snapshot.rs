//! Snapshots: the states of all keys as bytes, for the process that follows this one.
//!
//! A snapshot has the secret key of the hashes, since it has the hashes of keys only, and the clock of the store, since
//! states have its times. A store that is restored continues that clock: states are the same as if the process went on.
//!
//! | Part | Size |
//! |---|---|
//! | `TOLLGATE-BUCKETS` | 16 bytes |
//! | version of the format | 4 bytes |
//! | [`Header`], then a [`SavedShard`] for each shard, in the format of postcard | |
//! | SHA-256 of everything before | 32 bytes |

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::MemoryStore;
use super::shard::SavedShard;
use super::shares::Owner;
use super::table::KeyHash;
use crate::algorithm::Moment;
use crate::rule::Flow;

/// First bytes of a snapshot.
const MAGIC: &[u8; 16] = b"TOLLGATE-BUCKETS";
/// Version of the format, and of the states. Changes of either need another one.
const VERSION: u32 = 3;
/// Length of the hash at the end.
const HASH_BYTES: usize = 32;

/// Snapshot of a store, checked and not restored yet.
pub struct Snapshot<'a> {
    header: Header,
    shards: &'a [u8],
}

/// Reason why a snapshot cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The first bytes are those of something else.
    #[error("it holds no buckets")]
    Foreign,
    /// Another version has written it.
    #[error("its version is {0}, and this program reads version {VERSION}")]
    Version(u32),
    /// It was cut short or changed.
    #[error("it was cut short or changed: its checksum is wrong")]
    Damaged,
    /// The store was made with another secret key.
    #[error("its keys are hashed with another secret")]
    HashKey,
}

#[derive(Serialize, Deserialize)]
struct Header {
    hash_key: [u8; 16],
    now_us: u64,
    wall_us: u64,
    shards: usize,
    /// Scopes of the limiters by their number, from 1.
    scopes: Vec<Option<KeyHash>>,
    /// Flows by their id.
    flows: Vec<Flow>,
}

impl fmt::Debug for Snapshot<'_> {
    /// Shows nothing of the secret key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("taken_at_us", &self.taken_at_us()).finish_non_exhaustive()
    }
}

impl<'a> Snapshot<'a> {
    /// Checks the bytes of a snapshot.
    ///
    /// # Errors
    /// They are those of something else, of another version, or not complete.
    pub fn read(bytes: &'a [u8]) -> Result<Self, SnapshotError> {
        let is_cut = MAGIC.starts_with(bytes);
        let rest = bytes.strip_prefix(MAGIC);
        let rest = rest.ok_or(if is_cut { SnapshotError::Damaged } else { SnapshotError::Foreign })?;
        let (version, rest) = rest.split_first_chunk().ok_or(SnapshotError::Damaged)?;
        match u32::from_le_bytes(*version) {
            VERSION => {}
            other => return Err(SnapshotError::Version(other)),
        }
        let (body, hash) = rest.split_last_chunk::<HASH_BYTES>().ok_or(SnapshotError::Damaged)?;
        if Sha256::digest(&bytes[..bytes.len() - HASH_BYTES]).as_slice() != hash {
            return Err(SnapshotError::Damaged);
        }
        let (header, shards): (Header, _) = postcard::take_from_bytes(body).map_err(|_| SnapshotError::Damaged)?;
        if header.flows.iter().any(|flow| !flow.is_valid()) || !header.shards.is_power_of_two() {
            return Err(SnapshotError::Damaged);
        }
        Ok(Self { header, shards })
    }

    /// Returns the secret key of the hashes. Only a store [made with it](MemoryStore::with_hash_key) can be restored.
    #[must_use]
    pub fn hash_key(&self) -> [u8; 16] {
        self.header.hash_key
    }

    /// Returns the time of the snapshot on the clock of its store, and on the wall clock.
    #[must_use]
    pub fn taken_at_us(&self) -> (u64, u64) {
        (self.header.now_us, self.header.wall_us)
    }
}

impl MemoryStore {
    /// Returns the states of all keys that have not expired. Locks one shard at a time: no decision should be made meanwhile.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        let (now_us, wall_us) = self.clock.both_us();
        let now = Moment { now_us, wall_us };
        let mut shards = Vec::new();
        for shard in &self.shards {
            append(&mut shards, &shard.lock().save(now));
        }
        let scopes = self.shares.lock().scopes();
        let (hash_key, flows) = (self.hasher.to_bytes(), Flow::all());
        let header = Header { hash_key, now_us, wall_us, shards: self.shards.len(), scopes, flows };
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        append(&mut bytes, &header);
        bytes.append(&mut shards);
        let hash = Sha256::digest(&bytes);
        bytes.extend_from_slice(&hash);
        bytes
    }

    /// Adds the states of a snapshot. The store must have been made with its hash key, and its clock must continue that of the
    /// snapshot. Keys beyond `max_keys` are kept until they expire. Returns the number of keys.
    ///
    /// # Errors
    /// The bytes are no states, although their checksum is right, or this store has another hash key.
    pub fn restore(&self, snapshot: &Snapshot<'_>) -> Result<usize, SnapshotError> {
        let Header { shards: saved, scopes, flows, .. } = &snapshot.header;
        if snapshot.hash_key() != self.hash_key() {
            return Err(SnapshotError::HashKey);
        }
        let owners = self.shares.lock().owners(scopes);
        let flows: Vec<u32> = flows.iter().map(|flow| flow.interned().id).collect();
        let (now_us, wall_us) = self.clock.both_us();
        let (mut rest, mut keys) = (snapshot.shards, 0);
        for index in 0..*saved {
            let (shard, after): (SavedShard, _) =
                postcard::take_from_bytes(rest).map_err(|_| SnapshotError::Damaged)?;
            rest = after;
            // A store with more shards has the keys of one shard in several, one with fewer those of several in one.
            let shards = self.shards.len();
            for target in (index % shards..shards).step_by(*saved) {
                let (numbers, now) = ((&*owners, &*flows), Moment { now_us, wall_us });
                let mut states = self.shards[target].lock();
                keys += states.load(&shard, numbers, now, &self.shares, |hash| hash.shard(shards) == target);
            }
        }
        Ok(keys)
    }
}

/// Appends a value. Writing to memory cannot fail.
fn append(bytes: &mut Vec<u8>, value: &impl Serialize) {
    let written = postcard::to_allocvec(value);
    debug_assert!(written.is_ok(), "every type has a representation");
    bytes.append(&mut written.unwrap_or_default());
}

/// Owner of an entry in this store for each owner in a snapshot.
pub(super) type Owners = [Owner];

#[cfg(test)]
mod tests;
