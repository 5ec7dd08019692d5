//! Endpoints of limits and of their overrides.

use crate::admin::api::description::{Description, SLOW_BODY, UNKNOWN_PARAMETER, json, of_reply};
use crate::admin::api::endpoint::{Call, Endpoint, Pending, endpoints};
use crate::admin::limits::overrides::OverrideBody;
use crate::admin::limits::reply::{
    BatchReply, Budget, ChangedLimit, EndedOverride, ListedOverride, NewOverride, RuleReply,
};
use crate::admin::limits::{self, Batch, ChangeBody, LimitsError, overrides};
use crate::admin::reply::Reply;

const NO_REDIS: (u16, &str) = (503, "Redis is unreachable");
const NO_CHANGE: (u16, &str) =
    (503, "Redis did not confirm the change: `detail` says that nothing was changed, or that it may have been");

/// Returns the response to a call, or the problem that refuses it.
fn respond<'c>(call: &'c Call<'c>, reply: impl Future<Output = Result<Reply, LimitsError>> + 'c) -> Pending<'c> {
    Box::pin(async move { reply.await.unwrap_or_else(|error| error.response(call.state)) })
}

/// `/api/limits`.
pub(super) fn limits() -> Vec<Endpoint> {
    endpoints! {
        GET [Root "/api/limits"] Read Now(|call| limits::list(call.query, call.state).unwrap_or_else(|error| error.response(call.state))) =>
            json::<Vec<RuleReply>>("listRules", "Rules of all routes")
                .with("route", "Id of a route; all without it", of_reply::<String>())
                .or(&[(400, UNKNOWN_PARAMETER), (404, "Unknown route")]);
        GET [Root "/api/limits/{route}/{key...}"] Read Wait(|call, _| respond(call, limits::read(call.place(), call.state))) =>
            selected(json::<Budget<'_>>("readLimit", "Budget of a key under each rule"), NO_REDIS);
        POST [Root "/api/limits/{route}"] Write Wait(|call, body| respond(call, limits::read_many(call.place(), body, call.state))) =>
            selected(
                json::<BatchReply>("manyLimits", "Reads many keys of one rule, and grants tokens of a quota to them"),
                (503, "Keys failed; each of `keys` has its state or its `error`, which says whether a grant was made"),
            )
            .with_body::<Batch>()
            .or(&[SLOW_BODY])
            .with_problem::<BatchReply>(503);
        PUT [Root "/api/limits/{route}/{key...}"] Write Wait(|call, body| respond(call, limits::set(call.place(), body, call.state))) =>
            changed("setLimit", "Sets the budget of a key, or adds to it").with_body::<ChangeBody>().or(&[SLOW_BODY]);
        DELETE [Root "/api/limits/{route}/{key...}"] Write Wait(|call, _| respond(call, limits::reset(call.place(), call.state))) =>
            changed("resetLimit", "Resets the budget of a key");
    }
}

/// `/api/overrides`.
pub(super) fn overrides() -> Vec<Endpoint> {
    endpoints! {
        PUT [Root "/api/overrides/{route}"] Write Wait(|call, body| respond(call, overrides::set(call.place(), body, &call.caller, call.state))) =>
            set_override("setRuleOverride", "Overrides the limit of every key of a rule for a while");
        PUT [Root "/api/overrides/{route}/{key...}"] Write Wait(|call, body| respond(call, overrides::set(call.place(), body, &call.caller, call.state))) =>
            set_override("setOverride", "Overrides the limit of a key for a while");
        GET [Root "/api/overrides"] Read Now(|call| overrides::list(call.state)) =>
            json::<Vec<ListedOverride>>("listOverrides", "Temporary overrides of limits");
        DELETE [Root "/api/overrides/{route}"] Write Wait(|call, _| respond(call, overrides::end(call.place(), call.state))) =>
            end_override("endRuleOverride", "Ends the override of every key of a rule");
        DELETE [Root "/api/overrides/{route}/{key...}"] Write Wait(|call, _| respond(call, overrides::end(call.place(), call.state))) =>
            end_override("endOverride", "Ends the override of a key");
    }
}

/// Describes an endpoint that changes the budget of a key.
fn changed(id: &'static str, summary: &'static str) -> Description {
    selected(json::<Budget<'_, ChangedLimit>>(id, summary), NO_CHANGE)
}

/// Adds the choice of a rule, and its errors; `lost` is that of a lost Redis.
fn selected(description: Description, lost: (u16, &'static str)) -> Description {
    description
        .with("rule", "Name or bucket of a rule; all without it", of_reply::<String>())
        .with("plan", "Plan of the rule; empty for requests without a plan", of_reply::<String>())
        .or(&[
            (400, "Invalid path, query or body, or a change that could mean several rules"),
            (404, "Unknown route, rule or plan"),
            (501, "Limits under `atomicity: lock` must be changed in Redis itself"),
            lost,
        ])
}

fn set_override(id: &'static str, summary: &'static str) -> Description {
    selected(json::<NewOverride>(id, summary).sends::<OverrideBody>(), NO_CHANGE)
        .or(&[(409, "Too many overrides, or plans that share buckets under equal rules")])
}

fn end_override(id: &'static str, summary: &'static str) -> Description {
    selected(json::<EndedOverride>(id, summary), NO_CHANGE).or(&[(404, "Unknown route, rule, plan or override")])
}
