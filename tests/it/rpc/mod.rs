//! Denials and failures in the protocol of the client: gRPC, gRPC-Web and Connect.

mod clients;
mod frames;

use crate::support::gateway::Gateway;

/// Returns a gateway with the route `/denied`, which denies all requests forever. `arguments` are further ones of its limiter.
fn denying(arguments: &str) -> Gateway {
    Gateway::start(&denying_yaml(arguments))
}

fn denying_yaml(arguments: &str) -> String {
    format!(
        "routes: [{{id: denied, uri: 'no:', predicates: [Path=/denied/**], filters: [{{name: RequestRateLimiter, args: {{\
         key-resolver: route, algorithm: quota, allowance: 0{arguments}}}}}]}}]\n"
    )
}
