//! The certificate of the servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::process;

/// A key and a self-signed certificate, as PEM files.
#[derive(Debug)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Identity {
    pub fn create(folder: &Path) -> Result<Self> {
        let made = Self { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        let mut openssl = Command::new("openssl");
        openssl
            .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30".split(' '))
            .args(["-subj", "/CN=www.example.com"])
            .args(["-addext", "subjectAltName=DNS:www.example.com,IP:127.0.0.1"])
            .args([Path::new("-keyout"), &made.key, Path::new("-out"), &made.certificate]);
        process::output(&mut openssl).map(|_| made)
    }
}
