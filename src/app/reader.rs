//! Thread that reads a configuration, and drops it once it is replaced. Both take longer than a request or a probe may wait.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use tollgate_proxy::gateway::SharedGeneration;
use tollgate_proxy::instrumentation::metrics::Metrics;

/// Nice value of the thread (setpriority(2)): with two busy workers on two cores, it gets about a twentieth of a core.
const NICE: i32 = 10;
/// Stack of the thread, as large as that of the main thread: a configuration is read recursively.
const STACK_BYTES: usize = 8 << 20;
/// Interval in which the thread looks if the workers still use a configuration that was replaced.
const POLL: Duration = Duration::from_millis(20);

/// Handle of a thread that reads one configuration. The thread ends once the handle is dropped and no worker uses the
/// configuration any more.
///
/// The allocator gives each thread blocks of its own as far as possible. So the blocks of a configuration do not lie between
/// those of the next one, and its memory can be returned to the system.
#[derive(Debug)]
pub(super) struct Reader(mpsc::Sender<Job>);

enum Job {
    Run(Box<dyn FnOnce() + Send>),
    Keep(Arc<SharedGeneration>, Arc<Metrics>),
}

// === impl Reader ===

impl Reader {
    /// Starts a thread. It has a lower priority than others, so that it does not delay requests.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, jobs) = mpsc::channel();
        thread::Builder::new().name("reader".to_owned()).stack_size(STACK_BYTES).spawn(move || serve(jobs))?;
        Ok(Self(sender))
    }

    /// Runs `job` on the thread and returns its result. A panic continues on the calling thread.
    pub(super) async fn run<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        let (reply, result) = oneshot::channel();
        let job = Box::new(move || {
            let _ = reply.send(catch_unwind(AssertUnwindSafe(job)));
        });
        let _ = self.0.send(Job::Run(job));
        match result.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            // The thread cannot end before its handle.
            Err(_) => std::future::pending().await,
        }
    }

    /// Makes the thread the last owner of `generation`, whose series are in `metrics`.
    pub(super) fn keep(&self, generation: Arc<SharedGeneration>, metrics: Arc<Metrics>) {
        let _ = self.0.send(Job::Keep(generation, metrics));
    }
}

fn serve(jobs: mpsc::Receiver<Job>) {
    // Without the permission, it competes with the workers.
    let _ = rustix::process::setpriority_process(None, NICE);
    let mut kept = None;
    for job in jobs {
        match job {
            Job::Run(job) => job(),
            Job::Keep(generation, metrics) => {
                kept = Some((generation, metrics));
                // What reading took.
                release_free();
            }
        }
    }
    while let Some((shared, metrics)) = kept.take() {
        match Arc::try_unwrap(shared) {
            Ok(last) => {
                drop(last);
                metrics.remove_unscraped();
            }
            Err(shared) => {
                kept = Some((shared, metrics));
                thread::sleep(POLL);
            }
        }
    }
    release_free();
}

/// Returns free memory of all threads to the system. The allocator of glibc keeps what a configuration took while it was
/// read, and the memory of a replaced one. Other allocators return free memory themselves.
///
/// It takes some milliseconds, in which threads may wait for memory: call it after a reload only.
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "declares a function of the C library that has no preconditions")
)]
fn release_free() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Size of a block: below the smallest threshold of `mmap`.
        const BLOCK: usize = 120 << 10;
        /// More than the 64 MiB of a heap (`HEAP_MAX_SIZE`).
        const BLOCKS: usize = (65 << 20) / BLOCK;
        unsafe extern "C" {
            /// See malloc_trim(3).
            safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // The free end of a thread's heap is not returned. Behind these blocks, it is no end any more.
        let mut blocks: Vec<Vec<u8>> = std::hint::black_box((0..BLOCKS).map(|_| Vec::with_capacity(BLOCK)).collect());
        let last = blocks.pop();
        drop(blocks);
        malloc_trim(0);
        drop(std::hint::black_box(last));
    }
}
