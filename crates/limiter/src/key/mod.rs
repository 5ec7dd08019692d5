//! What a request is counted under.

pub mod redis_text;

/// The bucket of one key id under one limiter: two different pairs never share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BucketKey<'a> {
    /// The limiter: its route's id, followed by what tells it from the route's other limiters.
    pub scope: &'a str,
    /// The key id that the resolver made of the request. Any bytes: it comes from the client.
    pub id: &'a [u8],
}
