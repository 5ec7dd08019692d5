//! Decision to send a request again.

/// Attempts beyond the first for a request that upstreams certainly did not process.
const MAX_UNPROCESSED: u32 = 8;
/// Attempts beyond the first for a request whose stream was refused. An upstream that refuses may be overloaded.
const MAX_REFUSED: u32 = 2;

/// Knowledge about a request whose exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// No byte of it was written, or the upstream's GOAWAY named an earlier stream as the last one (RFC 9113 §6.8).
    Unprocessed,
    /// The upstream reset the stream with `REFUSED_STREAM` (RFC 9113 §8.7).
    Refused,
    /// The connection closed before the response: the upstream may have processed it.
    Unknown,
    /// The upstream sent an invalid response, or none in time. The next one would be the same.
    Final,
}

/// Further attempts of one request so far.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    unprocessed: u32,
    refused: u32,
    unknown: u32,
}

impl Repeats {
    /// Returns true if the request may be sent again. A request that the upstream may have processed is repeated once,
    /// if it `is_idempotent` (RFC 9110 §9.2.2).
    pub(super) fn allow(&mut self, progress: Progress, is_idempotent: bool) -> bool {
        let (count, max) = match progress {
            Progress::Unprocessed => (&mut self.unprocessed, MAX_UNPROCESSED),
            Progress::Refused => (&mut self.refused, MAX_REFUSED),
            Progress::Unknown => (&mut self.unknown, u32::from(is_idempotent)),
            Progress::Final => return false,
        };
        *count += 1;
        *count <= max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(progress: Progress, is_idempotent: bool) -> usize {
        let mut repeats = Repeats::default();
        (1..).find(|_| !repeats.allow(progress, is_idempotent)).unwrap_or_default()
    }

    #[test]
    fn unprocessed_requests_are_repeated_whatever_their_method_and_others_once_if_idempotent() {
        for is_idempotent in [false, true] {
            assert_eq!(attempts(Progress::Unprocessed, is_idempotent), 9);
            assert_eq!(attempts(Progress::Refused, is_idempotent), 3);
            assert_eq!(attempts(Progress::Final, is_idempotent), 1);
        }
        assert_eq!((attempts(Progress::Unknown, false), attempts(Progress::Unknown, true)), (1, 2));
    }
}
