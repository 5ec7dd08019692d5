//! Reload: reads the configuration again, and applies it if it has no errors.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use crate::admin::{ConfigState, ReloadError, ReloadResult};
use crate::app::process::{End, Process};
use crate::app::reader::Reader;
use crate::app::service_manager;
use crate::app::signals::{Command, CommandSignals, ShutDownSignals};
use crate::app::source::{Read, Source, read};
use crate::app::watch::FileWatch;
use tollgate_bounded_file::FileRecord;
use tollgate_config::Config;
use tollgate_proxy::gateway::SharedGeneration;
use tollgate_telemetry::log_writer::LogWriter;
use tollgate_telemetry::{key_display, logs};

/// Longest wait for the workers to serve a new configuration. A worker connects to another Redis first, for a second at most.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason to build a configuration again.
enum Change {
    /// SIGHUP, or a request of the admin port with the channel for its reply.
    Configuration(Option<oneshot::Sender<ReloadResult>>),
    /// A file has changed.
    Files,
    /// Services in the registries have come or gone.
    Services,
}

/// Commands that wait for the end of a reload.
#[derive(Default)]
struct RequestedChanges {
    reload: bool,
    hand_over: bool,
}

impl Process {
    /// Reloads on SIGHUP and on request of the admin port, and opens the access log again on SIGUSR1. Returns when a signal
    /// asks for shutdown, also during a reload, or when another process serves after SIGUSR2.
    pub(super) async fn reload_until_end(
        &mut self,
        (source, files): (&Source, FileRecord),
        commands: &mut CommandSignals,
        shut_down: &mut ShutDownSignals,
    ) -> End {
        let log = self.log.clone();
        let mut watch = FileWatch::new(files, self.config.borrow().files.watch.get());
        let mut requested = RequestedChanges::default();
        loop {
            let change = tokio::select! {
                () = shut_down.next() => return End::ShutDown,
                successor = next_successor(&mut self.offers, &mut requested.hand_over) => match self.hand_over_until(successor, shut_down).await {
                    Some(end) => return end,
                    None => continue,
                },
                () = async {}, if requested.reload => Change::Configuration(None),
                command = commands.next() => {
                    requested.run(command, log.as_ref());
                    continue;
                }
                reply = self.reload_requests.recv() => Change::Configuration(reply),
                () = self.upstreams.services_changed() => Change::Services,
                () = watch.changed() => Change::Files,
                () = self.upstreams.awaited_services() => {
                    tracing::info!("a registry has responded: the configuration is reloaded");
                    Change::Configuration(None)
                }
            };
            // A change of services reads no file.
            requested.reload &= matches!(change, Change::Services);
            let mut follow = pin!(self.follow(change, source, &mut watch));
            loop {
                tokio::select! {
                    () = shut_down.next() => return End::ShutDown,
                    () = &mut follow => break,
                    command = commands.next() => {
                        requested.run(command, log.as_ref());
                        let next = match command {
                            Command::Reload => "reload",
                            Command::HandOver => "handover",
                            Command::ReopenLogs => continue,
                        };
                        tracing::info!("a change of the configuration is in progress; the {next} follows it");
                    }
                }
            }
        }
    }

    async fn follow(&mut self, change: Change, source: &Source, watch: &mut FileWatch) {
        let (reply, last_read) = match change {
            Change::Services => return self.locate(source).await,
            Change::Configuration(reply) => (reply, None),
            Change::Files => (None, Some(watch.files())),
        };
        service_manager::reloading();
        self.admin.set_reload_since(Some(Timestamp::now()));
        let result = self.reload(source, last_read, watch).await;
        self.admin.set_reload_since(None);
        service_manager::ready();
        if let Some(reply) = reply {
            let _ = reply.send(result);
        }
    }

    /// Reopens the access log, then reads and applies the configuration, unless its files have the contents of `last_read`. Its
    /// files are those of `watch` then.
    async fn reload(
        &mut self,
        source: &Source,
        last_read: Option<Arc<FileRecord>>,
        watch: &mut FileWatch,
    ) -> ReloadResult {
        reopen(self.log.as_ref());
        let Source::Files { .. } = source else {
            tracing::info!("nothing to reload: the built-in configuration has no file");
            return Err(ReloadError::NoFile);
        };
        let reader = Reader::start().map_err(|error| {
            self.refuse(&error.to_string());
            ReloadError::Thread(error)
        })?;
        let (from, services) = (source.clone(), self.upstreams.services().clone());
        let is_asked_for = last_read.is_none();
        let (read, files) = reader.run(move || read(&from, &services, last_read.as_deref())).await;
        let result = self.follow_read(read, reader, source).await;
        if is_asked_for && result.is_ok() {
            self.certificates.retry();
        }
        *watch = FileWatch::new(files, self.config.borrow().files.watch.get());
        result
    }

    /// Applies the configuration that `reader` has read, unless it has errors or lost its routes; `None` if its files have
    /// the same contents.
    async fn follow_read(&mut self, read: Read, reader: Reader, source: &Source) -> ReloadResult {
        let (config, state) = match read {
            Ok(Some(read)) => read,
            Ok(None) => {
                tracing::debug!("files of the configuration written with the same contents");
                return Ok(());
            }
            Err(refused) => {
                let (error, text) = *refused;
                self.upstreams.await_no_services();
                self.refuse(&text);
                return Err(error.into());
            }
        };
        let config = match self.with_routes(config, &reader, source).await {
            Ok(config) => config,
            Err(error) => {
                self.refuse(&format!("{}: {error}", source.names()));
                return Err(error);
            }
        };
        for setting in self.admin.needs_restart(&config) {
            tracing::warn!(setting, "changed setting takes effect after a restart");
        }
        logs::set_level(config.logging.level());
        logs::mask(state.secrets.clone());
        let config = self.apply(config, Some(state), reader).await;
        tracing::info!(routes = config.routes.len(), "configuration reloaded");
        Ok(())
    }

    /// Records and logs that the configuration cannot be reloaded.
    fn refuse(&self, text: &str) {
        self.admin.reload_refused(text);
        tracing::error!("configuration not reloaded, the running one stays in use:\n{text}");
    }

    /// Applies `config`, which `reader` has read as `state` says; `None` if only its routes have changed.
    pub(super) async fn apply(&mut self, config: Config, state: Option<ConfigState>, reader: Reader) -> Arc<Config> {
        let config = Arc::new(config);
        #[cfg(feature = "jwt")]
        self.jwks.apply(config.jwt.as_ref()).await;
        self.upstreams.apply(&config).await;
        if state.is_some() {
            self.registrations.apply(&config.registrations, self.listener, config.server.tls.is_some()).await;
            key_display::configure(config.management.key_hashing.as_ref());
        }
        let (new, admin, is_traced) = (Arc::clone(&config), Arc::clone(&self.admin), self.spans.is_some());
        let build = move || {
            admin.stores.declare_limiters(&new);
            Arc::new(SharedGeneration::new(new, &admin.stores, &admin.metrics, is_traced))
        };
        let generation = reader.run(build).await;
        self.config.send_replace(Arc::clone(&config));
        drop(self.generation.send_replace(Arc::clone(&generation)));
        // A client that sees the reload sees its routes, on every worker.
        let workers = u32::try_from(self.workers.len()).unwrap_or(u32::MAX);
        if tokio::time::timeout(SWITCH_TIMEOUT, generation.serving.acquire_many(workers)).await.is_err() {
            tracing::warn!(timeout = ?SWITCH_TIMEOUT, "busy workers still serve the configuration before");
        }
        match state {
            Some(state) => self.admin.reload_applied(&config, state),
            None => self.admin.config.store(Arc::clone(&config)),
        }
        reader.keep(generation, Arc::clone(&self.admin.metrics));
        // Its thread drops the configuration before.
        self.reader = reader;
        config
    }
}

impl RequestedChanges {
    /// Runs a command of an operator, or notes it.
    fn run(&mut self, command: Command, log: Option<&LogWriter>) {
        match command {
            Command::Reload => self.reload = true,
            Command::ReopenLogs => reopen(log),
            Command::HandOver => self.hand_over = true,
        }
    }
}

/// Waits until a process can take over. Returns its connection, or `None` if this one is to start it, as a signal has asked.
async fn next_successor(offers: &mut mpsc::Receiver<UnixStream>, is_asked: &mut bool) -> Option<UnixStream> {
    if std::mem::take(is_asked) {
        return None;
    }
    match offers.recv().await {
        Some(other) => Some(other),
        None => std::future::pending().await,
    }
}

fn reopen(log: Option<&LogWriter>) {
    if let Some(log) = log {
        log.reopen();
    }
}
