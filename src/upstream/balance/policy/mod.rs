//! How one of several endpoints is chosen: pure functions over the candidates, with the randomness handed in.
//!
//! | Policy | Chooses | From |
//! |---|---|---|
//! | [`RoundRobin`] | each in turn, as often as its weight says | nginx's smooth weighted round robin |
//! | [`random`] | by lot, with the weights as the odds | |
//! | [`least_request`] | of two drawn by lot the less busy one | Mitzenmacher, "The Power of Two Choices", 2001 |
//! | [`highest`] | the same one for the same key | Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", 1998 |
//!
//! Every policy takes `may`, which says who of the candidates may be chosen: a request that is sent again leaves out
//! those that it has been to. Candidates of weight 0 are never chosen.

mod least_request;
mod rendezvous;
mod round_robin;
#[cfg(test)]
mod tests;

pub use self::least_request::{least_request, random};
pub use self::rendezvous::{hash, highest};
pub use self::round_robin::RoundRobin;

/// What a policy knows of an endpoint.
pub trait Selectable {
    /// Its share, in proportion to the others'.
    fn weight(&self) -> u32;
    /// How many requests are under way to it.
    fn in_flight(&self) -> u32;
    /// A number that only it has, the same in every gateway and after every start.
    fn identity(&self) -> u64;
}
