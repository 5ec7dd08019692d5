//! Version 2: a binary header with further fields, each with its type and its length (TLVs).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crc::{CRC_32_ISCSI, Crc};

use crate::HeaderError::Malformed;
use crate::{Header, HeaderError};

pub(crate) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes before the addresses: signature, command, family, and the length of the rest.
const FIXED_BYTES: usize = 16;
/// Longest header in bytes. Certificates of clients, the largest fields, take 1,000 to 2,000.
pub(crate) const MAX_BYTES: usize = 4096;

const VERSION: u8 = 2;
const LOCAL: u8 = 0;
const PROXY: u8 = 1;
const STREAM: u8 = 1;
const DATAGRAM: u8 = 2;

const TYPE_CRC32C: u8 = 0x03;
const TYPE_UNIQUE_ID: u8 = 0x05;
const TYPE_AWS: u8 = 0xEA;
const AWS_VPC_ENDPOINT_ID: u8 = 0x01;
const MAX_UNIQUE_ID: usize = 128;

const CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// Parses a header that begins with [`SIGNATURE`].
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Header<'_>>, HeaderError> {
    let Some([.., command, family, high, low]) = bytes.first_chunk::<FIXED_BYTES>() else { return Ok(None) };
    let length = FIXED_BYTES + usize::from(u16::from_be_bytes([*high, *low]));
    if command >> 4 != VERSION {
        return Err(Malformed("version"));
    }
    if length > MAX_BYTES {
        return Err(HeaderError::TooLong);
    }
    let Some(bytes) = bytes.get(..length) else { return Ok(None) };
    let mut header = Header { length, ..Header::default() };
    match command & 0xF {
        // All else has no meaning.
        LOCAL => return Ok(Some(header)),
        PROXY => {}
        _ => return Err(Malformed("command")),
    }
    let (family, transport) = (family >> 4, family & 0xF);
    if transport > DATAGRAM {
        return Err(Malformed("transport"));
    }
    let addresses = match family {
        0 => 0,
        1 => 12,
        2 => 36,
        // Paths of Unix sockets.
        3 => 216,
        _ => return Err(Malformed("family")),
    };
    let Some((addresses, fields)) = bytes[FIXED_BYTES..].split_at_checked(addresses) else {
        return Err(Malformed("length of the addresses"));
    };
    if transport == STREAM {
        header.source = source(addresses);
    }
    read_fields(&mut header, bytes, fields)?;
    Ok(Some(header))
}

/// Returns the first of two addresses of IPv4 or IPv6.
fn source(addresses: &[u8]) -> Option<SocketAddr> {
    let (ip, ports): (IpAddr, &[u8]) = match addresses.len() {
        12 => (Ipv4Addr::from(*addresses.first_chunk::<4>()?).into(), addresses.get(8..)?),
        36 => (Ipv6Addr::from(*addresses.first_chunk::<16>()?).into(), addresses.get(32..)?),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), u16::from_be_bytes(*ports.first_chunk::<2>()?)))
}

/// Reads `fields`, the last bytes of the header in `bytes`.
fn read_fields<'b>(header: &mut Header<'b>, bytes: &'b [u8], mut fields: &'b [u8]) -> Result<(), HeaderError> {
    let mut has_checksum = false;
    while let [kind, high, low, rest @ ..] = fields {
        let at = bytes.len() - rest.len();
        let Some((value, next)) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low]))) else {
            return Err(Malformed("length of a field"));
        };
        match (*kind, value) {
            (TYPE_CRC32C, value) => {
                let value = <[u8; 4]>::try_from(value).map_err(|_| Malformed("length of the checksum"))?;
                if std::mem::replace(&mut has_checksum, true) {
                    return Err(Malformed("two checksums"));
                }
                if checksum(&bytes[..at], next) != u32::from_be_bytes(value) {
                    return Err(HeaderError::Checksum);
                }
            }
            (TYPE_UNIQUE_ID, id) if id.len() > MAX_UNIQUE_ID => return Err(Malformed("length of the unique id")),
            (TYPE_UNIQUE_ID, id) => header.unique_id = Some(id),
            (TYPE_AWS, [AWS_VPC_ENDPOINT_ID, id @ ..]) => header.vpc_endpoint_id = Some(id),
            _ => {}
        }
        fields = next;
    }
    if fields.is_empty() { Ok(()) } else { Err(Malformed("bytes behind the last field")) }
}

/// Returns the CRC32C of a header whose checksum between both parts counts as zero.
fn checksum(before: &[u8], after: &[u8]) -> u32 {
    let mut digest = CRC32C.digest();
    for part in [before, &[0; 4], after] {
        digest.update(part);
    }
    digest.finalize()
}
