//! The way to a node, followed as it changes.

use redis::{ConnectionInfo, RedisResult};

use super::dial::Dial;
use super::node::Address;
use super::primary::Moves;

/// The way to a node.
pub(super) enum Route {
    Fixed(Box<ConnectionInfo>),
    Primary(Moves),
}

impl Route {
    pub(super) fn to(address: &Address) -> Self {
        match address {
            Address::Fixed(info) => Self::Fixed(info.clone()),
            Address::Primary(primary) => Self::Primary(primary.moves()),
        }
    }

    /// How to connect, as soon as it is known where to.
    pub(super) async fn info(&mut self, dial: &Dial) -> RedisResult<ConnectionInfo> {
        match self {
            Self::Fixed(info) => dial.again(info),
            Self::Primary(moves) => dial.to(&moves.place().await),
        }
    }

    /// Whether a server that is no primary is the wrong one.
    pub(super) fn leads_to_primary(&self) -> bool {
        matches!(self, Self::Primary(_))
    }

    /// Waits until it leads elsewhere than [`info`](Self::info) said last.
    pub(super) async fn moved(&mut self) {
        match self {
            Self::Fixed(_) => std::future::pending().await,
            Self::Primary(moves) => moves.moved().await,
        }
    }

    /// Whether it does.
    pub(super) fn has_moved(&self) -> bool {
        matches!(self, Self::Primary(moves) if moves.has_moved())
    }
}
