//! Compared designs.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Script};
use tokio::runtime::{Builder, Runtime};
use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::{RedisClient, RedisSettings, RedisStore};
use tollgate_tools::error::ToolError;

use super::callers::{Batch, Caller, GCRA, RULE, TOKEN_BUCKET, gcra_function, many_gcra};
use super::load::{self, Ids, Turn, children_cpu, ids};
use super::server::Server;

/// Default number of keys.
const KEYS: usize = 100_000;

/// Row of the table.
pub(crate) struct Design {
    pub(crate) name: String,
    pub(crate) load: Load,
    pub(crate) turns: Vec<Turn>,
}

/// Source of the load.
pub(crate) enum Load {
    /// `redis-benchmark` with the token bucket script.
    Benchmark,
    /// Tasks of this process.
    Tasks { runtime: Arc<Runtime>, caller: Caller, ids: Ids, tasks: usize },
}

thread_local! {
    /// Calls per second in the last run of `redis-benchmark`, to size the next one.
    static BENCHMARK_RATE: Cell<f64> = const { Cell::new(20_000.0) };
}

impl Design {
    fn new(name: impl Into<String>, load: Load) -> Self {
        Self { name: name.into(), load, turns: Vec::new() }
    }

    pub(crate) fn turn(&self, server: &Server, turn: Duration) -> Result<Turn, ToolError> {
        match &self.load {
            Load::Benchmark => benchmark(server, turn),
            Load::Tasks { runtime, caller, ids, tasks } => load::run(server, runtime, caller, ids, *tasks, turn),
        }
    }
}

fn benchmark(server: &Server, turn: Duration) -> Result<Turn, ToolError> {
    let calls = (BENCHMARK_RATE.get() * turn.as_secs_f64()) as u64;
    let script = Script::new(TOKEN_BUCKET);
    let [tokens, timestamp] =
        ["tokens", "timestamp"].map(|suffix| format!("request_rate_limiter.{{orders.__rand_int__}}.{suffix}"));
    let call = [&["EVALSHA", script.get_hash(), "2", &tokens, &timestamp][..], &RULE].concat();
    let (before, own) = (server.used()?, children_cpu()?);
    let said = server.benchmark(calls, KEYS, &call)?;
    BENCHMARK_RATE.set(said.rate);
    let own = children_cpu()? - own;
    Ok(Turn::new(&before, &server.used()?, calls as f64, own, [said.rate, said.p50_us, said.p99_us]))
}

/// Creates all designs with their runtimes and connections.
pub(crate) fn designs(server: &Server) -> Result<Vec<Design>, ToolError> {
    let mut admin = server.connection()?;
    redis::cmd("FUNCTION").arg("LOAD").arg(gcra_function()?).exec(&mut admin)?;
    let many_gcra = many_gcra()?;
    for script in [&many_gcra, &Script::new(GCRA), &Script::new(TOKEN_BUCKET)] {
        script.load(&mut admin)?;
    }
    let worker = Arc::new(Builder::new_current_thread().enable_all().build()?);
    let pool = Arc::new(Builder::new_multi_thread().worker_threads(1).enable_all().build()?);
    let per_second = |rate, burst| TokenBucket::per_second(rate, burst).map_err(ToolError::design);
    let (ten, fast) =
        (Rule::TokenBucket(per_second(10, 1_000)?), Rule::TokenBucket(per_second(10_000_000, 1_000_000_000)?));
    let gcra = Rule::Gcra(per_second(10, 1_000)?);
    let denying = Rule::TokenBucket(per_second(1, 1)?);
    let (many, hot, few) = (ids(KEYS), ids(1), ids(10));
    let tasks = |runtime: &Arc<Runtime>, caller: &Caller, ids: &Ids, tasks| Load::Tasks {
        runtime: Arc::clone(runtime),
        caller: caller.clone(),
        ids: Arc::clone(ids),
        tasks,
    };
    let ours = |runtime: &Runtime, style, scope, rules: &[Rule]| {
        let store = runtime.block_on(store(server.url(), style))?;
        Ok::<_, ToolError>(Caller::Store { scope, store, rules: rules.into() })
    };
    let connection = || {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let client = redis::Client::open(server.url())?;
        Ok::<_, ToolError>(worker.block_on(client.get_multiplexed_async_connection_with_config(&config))?)
    };
    let bare =
        |verb, name: &str| Ok::<_, ToolError>(Caller::Bare { connection: connection()?, verb, name: name.into() });
    let batched = |batch| {
        let connection = connection()?;
        Ok::<_, ToolError>(worker.block_on(async { Caller::batched(connection, batch) }))
    };

    let mut all = vec![Design::new("redis-benchmark -c 50 -P 1: token-bucket", Load::Benchmark)];
    let mut add = |name: &str, load| all.push(Design::new(name, load));
    for callers in [50, 500] {
        for (name, rule) in [("token-bucket", &ten), ("gcra", &gcra)] {
            for connections in [1, 2, 4] {
                let caller = ours(&worker, Style { connections, batch: true }, "orders", std::slice::from_ref(rule))?;
                let name = format!("{name}, {callers} callers, {connections} connections");
                add(&name, tasks(&worker, &caller, &many, callers));
            }
            let caller = ours(&worker, Style { batch: false, ..ONE }, "orders", std::slice::from_ref(rule))?;
            add(&format!("{name}, {callers} callers, a call each"), tasks(&worker, &caller, &many, callers));
        }
        let caller = ours(&worker, ONE, "orders", &[gcra.clone(), gcra.clone(), gcra.clone()])?;
        add(&format!("three gcra rules, {callers} callers"), tasks(&worker, &caller, &many, callers));
        let caller = ours(&worker, ONE, "hot", std::slice::from_ref(&fast))?;
        add(&format!("token-bucket, one hot key, {callers} callers"), tasks(&worker, &caller, &hot, callers));
        let caller = ours(&worker, ONE, "denied", std::slice::from_ref(&denying))?;
        add(&format!("token-bucket, denied, {callers} callers"), tasks(&worker, &caller, &few, callers));
        let caller = bare("EVALSHA", Script::new(GCRA).get_hash())?;
        add(&format!("bare gcra, EVALSHA, {callers} callers"), tasks(&worker, &caller, &many, callers));
        add(&format!("bare gcra, FCALL, {callers} callers"), tasks(&worker, &bare("FCALL", "gcra")?, &many, callers));
        let caller = batched(Batch::Pipeline)?;
        add(&format!("bare gcra, a pipeline a tick, {callers} callers"), tasks(&worker, &caller, &many, callers));
        let caller = batched(Batch::ManyKeys(many_gcra.get_hash().into()))?;
        add(&format!("bare gcra, one call a tick, {callers} callers"), tasks(&worker, &caller, &many, callers));
        let caller = ours(&pool, ONE, "orders", std::slice::from_ref(&gcra))?;
        add(&format!("gcra, {callers} callers, multi_thread"), tasks(&pool, &caller, &many, callers));
    }
    Ok(all)
}

/// Settings of a store.
struct Style {
    connections: usize,
    batch: bool,
}

const ONE: Style = Style { connections: 1, batch: true };

async fn store(url: String, style: Style) -> Result<RedisStore, ToolError> {
    let settings = RedisSettings {
        timeout: Duration::from_secs(20),
        connections: NonZeroUsize::MIN.saturating_add(style.connections.saturating_sub(1)),
        batch: style.batch,
        ..RedisSettings::new(url)
    };
    let client = RedisClient::start(&settings).map_err(ToolError::design)?;
    if !client.wait_connected(Duration::from_secs(10)).await {
        return Err(ToolError::WithoutRedis);
    }
    Ok(RedisStore::new(client, Arc::new(MemoryStore::new(NonZeroUsize::MIN)), OnStoreFailure::Deny))
}
