//! Describes the machine and the versions of the programs, for the report.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use procfs::{CpuInfo, Current as _, Meminfo};

use crate::peer::file_server::STATIC_WEB_SERVER;
use crate::settings::Bench;
use crate::suites::loading::generators::ZOLA_PACKAGE;

const GIBIBYTE: f64 = 1_073_741_824.0;

/// The value of what is not installed.
pub const NOT_FOUND: &str = "not found";

/// Describes the machine and the program versions as names and values. Unknown values are [`NOT_FOUND`].
pub fn describe(bench: &Bench) -> Vec<(String, String)> {
    let uname = rustix::system::uname();
    let kernel = format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    let memory =
        Meminfo::current().ok().map(|info| format!("{} GB", (info.mem_total as f64 / GIBIBYTE).round()));
    let processor = CpuInfo::current().ok();
    let pairs = [
        ("processor", processor.as_ref().and_then(|info| info.model_name(0)).map(str::to_owned)),
        ("cores", processor.as_ref().map(|info| info.num_cores().to_string())),
        ("memory", memory),
        ("kernel", Some(kernel)),
        ("system", read_field("/etc/os-release", "PRETTY_NAME=")),
        ("frontdesk", read_version(&bench.frontdesk, "--version", 1)),
        ("nginx", read_version("nginx", "-v", 2)),
        ("Caddy", read_version("caddy", "version", 0)),
        ("h2load", read_version("h2load", "--version", 1)),
        ("static-web-server", read_version(bench.tools.join(STATIC_WEB_SERVER), "--version", 1)),
        ("Zola", read_field(bench.tools.join(ZOLA_PACKAGE), "  \"version\"")),
        ("Hugo", read_version("hugo", "version", 1)),
        ("compiler", read_version("rustc", "--version", 1)),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value.unwrap_or_else(|| NOT_FOUND.to_owned()))).into()
}

/// Reads the rest of the first line in `file` that begins with `name`, without the punctuation around it.
fn read_field(file: impl AsRef<Path>, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_matches(['\t', ' ', ':', '"', ',']).to_owned())
}

/// Reads a program's version: the word at index `word` in the first line that the program prints when it is
/// started with the argument `question`.
fn read_version(program: impl AsRef<OsStr>, question: &str, word: usize) -> Option<String> {
    let output = Command::new(program).arg(question).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().next()?.split_whitespace().nth(word).map(|word| word.trim_start_matches("nginx/").to_owned())
}
