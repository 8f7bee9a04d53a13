//! What was measured on, and which versions of the servers: for the report.

use std::path::Path;
use std::process::Command;

use crate::Bench;

/// The machine and the programs, as pairs of what and which. What cannot be found out says so.
pub fn describe(bench: &Bench) -> Vec<(String, String)> {
    let uname = rustix::system::uname();
    let kernel = format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    let memory =
        field("/proc/meminfo", "MemTotal:").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let memory = memory.map(|kilobytes| format!("{:.0} GB", kilobytes as f64 / 1_048_576.0));
    let cores = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = cores.lines().filter(|line| line.starts_with("processor")).count();
    let mut pairs = vec![
        ("processor", field("/proc/cpuinfo", "model name")),
        ("cores", Some(cores.to_string())),
        ("memory", memory),
        ("kernel", Some(kernel)),
        ("system", field("/etc/os-release", "PRETTY_NAME=").map(|name| name.trim_matches('"').to_owned())),
        ("frontdesk", says(&bench.frontdesk, &["--version"], 1)),
    ];
    for (name, program, question, word) in
        [("nginx", "nginx", "-v", 2), ("Caddy", "caddy", "version", 0), ("h2load", "h2load", "--version", 1)]
    {
        pairs.push((name, says(Path::new(program), &[question], word)));
    }
    pairs.push(("static-web-server", says(&bench.static_web_server, &["--version"], 1)));
    pairs.push(("compiler", says(Path::new("rustc"), &["--version"], 1)));
    pairs
        .into_iter()
        .map(|(what, which)| (what.to_owned(), which.unwrap_or_else(|| "not found".to_owned())))
        .collect()
}

/// What stands behind `name` in a file of fields.
fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start_matches(['\t', ' ', ':']).trim().to_owned())
}

/// The word at a place in the first line that a program says.
fn says(program: &Path, arguments: &[&str], word: usize) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    said.lines().next()?.split_whitespace().nth(word).map(|word| word.trim_start_matches("nginx/").to_owned())
}
