//! nginx, tuned for static pages.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::Result;

use super::{FileServer, Peer, folder, free_address, workers};
use crate::Bench;

/// Starts it with or without sendfile: small files are faster without.
pub fn start(bench: &Bench, name: &str, options: &FileServer, sendfile: bool) -> Result<Peer> {
    let own = folder()?;
    let address = free_address()?;
    let secure = options.tls.is_some().then(free_address).transpose()?;
    let mut servers = format!("    listen {address} backlog=4096 reuseport;\n");
    if let (Some((certificate, key)), Some(secure)) = (options.tls, secure) {
        write!(
            servers,
            "    listen {secure} ssl http2 backlog=4096 reuseport;
    ssl_certificate {};
    ssl_certificate_key {};
    ssl_protocols TLSv1.3;
    ssl_session_cache shared:tls:10m;
    ssl_buffer_size 16k;
",
            certificate.display(),
            key.display()
        )?;
    }
    for (name, value) in options.headers {
        writeln!(servers, "    add_header {name} {value:?};")?;
    }
    let configuration = format!(
        "daemon off;
user root;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
worker_processes {workers};
worker_rlimit_nofile 20000;
events {{ worker_connections 16384; use epoll; multi_accept on; accept_mutex off; }}
http {{
  access_log off;
  server_tokens off;
  types {{ text/html html; text/markdown md; }}
  default_type application/octet-stream;
  charset utf-8;
  charset_types text/markdown;
  sendfile {sendfile};
  tcp_nopush {sendfile};
  tcp_nodelay on;
  keepalive_timeout 600s;
  keepalive_requests 1000000000;
  reset_timedout_connection on;
  open_file_cache max=20000 inactive=600s;
  open_file_cache_valid 600s;
  open_file_cache_min_uses 1;
  etag on;
  gzip off;
  gzip_static on;
  gzip_vary on;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
{servers}    root {root};
  }}
}}
",
        folder = own.path().display(),
        workers = workers(options.cores),
        sendfile = if sendfile { "on" } else { "off" },
        root = options.root.display(),
    );
    let file = own.path().join("nginx.conf");
    // Only root may set the user.
    let configuration = if rustix::process::geteuid().is_root() {
        configuration
    } else {
        configuration.replace("user root;\n", "")
    };
    std::fs::write(&file, configuration)?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(own.path()).arg("-c").arg(&file);
    let mut peer = Peer::start(bench, name, options.cores, &command, address, own)?;
    peer.secure = secure;
    Ok(peer)
}
