//! `tollgate health`: health check for containers, so that the image needs no curl.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use crate::cli::admin_client;

/// Timeout for connecting and for the response.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Queries readiness on the admin port at `address`, by default on the local address that the gateway uses.
pub(super) fn run(address: Option<String>) -> ExitCode {
    let address = admin_client::address(address);
    match status_line(&address) {
        Ok(line) if line.split(' ').nth(1) == Some("200") => ExitCode::SUCCESS,
        Ok(line) => {
            eprintln!("tollgate: not ready: {line}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tollgate: no response from {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn status_line(address: &str) -> std::io::Result<String> {
    let resolved = address.to_socket_addrs()?.next().ok_or(std::io::ErrorKind::AddrNotAvailable)?;
    let mut stream = TcpStream::connect_timeout(&resolved, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /health/ready HTTP/1.1\r\nHost: {resolved}\r\nConnection: close\r\n\r\n")?;
    let mut response = Vec::new();
    stream.take(4096).read_to_end(&mut response)?;
    let response = String::from_utf8_lossy(&response);
    Ok(response.lines().next().unwrap_or_default().to_owned())
}
