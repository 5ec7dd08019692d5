//! HTTP/1.1 server of a stand-in: a thread for each connection, with outages and faulty responses.

use std::any::Any;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::request::{Request, read};

/// Groups of topics that are woken together.
const TOPICS: usize = 1024;

/// Fault of a stand-in.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Connections are closed without a response, as by a host whose server is down.
    Away,
    /// Connections stay open without a response.
    Silent,
    /// Every request gets these bytes, then the connection closes.
    Raw(Vec<u8>),
    /// Every request gets a status 200 with this body.
    Body(Vec<u8>),
}

/// A response.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    /// Further parts of the body, as they come; `None` ends it.
    pub(super) parts: Option<Parts>,
}

/// Source of the parts of a body, from the state of the stand-in. It waits until there is one.
pub(super) type Parts = Box<dyn FnMut(&dyn Any) -> Option<Vec<u8>> + Send>;

/// State of a stand-in, and the requests that it has received.
pub(super) struct Shared<S> {
    inner: Mutex<Inner<S>>,
    /// One for the topics of each hash: a thousand requests may wait, and a change concerns few of them.
    changed: [Condvar; TOPICS],
}

pub(super) struct Inner<S> {
    pub(super) state: S,
    pub(super) requests: Vec<Request>,
    fault: Option<Fault>,
    /// Incremented when a fault begins or ends.
    epoch: u64,
}

impl Response {
    pub(super) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), parts: None }
    }

    pub(super) fn json(value: &Value) -> Self {
        Self {
            headers: vec![("Content-Type", "application/json".to_owned())],
            body: value.to_string().into(),
            ..Self::status(200)
        }
    }

    pub(super) fn text(status: u16, text: &str) -> Self {
        Self { body: text.into(), ..Self::status(status) }
    }

    pub(super) fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl<S: Send + 'static> Shared<S> {
    /// Starts a server on a free loopback port. Its threads end with the test process.
    pub(super) fn start(
        state: S,
        answer: impl Fn(&Self, &Request) -> Response + Send + Sync + 'static,
    ) -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Inner { state, requests: Vec::new(), fault: None, epoch: 0 };
        let shared = Arc::new(Self { inner: Mutex::new(inner), changed: std::array::from_fn(|_| Condvar::new()) });
        let (serving, answer) = (Arc::clone(&shared), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (serving, answer) = (Arc::clone(&serving), Arc::clone(&answer));
                std::thread::spawn(move || serving.serve(stream, &*answer));
            }
        });
        (shared, address)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes the state, and wakes all requests that wait.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        let outcome = change(&mut self.lock().state);
        self.wake_all();
        outcome
    }

    /// Changes the state, and wakes requests that wait for one of the topics that `change` returns.
    pub(super) fn change_topics(&self, change: impl FnOnce(&mut S) -> Vec<String>) {
        let topics = change(&mut self.lock().state);
        topics.iter().for_each(|topic| self.changed[group(topic)].notify_all());
    }

    fn wake_all(&self) {
        self.changed.iter().for_each(Condvar::notify_all);
    }

    /// Begins or ends a fault. Requests that wait are cut.
    pub(super) fn fault(&self, fault: Option<Fault>) {
        let mut inner = self.lock();
        inner.fault = fault;
        inner.epoch += 1;
        drop(inner);
        self.wake_all();
    }

    /// Waits until `ready` or for `timeout`.
    pub(super) fn wait(&self, timeout: Duration, ready: impl Fn(&S) -> bool) {
        self.wait_for("", timeout, ready);
    }

    /// Waits until `ready` or for `timeout`, and looks only after changes of `topic`. A fault, also one that began after
    /// the request arrived, ends the wait.
    pub(super) fn wait_for(&self, topic: &str, timeout: Duration, ready: impl Fn(&S) -> bool) {
        let end = Instant::now() + timeout;
        let mut inner = self.lock();
        let epoch = inner.epoch;
        while inner.epoch == epoch && inner.fault.is_none() && !ready(&inner.state) && Instant::now() < end {
            inner = self.changed[group(topic)].wait_timeout(inner, end - Instant::now()).unwrap().0;
        }
    }

    /// Waits for the end of the fault that began with `epoch`.
    fn wait_for_the_end_of_the_fault(&self, epoch: u64) {
        let mut inner = self.lock();
        while inner.epoch == epoch {
            inner = self.changed[group("")].wait(inner).unwrap();
        }
    }

    /// Sends a body part by part, until it ends or a fault cuts it.
    fn stream(&self, writer: &mut TcpStream, mut parts: Parts, epoch: u64) -> std::io::Result<()> {
        writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        while let Some(part) = parts(self) {
            if self.lock().epoch != epoch {
                return Ok(());
            }
            writer.write_all(format!("{:x}\r\n", part.len()).as_bytes())?;
            writer.write_all(&part)?;
            writer.write_all(b"\r\n")?;
        }
        if self.lock().epoch == epoch { writer.write_all(b"0\r\n\r\n") } else { Ok(()) }
    }

    fn serve(&self, stream: TcpStream, answer: &(impl Fn(&Self, &Request) -> Response + ?Sized)) {
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        while !matches!(self.lock().fault, Some(Fault::Away)) {
            let Some(request) = read(&mut reader) else { return };
            let (epoch, fault) = {
                let mut inner = self.lock();
                inner.requests.push(request.clone());
                (inner.epoch, inner.fault.clone())
            };
            let bytes = match fault {
                None => {
                    let response = answer(self, &request);
                    // A request that waited when a fault began is cut.
                    if self.lock().epoch != epoch {
                        return;
                    }
                    if let Some(parts) = response.parts {
                        let _ = self.stream(&mut writer, parts, epoch);
                        return;
                    }
                    response.bytes()
                }
                Some(Fault::Away) => return,
                Some(Fault::Silent) => {
                    self.wait_for_the_end_of_the_fault(epoch);
                    return;
                }
                Some(Fault::Raw(bytes)) => {
                    let _ = writer.write_all(&bytes);
                    return;
                }
                Some(Fault::Body(body)) => Response { body, ..Response::status(200) }.bytes(),
            };
            if writer.write_all(&bytes).is_err() {
                return;
            }
        }
    }
}

fn group(topic: &str) -> usize {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(topic) as usize % TOPICS
}

impl Response {
    fn bytes(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Status\r\nContent-Length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        [format!("{head}\r\n").into_bytes(), self.body.clone()].concat()
    }
}
