//! Prometheus as a process.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::client::get;
use crate::support::{eventually, free_address};

/// Prometheus that scrapes one gateway every second. It ends with this value.
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts Prometheus, with the alerting rules of the repository. Returns after its first scrape of `gateway`.
    pub fn scraping(gateway: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = free_address();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs: [{{job_name: tollgate, static_configs: [{{targets: ['{gateway}']}}]}}]\n",
            super::repository("deploy/prometheus/alerts.yaml").display()
        );
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus is missing: tests/run installs it");
        let server = Self { child, address, _folder: folder };
        eventually("prometheus listens", || std::net::TcpStream::connect(address).is_ok());
        eventually("the gateway is scraped", || server.values("up{job=\"tollgate\"}") == [1.0]);
        server
    }

    /// Returns the values of an instant query; none if Prometheus is not ready.
    pub fn values(&self, query: &str) -> Vec<f64> {
        let page = self.api(&format!("query?query={}", utf8_percent_encode(query, NON_ALPHANUMERIC)));
        assert_ne!(page["status"], "error", "{query}: {page}");
        let series = page["data"]["result"].as_array().cloned().unwrap_or_default();
        series.iter().map(|series| series["value"][1].as_str().unwrap().parse().unwrap()).collect()
    }

    /// Returns the answer of the HTTP API below `/api/v1/`; null if Prometheus is not ready.
    pub fn api(&self, path: &str) -> Value {
        serde_json::from_str(&get(self.address, &format!("/api/v1/{path}")).text()).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
