//! Fake Sentinels with scripted replies.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use tollgate_limiter::store::redis::HostPort;

/// Reply of a fake Sentinel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Says {
    /// Port of the primary on 127.0.0.1, and the configuration epoch.
    Primary(u16, u64),
    /// It does not know the name.
    Unknown,
    /// It does not reply.
    Nothing,
}

/// A fake Sentinel; it closes all connections on drop.
pub(crate) struct FakeSentinel {
    pub(crate) address: HostPort,
    says: Arc<Mutex<Says>>,
    live: Arc<Mutex<Vec<TcpStream>>>,
}

impl FakeSentinel {
    pub(crate) fn start(says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = HostPort { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
        let (says, live) = (Arc::new(Mutex::new(says)), Arc::<Mutex<Vec<TcpStream>>>::default());
        let (what, open) = (Arc::clone(&says), Arc::downgrade(&live));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(open) = open.upgrade() else { return };
                open.lock().unwrap().push(stream.try_clone().unwrap());
                let what = Arc::clone(&what);
                std::thread::spawn(move || serve(&stream, &what));
            }
        });
        Self { address, says, live }
    }

    pub(crate) fn says(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }
}

impl Drop for FakeSentinel {
    fn drop(&mut self) {
        for stream in self.live.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn serve(mut stream: &TcpStream, says: &Mutex<Says>) {
    let mut reader = BufReader::new(stream);
    while let Some(command) = command(&mut reader) {
        let says = *says.lock().unwrap();
        let reply = match (says, command.get(1).map(String::as_str)) {
            (Says::Nothing, _) => continue,
            (Says::Primary(port, _), Some("GET-MASTER-ADDR-BY-NAME")) => array(&["127.0.0.1", &port.to_string()]),
            (Says::Primary(port, epoch), Some("MASTER")) => {
                array(&["name", "m", "port", &port.to_string(), "config-epoch", &epoch.to_string()])
            }
            (Says::Unknown, Some("GET-MASTER-ADDR-BY-NAME")) => "*-1\r\n".into(),
            _ => "-ERR No such master with that name\r\n".into(),
        };
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

fn array(words: &[&str]) -> String {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{words}", words.matches('$').count())
}

fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let words = number(reader)?;
    (0..words)
        .map(|_| {
            let mut word = vec![0; number(reader)? + 2];
            reader.read_exact(&mut word).ok()?;
            String::from_utf8(word).ok().map(|word| word.trim_end().to_owned())
        })
        .collect()
}

/// Returns the number in a line such as `*3`.
fn number(reader: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.get(1..)?.trim_end().parse().ok()
}
