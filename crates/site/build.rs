//! Computes a fingerprint of the code that converts the pages of builds. Cached conversions of other code are
//! not used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The files that determine a conversion: the converter, the code that completes pages, and `Cargo.lock`.
const SOURCES: [&str; 6] = [
    "../convert/src",
    "../convert/Cargo.toml",
    "../site_rules/src/content_security_policy.rs",
    "src/prebuilt",
    "src/prebuilt.rs",
    "../../Cargo.lock",
];

/// Sets `FRONTDESK_CONVERTER` to a hash of the names and contents of all files in [`SOURCES`].
fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = BTreeMap::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        collect(&root.join(source), source, &mut files);
    }
    let mut hash = FNV_OFFSET;
    for (name, content) in &files {
        for part in [name.as_bytes(), content] {
            hash = part.len().to_le_bytes().into_iter().chain(part.iter().copied()).fold(hash, add_byte);
        }
    }
    println!("cargo::rustc-env=FRONTDESK_CONVERTER={hash:032x}");
}

/// Adds a file, or all files in a folder, to `files`. Panics if one cannot be read. `name` is the path
/// relative to this crate, so that the fingerprint does not depend on the location of the project.
fn collect(path: &Path, name: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries.flatten() {
            collect(&entry.path(), &format!("{name}/{}", entry.file_name().to_string_lossy()), files);
        }
        return;
    }
    let content = fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    files.insert(name.to_owned(), content);
}

/// FNV-1a with 128 bits: enough to tell versions apart, without another dependency of the build.
const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

fn add_byte(hash: u128, byte: u8) -> u128 {
    (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME)
}
