//! Commands of the limiter: keys and arguments, and replies decoded. Nothing here sends anything.

mod arg_list;
mod key_location;
mod key_names;
mod options;
mod quota;
mod reply;
mod script_args;
mod script_call;

pub(crate) use self::key_location::{short_name, slot_of};
pub use self::key_names::key_names;
pub(crate) use self::options::CallOptions;
pub(crate) use self::quota::{QuotaAction, quota_calls, quota_key_name};
#[doc(hidden)]
pub use self::reply::script_reply;
pub(crate) use self::reply::{answers, batch_answers};
pub(crate) use self::script_args::{BatchSize, revocation_of, unix_us};
pub(crate) use self::script_call::{
    LeaseTimes, MAX_WEIGHT, ScriptCall, can_coalesce, decide, decide_batch, decide_staged, look, notice_key,
    return_leased, settle,
};
