//! Selection policies: pure functions over the candidates, with the random number generator as an argument.
//!
//! | Policy | Selects | Source |
//! |---|---|---|
//! | [`RoundRobin`] | each in turn, in proportion to its weight | nginx's smooth weighted round robin |
//! | [`random`] | at random, in proportion to the weights | |
//! | [`least_request`] | the less loaded of two random candidates | Mitzenmacher, "The Power of Two Choices", 2001 |
//! | [`highest`] | the same candidate for the same key | Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", 1998 |
//!
//! Every policy takes a filter of the allowed candidates: a request that is sent again excludes the endpoints it has
//! tried. Candidates of weight 0 are never selected.

mod least_request;
mod rendezvous;
mod round_robin;
#[cfg(test)]
mod tests;

pub use self::least_request::{least_request, random};
pub use self::rendezvous::{hash, highest};
pub use self::round_robin::RoundRobin;

/// Candidate of a selection policy.
pub trait Selectable {
    /// Returns its share, in proportion to the other candidates.
    fn weight(&self) -> u32;
    /// Returns the number of its requests in flight.
    fn in_flight(&self) -> u32;
    /// Returns its unique id, the same in every gateway and after every start.
    fn identity(&self) -> u64;
}
