//! Names of arguments in messages of the libraries.

use std::fmt::Display;

use tollgate_limiter::store::redis::StoreError;

/// Arguments of the libraries, and their keys in the configuration.
const KEYS: [(&str, &str); 10] = [
    ("allow_credentials", "allow-credentials"),
    ("allow_private_network", "allow-private-network"),
    ("burst_capacity", "burst-capacity"),
    ("max_queue", "max-queue"),
    ("max_wait", "max-wait"),
    ("renew_every", "renew-every"),
    ("replenish_rate", "replenish-rate"),
    ("time_zone", "time-zone"),
    ("ttl", "lease"),
    ("warm_up", "warm-up"),
];

/// Returns the message of a library's error, with keys of the configuration in place of arguments.
pub fn with_keys(error: &dyn Display) -> String {
    KEYS.iter().fold(error.to_string(), |message, (argument, key)| {
        message.replace(&format!("`{argument}`"), &format!("`{key}`"))
    })
}

/// Returns the key of the configuration for an argument of a library.
pub(crate) fn key_of(argument: &'static str) -> &'static str {
    KEYS.iter().find(|(of_library, _)| *of_library == argument).map_or(argument, |(_, key)| key)
}

/// Returns the keys to look at after an error of Redis.
pub fn redis_keys(reason: StoreError) -> Option<&'static str> {
    match reason {
        StoreError::Timeout => Some("`redis.timeout`"),
        StoreError::ReadOnly => Some("`redis.url`"),
        StoreError::Auth => Some("in `redis.url`, or `redis.username` and `redis.password`"),
        StoreError::Tls => Some("`redis.tls.ca`, `redis.tls.cert` and `redis.tls.key`"),
        StoreError::NoScripts => Some("`atomicity: lock` or `store: memory` of limiters"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use tollgate_filters::cors::{Policy, Settings};
    use tollgate_limiter::concurrency::Concurrency;
    use tollgate_limiter::rule::{Calendar, CalendarUnit, LeakyBucket, MAX_SAFE_INTEGER, Refill, TokenBucket};

    use super::*;

    #[test]
    fn errors_of_the_libraries_name_arguments_and_those_of_the_configuration_keys() {
        let (second, long, most) = (Duration::from_secs(1), Duration::MAX, MAX_SAFE_INTEGER);
        let bucket = |rate, period, burst| TokenBucket::new(rate, period, burst).unwrap_err().to_string();
        let pace = LeakyBucket::new(1, second).unwrap();
        let slots = Concurrency::new(1).unwrap();
        let of_any_origin = |allow_credentials: bool| {
            let (allowed_origins, allow_private_network) = (vec!["*".to_owned()], !allow_credentials);
            let settings =
                Settings { allowed_origins, allow_credentials, allow_private_network, ..Settings::default() };
            Policy::new(&settings).unwrap_err().to_string()
        };
        for (message, argument) in [
            (bucket(0, second, 1), "replenish_rate"),
            (bucket(1, second, most + 1), "burst_capacity"),
            (bucket(1, second, most), "replenish_rate"),
            (
                TokenBucket::new(1, second, 1 << 40).unwrap().with_refill(Refill::Interval).unwrap_err().to_string(),
                "burst_capacity",
            ),
            (pace.clone().with_max_wait(long).unwrap_err().to_string(), "max_wait"),
            (pace.clone().with_max_queue(most + 1).unwrap_err().to_string(), "max_queue"),
            (pace.with_warm_up(long).unwrap_err().to_string(), "warm_up"),
            (Calendar::new(CalendarUnit::Day, "my_zone").unwrap_err().to_string(), "time_zone"),
            (slots.with_ttl(long).unwrap_err().to_string(), "ttl"),
            (slots.with_renewal(long).unwrap_err().to_string(), "renew_every"),
            (of_any_origin(true), "allow_credentials"),
            (of_any_origin(false), "allow_private_network"),
        ] {
            assert!(message.contains(&format!("`{argument}`")), "{argument}: {message}");
            let reported = with_keys(&message);
            assert!(reported.contains(&format!("`{}`", key_of(argument))), "{reported}");
            assert!(!reported.replace("my_zone", "").contains('_'), "{reported}");
        }
        assert!(!StoreError::ALL.iter().any(|reason| reason.to_string().contains("`redis.")));
        assert!(redis_keys(StoreError::Timeout).is_some_and(|keys| keys.contains("redis.timeout")));
        assert!(with_keys(&Calendar::new(CalendarUnit::Day, "my_zone").unwrap_err()).contains("`my_zone`"));
    }
}
