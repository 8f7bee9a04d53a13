//! Other form backends: handlers in Node and PHP, and the headless CMS Directus. All of them write to SQLite.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Peer, file_server, free_address};
use crate::http;
use crate::machine::Cores;
use crate::process;
use crate::settings::{Bench, NODE};

/// Path of Directus in the tools folder.
const DIRECTUS: &str = "directus/node_modules/directus/cli.js";
/// The fixed id of Directus's policy for anonymous users.
const PUBLIC_POLICY: &str = "abf8a154-5b1c-4a46-ac9c-7300570f4f17";

/// The file in which all of them store submissions.
pub const DATABASE: &str = "forms.sqlite";

pub fn sqlite(database: &Path, statements: &str) -> Result<String> {
    process::output(Command::new("sqlite3").args(["-cmd", ".timeout 10000"]).arg(database).arg(statements))
}

pub fn start_node(bench: &Bench, own: TempDir) -> Result<Peer> {
    let address = free_address()?;
    let script = own.path().join("form.mjs");
    std::fs::write(&script, include_str!("forms/form.mjs"))?;
    let mut command = Command::new(bench.tool(NODE)?);
    command.arg("--no-warnings").arg(&script).arg(address.port().to_string()).arg(own.path().join(DATABASE));
    Peer::start(bench, "Node, own handler", Cores::Servers, &command, address, own)
}

/// Starts a handler on PHP-FPM with eight processes, behind nginx, which accepts the connections.
pub fn start_php(bench: &Bench, own: TempDir) -> Result<Peer> {
    let address = free_address()?;
    let folder = own.path().display();
    let script = own.path().join("form.php");
    std::fs::write(&script, include_str!("forms/form.php"))?;
    sqlite(
        &own.path().join(DATABASE),
        "PRAGMA journal_mode = WAL; CREATE TABLE contact (id INTEGER PRIMARY KEY, name TEXT, email TEXT, message TEXT)",
    )?;
    let user = file_server::nginx_user();
    let pool_user = if user.is_empty() { "" } else { "user = root\ngroup = root\n" };
    let database = own.path().join(DATABASE).display().to_string();
    let pool =
        format!(include_str!("forms/fpm.conf"), folder = folder, user = pool_user, database = database);
    std::fs::write(own.path().join("fpm.conf"), pool)?;
    let proxy = format!(include_str!("forms/nginx.conf"), folder = folder, user = user, address = address);
    std::fs::write(own.path().join("nginx.conf"), proxy)?;
    // Start both servers from one shell, so that they share a process group.
    let mut command = Command::new("sh");
    command.args(["-c", "php-fpm8.2 -R -y fpm.conf & exec nginx -p . -c \"$PWD/nginx.conf\""]);
    command.current_dir(own.path());
    let peer = Peer::start(bench, "PHP-FPM, own handler", Cores::Servers, &command, address, own)?;
    // nginx accepts connections before PHP is ready.
    for _ in 0..100 {
        if peer.folder.path().join("php.sock").exists() {
            return Ok(peer);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("PHP-FPM did not start: {}", peer.stderr())
}

/// Starts Directus, and lets anonymous users add items to a collection, as its documentation recommends.
pub fn start_directus(bench: &Bench, own: TempDir) -> Result<Peer> {
    let address = free_address()?;
    let node = bench.tool(NODE)?;
    let program = bench.tool(DIRECTUS)?;
    let directus = |what: &str, folder: &Path| {
        let mut command = Command::new(&node);
        command.arg(&program).arg(what).current_dir(folder);
        command.envs([
            ("KEY", "0123456789abcdef"),
            ("SECRET", "0123456789abcdef0123456789abcdef"),
            ("DB_CLIENT", "sqlite3"),
            ("ADMIN_EMAIL", "admin@example.com"),
            ("ADMIN_PASSWORD", "password"),
            ("HOST", "127.0.0.1"),
            ("TELEMETRY", "false"),
            ("RATE_LIMITER_ENABLED", "false"),
            // The pressure limiter would refuse requests under the benchmark's constant load.
            ("PRESSURE_LIMITER_ENABLED", "false"),
            ("CACHE_ENABLED", "false"),
            ("LOG_LEVEL", "warn"),
            ("NODE_ENV", "production"),
        ]);
        command.env("DB_FILENAME", folder.join(DATABASE)).env("PORT", address.port().to_string());
        command
    };
    process::output(&mut directus("bootstrap", own.path())).context("cannot set up Directus")?;
    let command = directus("start", own.path());
    let peer = Peer::start(bench, "Directus", Cores::Servers, &command, address, own)?;
    let token =
        post(&peer, "/auth/login", "", &json!({ "email": "admin@example.com", "password": "password" }))?;
    let token = token["data"]["access_token"].as_str().context("Directus sent no access token")?.to_owned();
    let field = |name: &str, kind: &str| json!({ "field": name, "type": kind });
    let key = json!({ "field": "id", "type": "integer", "schema": { "is_primary_key": true, "has_auto_increment": true } });
    let fields = [key, field("name", "string"), field("email", "string"), field("message", "text")];
    // Turns off the activity log, which would cause additional writes.
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
    let response = http::send(peer.address, request.as_bytes())?;
    ensure!(response.status == 200, "{path} returned status {} from {}", response.status, peer.name);
    Ok(serde_json::from_slice(&response.body)?)
}
