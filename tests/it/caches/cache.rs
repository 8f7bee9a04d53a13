//! Caches of Debian on private ports, with the configurations of `docs/pages/proxies.md`.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::Connection;
use crate::support::channel_site::until;
use crate::support::port::Port;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Nginx,
    Varnish,
    Apache,
    Haproxy,
    Squid,
}

pub const KINDS: [Kind; 5] = [Kind::Nginx, Kind::Varnish, Kind::Apache, Kind::Haproxy, Kind::Squid];

/// A deviation from the recommended configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// `Vary` has no effect: all representations of a URL share one entry.
    IgnoresVary,
    /// Every response is fresh for minutes, contrary to `Cache-Control`.
    OverridesFreshness,
}

/// A running cache.
pub struct Cache {
    pub address: SocketAddr,
    pub kind: Kind,
    child: Child,
    folder: tempfile::TempDir,
    _port: Port,
}

impl Cache {
    /// Starts the cache in front of an origin server on 127.0.0.1, which must be running. The configuration
    /// is the recommended one, or has both mistakes.
    pub fn start(kind: Kind, is_misconfigured: bool, origin: SocketAddr) -> Self {
        let mistakes = [Mistake::IgnoresVary, Mistake::OverridesFreshness];
        Self::with(kind, if is_misconfigured { &mistakes } else { &[] }, origin)
    }

    /// The same with these mistakes.
    pub fn with(kind: Kind, mistakes: &[Mistake], origin: SocketAddr) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Caches that root starts give up their privileges, and write to these folders as another user.
        let data = folder.path().join("data");
        std::fs::create_dir(&data).expect("a folder");
        for (path, mode) in [(folder.path(), 0o755), (&data, 0o777)] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).expect("they can be set");
        }
        let port = Port::reserve();
        let file = folder.path().join("configuration");
        let text = kind.configuration(mistakes, port.address(), origin, &data);
        std::fs::write(&file, text).expect("it can be written");
        let log = std::fs::File::create(folder.path().join("log")).expect("a file");
        let child = kind
            .command(&file, port.address(), &data)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{kind:?}: {error}: scripts/test caches installs it"));
        let mut cache = Self { address: port.address(), kind, child, folder, _port: port };
        let responds = until(|| {
            let ended = cache.child.try_wait().expect("it can be asked");
            assert!(ended.is_none(), "{kind:?} ended: {}", cache.log());
            let mut connection = Connection::try_open(cache.address).ok()?;
            let answer = connection.request("GET", "/is-it-ready", &[], b"").ok()?;
            (answer.status < 500).then_some(())
        });
        assert!(responds.is_some(), "{kind:?} does not respond: {}", cache.log());
        cache
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // SIGTERM instead of SIGKILL, so that the cache also ends its workers.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

impl Kind {
    /// The heading of the documented configuration.
    fn heading(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Varnish => "Varnish",
            Self::Apache => "Apache",
            Self::Haproxy => "HAProxy",
            Self::Squid => "Squid",
        }
    }

    /// The documented configuration: the first code block after the heading.
    fn documented(self) -> String {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pages/proxies.md");
        let page = std::fs::read_to_string(page).expect("it is there");
        let heading = format!("\n### {}\n", self.heading());
        let (_, section) = page.split_once(&heading).expect("the page has a section for each cache");
        let (_, block) = section.split_once("\n```").expect("the section has a code block");
        let (_, text) = block.split_once('\n').expect("the code block has lines");
        let (text, _) = text.split_once("\n```").expect("the code block ends");
        format!("{text}\n")
    }

    /// Whether [`Mistake::IgnoresVary`] is possible.
    pub fn can_ignore_vary(self) -> bool {
        !self.lines_for(Mistake::IgnoresVary).is_empty()
    }

    /// The lines that make a mistake. Empty if the cache cannot be configured to make it.
    fn lines_for(self, mistake: Mistake) -> &'static str {
        match (self, mistake) {
            (Self::Nginx, Mistake::IgnoresVary) => "proxy_ignore_headers Vary;\n",
            (Self::Nginx, Mistake::OverridesFreshness) => {
                "proxy_ignore_headers Cache-Control;\nproxy_cache_valid 200 10m;\n"
            }
            (Self::Varnish, Mistake::IgnoresVary) => "sub vcl_backend_response { unset beresp.http.Vary; }\n",
            (Self::Varnish, Mistake::OverridesFreshness) => {
                "sub vcl_backend_response { unset beresp.http.Cache-Control; set beresp.ttl = 10m; }\n"
            }
            (Self::Apache, Mistake::IgnoresVary) => "CacheIgnoreHeaders Vary\n",
            (Self::Apache, Mistake::OverridesFreshness) => "Header set Cache-Control \"max-age=600\"\n",
            (Self::Haproxy, Mistake::IgnoresVary) => "http-response del-header Vary\n",
            (Self::Haproxy, Mistake::OverridesFreshness) => {
                "http-response set-header Cache-Control max-age=600\n"
            }
            // Squid has no option to ignore `Vary`.
            (Self::Squid, Mistake::IgnoresVary) => "",
            (Self::Squid, Mistake::OverridesFreshness) => {
                "refresh_pattern . 10 100% 10 override-expire override-lastmod ignore-reload ignore-no-store \
                 ignore-private\n"
            }
        }
    }

    /// The documented configuration with private addresses and folders, and with these mistakes.
    fn configuration(
        self,
        mistakes: &[Mistake],
        address: SocketAddr,
        origin: SocketAddr,
        data: &Path,
    ) -> String {
        let data = data.to_str().expect("a name");
        let listen = address.to_string();
        // The text before which the lines of a mistake are inserted.
        let (public, private, anchor) = match self {
            Self::Nginx => ("listen 443 ssl;", format!("listen {listen};"), "location / {"),
            Self::Apache => ("<VirtualHost *:443>", format!("<VirtualHost {listen}>"), "</VirtualHost>"),
            Self::Haproxy => ("bind :443 ssl", format!("bind {listen} #"), "http-response cache-store"),
            Self::Squid => ("https_port 443 accel", format!("http_port {listen} accel"), "cache deny"),
            // Varnish takes its address as an argument.
            Self::Varnish => ("vcl 4.1;", "vcl 4.1;".to_owned(), ""),
        };
        let mut text = self.documented();
        let origin = origin.port().to_string();
        for (documented, ours) in [(public, private.as_str()), ("8080", &origin)] {
            assert!(text.contains(documented), "{self:?} has {documented}");
            text = text.replace(documented, ours);
        }
        for (documented, ours) in [
            ("/var/cache", data),
            (" tls-cert=/etc/ssl/www.example.com.pem tls-key=/etc/ssl/www.example.com.key", ""),
        ] {
            text = text.replace(documented, ours);
        }
        let needs_certificate =
            |line: &&str| !["ssl_certificate", "SSL"].iter().any(|word| line.trim_start().starts_with(word));
        text = text.lines().filter(needs_certificate).map(|line| format!("{line}\n")).collect();
        // Two documented configurations store no pages.
        let stores_pages = match self {
            Self::Nginx => "proxy_cache frontdesk;\n",
            Self::Squid => "cache allow all\n",
            _ => "",
        };
        let lines = mistakes.iter().map(|mistake| self.lines_for(*mistake));
        for lines in (!mistakes.is_empty()).then_some(stores_pages).into_iter().chain(lines) {
            let at = text.rfind(anchor).expect("the configuration has the anchor");
            text.insert_str(at, lines);
        }
        let template = match self {
            Self::Nginx => NGINX,
            Self::Apache => APACHE,
            Self::Squid => SQUID,
            Self::Varnish | Self::Haproxy => "DOCUMENTED",
        };
        template.replace("DOCUMENTED", &text).replace("DATA", data).replace("LISTEN", &listen)
    }

    fn command(self, file: &Path, address: SocketAddr, data: &Path) -> Command {
        let (program, before) = match self {
            Self::Nginx => ("nginx", &["-e", "stderr", "-c"][..]),
            Self::Varnish => ("varnishd", &["-F", "-j", "none", "-T", "none", "-s", "malloc,32m", "-f"][..]),
            Self::Apache => ("apache2", &["-DFOREGROUND", "-f"][..]),
            Self::Haproxy => ("haproxy", &["-db", "-f"][..]),
            Self::Squid => ("squid", &["-N", "-f"][..]),
        };
        let mut command = Command::new(program);
        command.args(before).arg(file);
        if self == Self::Varnish {
            command.arg("-a").arg(address.to_string()).arg("-n").arg(data);
        }
        command
    }
}

/// The main configuration of nginx, with one worker in the foreground.
const NGINX: &str = "
daemon off;
worker_processes 1;
pid DATA/pid;
error_log stderr warn;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path DATA/body;
    proxy_temp_path DATA/proxy;
    fastcgi_temp_path DATA/fastcgi;
    uwsgi_temp_path DATA/uwsgi;
    scgi_temp_path DATA/scgi;
    DOCUMENTED
}
";

/// The main configuration of Apache, with the modules that the documentation names.
const APACHE: &str = "
ServerRoot DATA
DefaultRuntimeDir DATA
PidFile DATA/pid
Mutex file:DATA default
ErrorLog /dev/stderr
ServerName www.example.com
User www-data
Group www-data
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
LoadModule cache_module /usr/lib/apache2/modules/mod_cache.so
LoadModule cache_disk_module /usr/lib/apache2/modules/mod_cache_disk.so
LoadModule headers_module /usr/lib/apache2/modules/mod_headers.so
CacheRoot DATA
Listen LISTEN
DOCUMENTED
";

/// Options without which Squid writes to folders of the system.
const SQUID: &str = "
pid_filename none
access_log none
cache_store_log none
cache_log /dev/stderr
coredump_dir DATA
pinger_enable off
memory_cache_shared off
shutdown_lifetime 0 seconds
visible_hostname www.example.com
DOCUMENTED
";
