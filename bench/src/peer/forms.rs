//! Other form backends: handlers in Node and PHP, and the headless CMS Directus. All of them write to SQLite.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::{Peer, Reserved, command, file_server};
use crate::process;
use crate::settings::{Bench, Cores, NODE};

/// Path of Directus in the tools folder.
const DIRECTUS: &str = "directus/node_modules/directus/cli.js";

/// The file in which all of them store submissions.
pub const DATABASE: &str = "forms.sqlite";

/// Runs SQL statements on a database, and returns their output.
pub fn sqlite(database: &Path, statements: &str) -> Result<String> {
    process::output(Command::new("sqlite3").args(["-cmd", ".timeout 10000"]).arg(database).arg(statements))
}

/// Starts a handler on Node's own HTTP server and SQLite module. It creates its table.
pub fn start_node(bench: &Bench, own: TempDir) -> Result<Peer> {
    let reserved = Reserved::with_folder(own)?;
    let folder = reserved.folder.path();
    let script = folder.join("form.mjs");
    std::fs::write(&script, include_str!("forms/form.mjs"))?;
    let mut command = command(bench.tool(NODE)?);
    command.arg("--no-warnings").arg(&script);
    command.arg(reserved.address.port().to_string()).arg(folder.join(DATABASE));
    Peer::start(bench, "Node, own handler", Cores::Servers, &mut command, reserved)
}

/// Starts a handler on PHP-FPM with eight processes, behind nginx, which accepts the connections.
pub fn start_php(bench: &Bench, own: TempDir) -> Result<Peer> {
    let reserved = Reserved::with_folder(own)?;
    let folder = reserved.folder.path();
    std::fs::write(folder.join("form.php"), include_str!("forms/form.php"))?;
    let columns = "id INTEGER PRIMARY KEY, name TEXT, email TEXT, message TEXT";
    sqlite(&folder.join(DATABASE), &format!("PRAGMA journal_mode = WAL; CREATE TABLE contact ({columns})"))?;
    let user = file_server::nginx_user();
    let pool_user = if user.is_empty() { "" } else { "user = root\ngroup = root\n" };
    let (database, shown) = (folder.join(DATABASE), folder.display());
    let pool = format!(
        include_str!("forms/fpm.conf"),
        folder = shown,
        user = pool_user,
        database = database.display()
    );
    std::fs::write(folder.join("fpm.conf"), pool)?;
    let proxy =
        format!(include_str!("forms/nginx.conf"), folder = shown, user = user, address = reserved.address);
    std::fs::write(folder.join("nginx.conf"), proxy)?;
    // Start both servers from one shell, so that they share a process group. nginx accepts connections
    // before PHP is ready, so wait for its socket.
    let script = "php-fpm8.2 -R -y fpm.conf & until test -S php.sock; do sleep 0.05; done; exec nginx -p . -c \"$PWD/nginx.conf\"";
    let mut command = command("sh");
    command.args(["-c", script]).current_dir(folder);
    Peer::start(bench, "PHP-FPM, own handler", Cores::Servers, &mut command, reserved)
}

/// Starts Directus, and lets anonymous users add items to a collection, as its documentation recommends.
pub fn start_directus(bench: &Bench, own: TempDir) -> Result<Peer> {
    let reserved = Reserved::with_folder(own)?;
    let folder = reserved.folder.path();
    let (node, program) = (bench.tool(NODE)?, bench.tool(DIRECTUS)?);
    let directus = |what: &str| {
        let mut command = command(&node);
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
        command.env("DB_FILENAME", DATABASE).env("PORT", reserved.address.port().to_string());
        command
    };
    process::output(&mut directus("bootstrap")).context("cannot set up Directus")?;
    sqlite(&folder.join(DATABASE), include_str!("forms/directus.sql"))?;
    Peer::start(bench, "Directus", Cores::Servers, &mut directus("start"), reserved)
}
