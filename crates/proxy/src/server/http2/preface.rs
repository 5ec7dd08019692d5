//! Check of the frame that follows the client's connection preface.
//!
//! It must be SETTINGS (RFC 9113 §3.4). The `h2` crate accepts any frame, so another one is turned into a frame that `h2`
//! refuses with `PROTOCOL_ERROR`: SETTINGS on a stream.

/// Position of the frame's type: after the preface and the frame's length.
const TYPE: usize = 24 + 3;
const FLAGS: usize = TYPE + 1;
/// Positions of the frame's stream identifier.
const STREAM: std::ops::Range<usize> = FLAGS + 1..FLAGS + 5;
const SETTINGS: u8 = 4;
const ACK: u8 = 1;

/// Check of the first bytes from a client.
#[derive(Debug, Default)]
pub(super) struct PrefaceCheck {
    /// Number of bytes read, up to the end of the frame's head.
    read: usize,
    is_invalid: bool,
}

impl PrefaceCheck {
    /// Checks the next bytes, and makes a wrong frame one that `h2` refuses.
    pub(super) fn check(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            match self.read {
                TYPE => {
                    self.is_invalid = *byte != SETTINGS;
                    *byte = SETTINGS;
                }
                FLAGS => {
                    self.is_invalid |= *byte & ACK != 0;
                    *byte &= !ACK;
                }
                at if at + 1 == STREAM.end && self.is_invalid => *byte = 1,
                at if at >= STREAM.end => return,
                _ => {}
            }
            self.read += 1;
        }
    }
}
