//! File servers: nginx, tuned for static pages; Caddy; and static-web-server, which uses the same HTTP
//! libraries as frontdesk's general path.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{Identity, Peer, Reserved, command};
use crate::settings::{Bench, Cores};

/// Path of static-web-server in the tools folder. There is no Debian package.
pub const STATIC_WEB_SERVER: &str = "cargo/bin/static-web-server";

/// How nginx sends files.
#[derive(Debug, Clone, Copy)]
pub struct NginxSettings {
    /// The name of the server in tables.
    pub name: &'static str,
    lines: &'static str,
}

/// nginx's name if there is only one.
pub const NGINX: &str = "nginx";
/// The beginning of the names of settings with `sendfile on`.
pub const SENDFILE: &str = "nginx, sendfile on";

const fn nginx(name: &'static str, lines: &'static str) -> NginxSettings {
    NginxSettings { name, lines }
}

/// The recommended settings.
pub const NGINX_DEFAULT: NginxSettings = nginx(NGINX, "sendfile on; tcp_nopush on;");

/// For small pages.
pub const NGINX_WITHOUT_SENDFILE: NginxSettings = nginx(NGINX, "sendfile off; tcp_nopush off;");

/// The settings to try for each length of a file. `sendfile_max_chunk` has no effect below 2 MB, its default.
pub const NGINX_SETTINGS: [NginxSettings; 4] = [
    nginx("nginx, sendfile on, tcp_nopush on", "sendfile on; tcp_nopush on;"),
    nginx("nginx, sendfile on, tcp_nopush off", "sendfile on; tcp_nopush off;"),
    nginx("nginx, sendfile off, output_buffers 2 32k", "sendfile off; tcp_nopush off;"),
    nginx(
        "nginx, sendfile off, output_buffers 1 512k",
        "sendfile off; tcp_nopush off; output_buffers 1 512k;",
    ),
];

/// nginx's module for files compressed with Brotli (Debian: `libnginx-mod-http-brotli-static`).
const BROTLI_MODULE: &str = "/usr/lib/nginx/modules/ngx_http_brotli_static_module.so";

/// Whether nginx can send files compressed with Brotli.
pub fn has_brotli() -> bool {
    Path::new(BROTLI_MODULE).exists()
}

#[derive(Debug, Clone, Copy)]
pub struct FileServer<'a> {
    pub root: &'a Path,
    pub cores: Cores,
    pub headers: &'a [(String, String)],
    /// If set, the server also serves HTTP/2 and HTTP/1.1 over TLS 1.3.
    pub tls: Option<&'a Identity>,
}

impl FileServer<'_> {
    /// Starts nginx with these settings. The length of the files determines which are the fastest.
    pub fn start_nginx(&self, bench: &Bench, nginx: NginxSettings) -> Result<Peer> {
        let reserved = Reserved::new()?;
        let mut server = format!("    listen {} backlog=4096 reuseport;\n", reserved.address);
        if let Some(identity) = self.tls {
            server += &format!(
                include_str!("nginx-tls.conf"),
                address = reserved.secure,
                certificate = identity.certificate.display(),
                key = identity.key.display(),
            );
        }
        server += &self.header_lines(|name, value| format!("    add_header {name} {value:?};"));
        let configuration = format!(
            include_str!("nginx.conf"),
            user = nginx_user(),
            folder = reserved.folder.path().display(),
            workers = bench.core_numbers(self.cores).len(),
            modules = if has_brotli() { format!("load_module {BROTLI_MODULE};\n") } else { String::new() },
            brotli = if has_brotli() { "brotli_static on;" } else { "" },
            settings = nginx.lines,
            root = self.root.display(),
            server = server,
        );
        let mut command = command("nginx");
        command.arg("-p").arg(reserved.folder.path()).arg("-c");
        self.start_configured(bench, nginx.name, command, &configuration, reserved)
    }

    /// Starts Caddy with precompressed files, without its admin API and without an access log.
    pub fn start_caddy(&self, bench: &Bench) -> Result<Peer> {
        let reserved = Reserved::new()?;
        let mut configuration = format!(
            include_str!("Caddyfile"),
            port = reserved.address.port(),
            root = self.root.display(),
            headers = self.header_lines(|name, value| format!("  header {name} `{value}`")),
        );
        if let Some(identity) = self.tls {
            let (certificate, key) = (identity.certificate.display(), identity.key.display());
            let tls = format!("tls {certificate} {key} {{\n    protocols tls1.3\n  }}");
            configuration += &format!("https://:{} {{\n  import site\n  {tls}\n}}\n", reserved.secure.port());
        }
        let mut command = command("caddy");
        command.env("GOMAXPROCS", bench.core_numbers(self.cores).len().to_string());
        for name in ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
            command.env(name, reserved.folder.path());
        }
        command.args(["run", "--adapter", "caddyfile", "--config"]);
        self.start_configured(bench, "Caddy", command, &configuration, reserved)
    }

    /// Starts static-web-server with precompressed files, without compression on the fly.
    pub fn start_static_web_server(&self, bench: &Bench) -> Result<Peer> {
        let reserved = Reserved::new()?;
        let configuration = format!(
            include_str!("static-web-server.toml"),
            port = reserved.address.port(),
            root = self.root.display(),
            workers = bench.core_numbers(self.cores).len(),
            headers = self.header_lines(|name, value| format!("{name} = {value:?}")),
        );
        let mut command = command(bench.tool(STATIC_WEB_SERVER)?);
        command.arg("--config-file");
        self.start_configured(bench, "static-web-server", command, &configuration, reserved)
    }

    fn header_lines(&self, line: impl Fn(&str, &str) -> String) -> String {
        self.headers.iter().map(|(name, value)| line(name, value) + "\n").collect()
    }

    /// Writes `configuration` to its file, and starts `command` with the file's path as the last argument.
    fn start_configured(
        &self,
        bench: &Bench,
        name: &str,
        mut command: Command,
        configuration: &str,
        reserved: Reserved,
    ) -> Result<Peer> {
        // static-web-server requires this extension.
        let file = reserved.folder.path().join("configuration.toml");
        std::fs::write(&file, configuration)?;
        Peer::start(bench, name, self.cores, command.arg(&file), reserved)
    }
}

/// nginx's `user` directive for its worker processes. Only root can switch users.
pub fn nginx_user() -> &'static str {
    if rustix::process::geteuid().is_root() { "user root;\n" } else { "" }
}
