//! The dashboard: its stream of snapshots, and its pages in a browser.

mod browser;
mod events;

const ROUTES: &str = "
routes:
  - id: orders
    uri: 'echo:'
    predicates: [Path=/orders]
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-key'
          limits:
            - {name: hourly, algorithm: fixed-window, limit: 2, window: 1h}
            - {name: daily, algorithm: fixed-window, limit: 1000000, window: 24h}
";
