//! Keys under which requests are counted.

pub mod redis_text;

/// Key of one bucket: a key id within the scope of a limiter. Two different pairs never share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BucketKey<'a> {
    /// Name of the limiter: its route's id, with a suffix if the route has several limiters.
    pub scope: &'a str,
    /// Key id of the request, such as a client address. Arbitrary bytes, since clients can choose them.
    pub id: &'a [u8],
}
