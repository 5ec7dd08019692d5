#![allow(clippy::unwrap_used)]
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// Returns a header of version 2 with this command, family and body.
fn binary(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap();
    [v2::SIGNATURE, &[command, family], &length.to_be_bytes(), body].concat()
}

fn field(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind][..], &u16::try_from(value.len()).unwrap().to_be_bytes(), value].concat()
}

/// Addresses of IPv4: 192.0.2.7:4711 and 10.0.0.1:443.
const IPV4: &[u8] = &[192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x67, 0x01, 0xBB];

fn ipv4(fields: &[Vec<u8>]) -> Vec<u8> {
    binary(0x21, 0x11, &[IPV4, &fields.concat()].concat())
}

fn source(bytes: &[u8]) -> Result<String, HeaderError> {
    let header = parse(bytes)?.unwrap();
    assert_eq!(header.length, bytes.len());
    Ok(header.source.map_or_else(|| "-".to_owned(), |source| source.to_string()))
}

#[test]
fn a_line_names_the_client() {
    for (line, expected) in [
        ("TCP4 192.0.2.7 10.0.0.1 4711 443", "192.0.2.7:4711"),
        ("TCP4 255.255.255.255 255.255.255.255 65535 65535", "255.255.255.255:65535"),
        ("TCP4 192.0.2.7 10.0.0.1 0 0", "192.0.2.7:0"),
        ("TCP6 2001:db8::7 2001:db8::1 4711 443", "[2001:db8::7]:4711"),
        (
            "TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535",
            "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
        ),
        ("TCP6 ::ffff:192.0.2.7 ::1 1 2", "192.0.2.7:1"),
        ("UNKNOWN", "-"),
        ("UNKNOWN ffff:f...f:ffff \u{fffd} 65535 65535", "-"),
    ] {
        assert_eq!(source(format!("PROXY {line}\r\n").as_bytes()), Ok(expected.to_owned()), "{line}");
    }
}

#[test]
fn a_line_of_another_form_is_malformed() {
    for line in [
        "TCP4 192.0.2.7 10.0.0.1 4711\r\n",
        "TCP4 192.0.2.7 10.0.0.1 4711 443 1\r\n",
        "TCP4 192.0.2.7 10.0.0.1 4711 443 \r\n",
        "TCP4  192.0.2.7 10.0.0.1 4711 443\r\n",
        "TCP4 192.0.2.7 10.0.0.1 +4711 443\r\n",
        "TCP4 192.0.2.7 10.0.0.1 04711 443\r\n",
        "TCP4 192.0.2.7 10.0.0.1 65536 443\r\n",
        "TCP4 192.0.2.7 10.0.0.1 4711 443\n",
        "TCP4 192.0.2.7 10.0.0.1 4711\n443\r\n",
        "TCP4 192.0.2.300 10.0.0.1 4711 443\r\n",
        "TCP4 2001:db8::7 2001:db8::1 4711 443\r\n",
        "TCP6 192.0.2.7 10.0.0.1 4711 443\r\n",
        "TCP6 fe80::1%eth0 2001:db8::1 4711 443\r\n",
        "UDP4 192.0.2.7 10.0.0.1 4711 443\r\n",
        "tcp4 192.0.2.7 10.0.0.1 4711 443\r\n",
        "UNKNOWNS\r\n",
        "\r\n",
    ] {
        let parsed = parse([b"PROXY ", line.as_bytes()].concat().as_slice()).map(|header| header.is_some());
        assert!(matches!(parsed, Err(HeaderError::Malformed(_))), "{line:?}: {parsed:?}");
    }
}

#[test]
fn a_line_has_107_bytes_at_most() {
    let line = |length: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(length - 16)).into_bytes();
    assert_eq!(source(&line(107)), Ok("-".to_owned()));
    assert_eq!(parse(&line(108)), Err(HeaderError::TooLong));
    assert_eq!(parse(&line(4000)), Err(HeaderError::TooLong));
    assert_eq!(parse(&line(107)[..106]), Ok(None));
}

#[test]
fn a_binary_header_names_the_client_of_a_tcp_connection() {
    let (seven, one) = ([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7], [0; 16]);
    let ipv6 = [&seven[..], &one, &[0x12, 0x67, 0x01, 0xBB]].concat();
    let mut mapped = ipv6.clone();
    mapped[..16].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7]);
    let unix = [b'/'; 216];
    for (family, body, expected) in [
        (0x11, IPV4, "192.0.2.7:4711"),
        (0x21, &ipv6, "[2001:db8::7]:4711"),
        (0x21, &mapped, "192.0.2.7:4711"),
        // UDP, Unix sockets, and what the sender does not know.
        (0x12, IPV4, "-"),
        (0x22, &ipv6, "-"),
        (0x31, &unix, "-"),
        (0x32, &unix, "-"),
        (0x00, &[], "-"),
        (0x10, IPV4, "-"),
    ] {
        assert_eq!(source(&binary(0x21, family, body)), Ok(expected.to_owned()), "{family:x}");
        if !body.is_empty() {
            let cut = parse(&binary(0x21, family, &body[1..])).map(|header| header.is_some());
            assert!(matches!(cut, Err(HeaderError::Malformed(_))), "{family:x}: {cut:?}");
        }
    }
}

#[test]
fn a_local_header_has_no_meaning_but_its_length() {
    for (family, body) in [(0x00, &b""[..]), (0x11, IPV4), (0xFF, b"anything"), (0x21, b"short")] {
        assert_eq!(source(&binary(0x20, family, body)), Ok("-".to_owned()), "{family:x}");
    }
}

#[test]
fn unknown_versions_commands_families_and_transports_are_malformed() {
    for (command, family) in
        [(0x11, 0x11), (0x31, 0x11), (0x01, 0x11), (0x22, 0x11), (0x2F, 0x11), (0x21, 0x13), (0x21, 0x41)]
    {
        let parsed = parse(&binary(command, family, IPV4)).map(|header| header.is_some());
        assert!(matches!(parsed, Err(HeaderError::Malformed(_))), "{command:x} {family:x}: {parsed:?}");
    }
}

#[test]
fn a_binary_header_has_4096_bytes_at_most() {
    let with_noop = |length: usize| ipv4(&[field(0x04, &vec![0; length - 16 - IPV4.len() - 3])]);
    assert_eq!(source(&with_noop(4096)), Ok("192.0.2.7:4711".to_owned()));
    assert_eq!(parse(&with_noop(4097)), Err(HeaderError::TooLong));
    let longest = [v2::SIGNATURE, &[0x21, 0x11, 0xFF, 0xFF]].concat();
    assert_eq!(parse(&longest), Err(HeaderError::TooLong), "before its 65,535 bytes have arrived");
    let local = [v2::SIGNATURE, &[0x20, 0x00, 0xFF, 0xFF]].concat();
    assert_eq!(parse(&local), Err(HeaderError::TooLong));
}

#[test]
fn ids_are_read_and_other_fields_are_skipped() {
    let bytes = ipv4(&[
        field(0x01, b"h2"),
        field(0x20, &[7, 0, 0, 0, 0]),
        field(0x05, b"id-\xff-1"),
        field(0xEA, b"\x02other"),
        field(0xEA, b"\x01vpce-08d2bf15fac5001c9"),
        field(0xEA, b""),
        field(0x04, b""),
    ]);
    let header = parse(&bytes).unwrap().unwrap();
    assert_eq!(
        (header.unique_id, header.vpc_endpoint_id),
        (Some(&b"id-\xff-1"[..]), Some(&b"vpce-08d2bf15fac5001c9"[..]))
    );
    let malformed = |fields: &[Vec<u8>]| parse(&ipv4(fields)).map(|header| header.is_some());
    assert_eq!(malformed(&[field(0x05, &[b'x'; 128])]), Ok(true));
    for fields in
        [&[field(0x05, &[b'x'; 129])][..], &[vec![0x04, 0]], &[vec![0x04, 0, 1]], &[vec![0x04, 0xFF, 0xFF, 0]]]
    {
        assert!(matches!(malformed(fields), Err(HeaderError::Malformed(_))), "{fields:?}");
    }
}

#[test]
fn a_checksum_is_verified_wherever_it_stands() {
    for around in [[vec![], vec![]], [field(0x05, b"first"), vec![]], [vec![], field(0x05, b"last")]] {
        let [before, after] = around;
        let zeroed = ipv4(&[before.clone(), field(0x03, &[0; 4]), after.clone()]);
        let sum = crc32c(&zeroed).to_be_bytes();
        let mut bytes = ipv4(&[before.clone(), field(0x03, &sum), after]);
        assert_eq!(source(&bytes), Ok("192.0.2.7:4711".to_owned()));
        let kind = 16 + IPV4.len() + before.len();
        // A field of another type would be no checksum.
        for at in (16..bytes.len()).filter(|at| *at != kind) {
            bytes[at] ^= 1;
            assert!(parse(&bytes).is_err(), "a flipped bit at {at}");
            bytes[at] ^= 1;
        }
    }
    assert_eq!(source(&ipv4(&[field(0x03, &[0; 4])])), Err(HeaderError::Checksum));
    for fields in [vec![field(0x03, &[0; 3])], vec![field(0x03, &[0; 5])]] {
        assert!(matches!(parse(&ipv4(&fields)), Err(HeaderError::Malformed(_))), "{fields:?}");
    }
}

#[test]
fn the_header_of_a_balancer_is_read() {
    // HAProxy 2.6 with `send-proxy-v2 proxy-v2-options crc32c,unique-id`.
    let bytes = b"\r\n\r\n\0\r\nQUIT\n!\x11\0%\x7f\0\0\x02\x7f\0\0\x01\x85K\xe1g\x03\0\x04\xf5\xae\xce\x89\x05\0\x0f127.0.0.2:34123x";
    let header = parse(bytes).unwrap().unwrap();
    assert_eq!(header.source, "127.0.0.2:34123".parse().ok());
    assert_eq!((header.unique_id, &bytes[header.length..]), (Some(&b"127.0.0.2:34123"[..]), &b"x"[..]));
}

/// Computes CRC32C bit by bit (RFC 3720 §12.1).
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 & (!(crc & 1)).wrapping_add(1)))
    })
}

#[test]
fn other_protocols_are_recognized_by_their_first_bytes() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"PRI * HTTP/2.0",
        b"PUT",
        b"PO",
        b"\x16\x03\x01",
        b"\r\nGET",
        b"PROXYING",
        b"PROXY\t",
    ] {
        assert_eq!(parse(bytes), Err(HeaderError::Missing), "{bytes:?}");
    }
}

proptest! {
    /// Addresses are those that the standard library accepts.
    #[test]
    fn addresses_are_those_of_the_standard_library(
        address in "[0-9a-fA-F]{1,5}(:[0-9a-f]{0,4}){0,8}|(1?[0-9]{1,2}[.]){2,4}[0-9]{0,3}|([0-9a-f]{0,2}:){1,7}(25[4-6]|[0-9])([.][0-9]{1,2}){3}|[0-9a-f:.]{0,12}",
        is_source in any::<bool>(),
    ) {
        for (family, other, expected) in [
            ("TCP4", "192.0.2.1", address.parse::<Ipv4Addr>().ok().map(IpAddr::from)),
            ("TCP6", "2001:db8::1", address.parse::<Ipv6Addr>().ok().map(IpAddr::from)),
        ] {
            let (from, to) = if is_source { (&*address, other) } else { (other, &*address) };
            let line = format!("PROXY {family} {from} {to} 1 2\r\n");
            let source = parse(line.as_bytes()).ok().flatten().and_then(|header| header.source);
            let source_ip = expected.map(|ip| if is_source { ip.to_canonical() } else { other.parse().unwrap() });
            prop_assert_eq!(source, source_ip.map(|ip| SocketAddr::new(ip, 1)), "{}", line);
        }
    }

    /// The result does not depend on how the bytes arrive, nor on the bytes behind the header.
    #[test]
    fn each_split_gives_the_same_header(
        command in 0x1F_u8..0x24,
        family in any::<u8>(),
        body in prop::collection::vec(any::<u8>(), 0..300),
        line in "(TCP4|TCP6|UNKNOWN) [0-9.:a-f ]{0,90}\r?\n",
        is_text in any::<bool>(),
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let header = if is_text { format!("PROXY {line}").into_bytes() } else { binary(command, family, &body) };
        let whole = parse(&header);
        let bytes = [&header[..], &rest].concat();
        prop_assert_eq!(parse(&bytes), whole);
        for end in 0..header.len() {
            match parse(&bytes[..end]) {
                Ok(None) => {}
                early => prop_assert!(early.is_err() && early == whole, "{:?} after {} bytes, {:?}", early, end, whole),
            }
        }
    }
}
