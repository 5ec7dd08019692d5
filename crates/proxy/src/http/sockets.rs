//! Sockets of connections with clients and upstreams: TCP keepalive, and the size of reads.

use std::time::Duration;

use socket2::TcpKeepalive;

/// Probes of a silent connection: the kernel closes it if the other side has vanished. Linux sends 9 of them.
pub const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));

/// Returns the largest number of bytes to read into a buffer of `size` bytes: 1/32 less.
///
/// Each part is forwarded as it was read. Linux sends up to 64 KB of a write in one step, as whole segments: 65,483 bytes on
/// the loopback interface, 65,160 or 64,240 with packets of 1,500 bytes. A write of 64 KB or a multiple would end with a
/// step of a few hundred bytes, as costly as a full one.
pub const fn part(size: usize) -> usize {
    size - size / 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that the first part may gain: header fields that the gateway adds, and the framing of a chunk.
    const GAIN: usize = 400;

    #[test]
    fn a_full_part_is_sent_in_few_steps_of_similar_size() {
        // The loopback interface over IPv4 and IPv6, packets of 1,500 bytes with and without timestamps.
        for step in [65_483, 65_463, 65_160, 64_240] {
            for size in [64 * 1024, 128 * 1024, 256 * 1024] {
                let lasts = [part(size) % step, (part(size) + GAIN) % step];
                assert!(lasts.iter().all(|last| *last > step / 4 * 3), "{lasts:?} of {step} for {size}");
            }
        }
    }
}
