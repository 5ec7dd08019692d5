//! DNS server with settable records, over UDP (RFC 1035 §4, RFC 2782).

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

/// A listening server. Its thread ends with the test process.
pub struct Dns {
    /// Listening address.
    pub address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
}

#[derive(Default)]
struct Zone {
    records: Vec<(String, Record)>,
    queries: usize,
    is_silent: bool,
}

/// Record of a name.
#[derive(Clone)]
pub enum Record {
    /// An address.
    Address(IpAddr),
    /// Priority, weight, port and target.
    Service(u16, u16, u16, &'static str),
}

/// Time to live of every record: zero, so that each refresh sends a query.
const TTL: [u8; 4] = [0; 4];

impl Dns {
    /// Starts a server without names.
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(Zone::default()));
        let known = Arc::clone(&zone);
        std::thread::spawn(move || {
            let mut packet = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                let mut zone = known.lock().unwrap();
                zone.queries += 1;
                if let Some(answer) = answer(&packet[..length], &zone.records).filter(|_| !zone.is_silent) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Self { address, zone }
    }

    /// Replaces the records of `name`.
    pub fn set(&self, name: &str, records: impl IntoIterator<Item = Record>) {
        let mut zone = self.zone.lock().unwrap();
        zone.records.retain(|(known, _)| known != name);
        zone.records.extend(records.into_iter().map(|record| (name.to_owned(), record)));
    }

    /// Stops or resumes answering.
    pub fn silence(&self, is_silent: bool) {
        self.zone.lock().unwrap().is_silent = is_silent;
    }

    /// Returns the number of queries received.
    pub fn queries(&self) -> usize {
        self.zone.lock().unwrap().queries
    }
}

fn answer(query: &[u8], records: &[(String, Record)]) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut at = 12;
    while *query.get(at)? > 0 {
        let label = query.get(at + 1..at + 1 + usize::from(query[at]))?;
        name.push(String::from_utf8_lossy(label).to_lowercase());
        at += 1 + label.len();
    }
    let name = name.join(".");
    let question = query.get(12..at + 5)?;
    let kind = u16::from_be_bytes([question[question.len() - 4], question[question.len() - 3]]);
    let of_name: Vec<&Record> = records.iter().filter(|(known, _)| *known == name).map(|(_, record)| record).collect();
    let data: Vec<Vec<u8>> = of_name.iter().filter_map(|record| record.data(kind)).collect();
    // Answer, authoritative, recursion as asked and available; NXDOMAIN where the name is not known at all.
    let flags = [0x84 | (query[2] & 1), if of_name.is_empty() { 0x83 } else { 0x80 }];
    let mut packet =
        [&query[..2], &flags, &[0, 1], &u16::try_from(data.len()).unwrap().to_be_bytes(), &[0; 4]].concat();
    packet.extend_from_slice(question);
    for data in data {
        // The name is that of the question, at offset 12.
        packet.extend([[0xc0, 12], kind.to_be_bytes(), [0, 1]].concat());
        packet.extend(TTL);
        packet.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        packet.extend(data);
    }
    Some(packet)
}

impl Record {
    /// Its data, if it is of that kind.
    fn data(&self, kind: u16) -> Option<Vec<u8>> {
        match (self, kind) {
            (Self::Address(IpAddr::V4(ip)), 1) => Some(ip.octets().to_vec()),
            (Self::Address(IpAddr::V6(ip)), 28) => Some(ip.octets().to_vec()),
            (Self::Service(priority, weight, port, target), 33) => {
                let mut data: Vec<u8> =
                    [*priority, *weight, *port].iter().flat_map(|part| part.to_be_bytes()).collect();
                for label in target.split('.') {
                    data.push(u8::try_from(label.len()).unwrap());
                    data.extend(label.bytes());
                }
                data.push(0);
                Some(data)
            }
            _ => None,
        }
    }
}
