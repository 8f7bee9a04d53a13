//! The same attacks through real proxies, which forward all clients' requests over shared connections to
//! frontdesk.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::attacks::{self, Attack, LOOT};
use crate::support::channel_site::until;
use crate::support::port::Port;
use crate::support::{Connection, PATIENCE, TestServer, small_site};

/// The number of times that all attacks are sent.
const ROUNDS: usize = 4;

/// The pages that other clients request during the attacks.
const PAGES: [&str; 4] = ["/", "/llms.txt", "/openapi.json", "/sitemap.xml"];

// Attackers and other clients use different addresses, so that only attackers get short timeouts, even on a
// busy machine. One worker serves both addresses and has few connections to frontdesk, so that the requests
// of all clients share these connections.
const NGINX: &str = r#"
daemon off;
worker_processes 1;
pid FOLDER/pid;
error_log stderr crit;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path FOLDER/body;
    proxy_temp_path FOLDER/proxy;
    fastcgi_temp_path FOLDER/fastcgi;
    uwsgi_temp_path FOLDER/uwsgi;
    scgi_temp_path FOLDER/scgi;
    upstream frontdesk { server DESK; keepalive 2; }
    proxy_http_version 1.1;
    proxy_request_buffering off;
    proxy_set_header Connection "";
    proxy_set_header X-Request-Id told-$request_id;
    proxy_connect_timeout 10m;
    proxy_read_timeout 10m;
    server {
        listen ATTACKERS;
        client_header_timeout 1s;
        client_body_timeout 1s;
        location / { proxy_pass http://frontdesk; }
    }
    server {
        listen OTHERS;
        client_header_timeout 10m;
        location / { proxy_pass http://frontdesk; }
    }
}
"#;

const HAPROXY: &str = "
global
    maxconn 512
defaults
    mode http
    timeout connect 10m
    timeout server 10m
    option http-keep-alive
frontend attackers
    bind ATTACKERS
    timeout client 2s
    timeout http-request 1s
    http-request set-header X-Request-Id told-%[uuid]
    default_backend frontdesk
frontend others
    bind OTHERS
    timeout client 10m
    http-request set-header X-Request-Id told-%[uuid]
    default_backend frontdesk
backend frontdesk
    http-reuse always
    server desk DESK pool-max-conn 2
";

#[test]
#[ignore = "needs nginx: scripts/test door"]
fn through_nginx_each_client_gets_the_response_to_its_own_request() {
    check("nginx", NGINX, |file| {
        let mut command = Command::new("nginx");
        command.arg("-p").arg(file.parent().expect("a folder")).arg("-e").arg("stderr").arg("-c").arg(file);
        command
    });
}

#[test]
#[ignore = "needs HAProxy: scripts/test door"]
fn through_haproxy_each_client_gets_the_response_to_its_own_request() {
    check("HAProxy", HAPROXY, |file| {
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(file);
        command
    });
}

/// Sends the attacks through a proxy while other clients request pages, and checks that each request gets its
/// own response.
fn check(name: &str, configuration: &str, command: impl Fn(&Path) -> Command) {
    let server = TestServer::with(
        &small_site(),
        &[
            ("FRONTDESK_LIMITS__ENABLED", "false"),
            ("FRONTDESK_LOG__REQUESTS", "true"),
            ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1"),
        ],
    );
    let expected = PAGES.map(|page| server.get(page, &[]).body);
    let asked_directly = answered(&server, PAGES.len()).len();
    let proxy = Proxy::start(server.address, configuration, command);

    let attacks = attacks::all();
    let (stop, others) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut sent, mut robots) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stop = StopsWhenDropped(&stop);
            while !stop.0.load(Ordering::Relaxed) {
                ask_for_pages(proxy.others.address(), &expected, &others);
                // Pauses so that the log's queue can hold all lines until this process reads them.
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        // If this thread panics, the other one must end too.
        let _stop = StopsWhenDropped(&stop);
        for _ in 0..ROUNDS {
            for attack in &attacks {
                let said = send(proxy.attackers.address(), attack);
                robots += usize::from(contains(&said, LOOT));
                ask_for_pages(proxy.others.address(), &expected, &others);
                sent += 1;
            }
        }
    });

    let others = others.into_inner();
    assert!(others >= sent * PAGES.len(), "{others} requests of others beside {sent} attacks");
    let events = answered(&server, asked_directly + others).split_off(asked_directly);
    let names: Vec<&str> =
        events.iter().map(|event| event["request"].as_str().expect("it has a name")).collect();
    // The proxy adds an ID to each request that it forwards. A request without such an ID was hidden in
    // another one.
    let hidden = names.iter().filter(|name| !name.starts_with("told-")).count();
    assert_eq!(hidden, 0, "{name}: requests that the proxy did not forward");
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "{name}: each was forwarded once");
    let passed_on = names.len() - others;
    // If a proxy itself reads two requests, the second one is the attacker's and is forwarded as a separate
    // request.
    let robots_passed_on = events.iter().filter(|event| event["path"] == "/robots.txt").count();
    assert_eq!(robots, robots_passed_on, "{name}: only requests for it got that answer");
    eprintln!(
        "{name}: {sent} attacks, {others} requests of others, each with its own answer; of the attacks' requests {passed_on} were passed on, none hidden"
    );
    assert!(passed_on > sent / 4, "enough attacks must reach the server: {passed_on} of {sent}");
    server.expect_anything();
}

/// Requests each page on one connection, as another client, and compares the responses.
fn ask_for_pages(proxy: SocketAddr, expected: &[Vec<u8>], count: &AtomicUsize) {
    let mut connection = Connection::open(proxy);
    for (page, expected) in PAGES.iter().zip(expected) {
        let answer = connection.request("GET", page, &[], b"").expect("an answer");
        assert_eq!(answer.status, 200, "{page}");
        assert!(
            answer.body == *expected,
            "{page} was answered with {:?}",
            String::from_utf8_lossy(&answer.body)
        );
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends the attack, then an ordinary request with `Connection: close`. Returns everything that it receives.
fn send(proxy: SocketAddr, attack: &Attack) -> Vec<u8> {
    let mut stream = TcpStream::connect(proxy).expect("the proxy accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
    let mut bytes = attack.bytes.clone();
    bytes.extend_from_slice(b"GET /llms.txt HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n");
    // The proxy may close the connection before it has read everything, and then its answer may be lost.
    let _ = stream.write_all(&bytes);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    said
}

/// Waits for at least this many log lines about requests, and returns all of them.
fn answered(server: &TestServer, count: usize) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let log = server.log();
        let events: Vec<Value> = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|event: &Value| event["message"] == "answered")
            .collect();
        if events.len() >= count {
            return events;
        }
        assert!(began.elapsed() < PATIENCE, "{} of {count} are in the log", events.len());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

struct StopsWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopsWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A proxy that ends with the test.
struct Proxy {
    attackers: Port,
    others: Port,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Proxy {
    fn start(server: SocketAddr, configuration: &str, command: impl Fn(&Path) -> Command) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (attackers, others) = (Port::reserve(), Port::reserve());
        let text = configuration
            .replace("FOLDER", folder.path().to_str().expect("a name"))
            .replace("DESK", &server.to_string())
            .replace("ATTACKERS", &attackers.address().to_string())
            .replace("OTHERS", &others.address().to_string());
        let file = folder.path().join("configuration");
        std::fs::write(&file, text).expect("it can be written");
        let child = command(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("it is installed: scripts/test door does it");
        let proxy = Self { attackers, others, child, _folder: folder };
        for port in [&proxy.attackers, &proxy.others] {
            until(|| TcpStream::connect(port.address()).ok()).expect("the proxy listens");
        }
        proxy
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // SIGTERM instead of SIGKILL, so that nginx also ends its worker.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
