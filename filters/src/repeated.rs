//! Values of a field or parameter that a request may repeat.

/// Values of one name in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeated<V> {
    /// There is no value.
    Absent,
    /// There is one value, or several equal ones.
    One(V),
    /// There are different values: an upstream may read another one than the gateway.
    Differing,
}

impl<V: PartialEq> Repeated<V> {
    /// Adds a further value.
    pub(crate) fn add(&mut self, value: V) {
        match self {
            Self::Absent => *self = Self::One(value),
            Self::One(first) if *first != value => *self = Self::Differing,
            Self::One(_) | Self::Differing => {}
        }
    }
}

impl<'v> Repeated<&'v [u8]> {
    /// Reads `values`, of which two count as equal if `same` says so.
    pub(crate) fn of(mut values: impl Iterator<Item = &'v [u8]>, same: impl Fn(&[u8], &[u8]) -> bool) -> Self {
        match values.next() {
            None => Self::Absent,
            Some(first) if values.all(|value| same(first, value)) => Self::One(first),
            Some(_) => Self::Differing,
        }
    }

    /// Returns the value if there is exactly one.
    pub(crate) fn one(self) -> Option<&'v [u8]> {
        match self {
            Self::One(value) => Some(value),
            Self::Absent | Self::Differing => None,
        }
    }
}
