//! Reads the files that contain a build's rules: `_redirects` and `_headers`.

use std::io::ErrorKind;
use std::path::Path;

use super::{HeaderRule, RedirectRule, RuleList, RulesDialect, parse_headers, parse_redirects};
use frontdesk_fault::Fault;
use frontdesk_process::panics::{self, Part};

/// Reads the rules in `_redirects` and `_headers`, which are not published as files. Unlike for published
/// files, the permission bits do not matter, because rules may protect pages. A file that cannot be read, or
/// that is larger than `max_bytes`, adds an error to `faults` and yields no rules. A missing file yields none
/// without an error.
pub fn read_rules(
    folder: &Path,
    dialect: RulesDialect,
    max_bytes: u64,
    faults: &mut Vec<Fault>,
) -> (Vec<RedirectRule>, RuleList<HeaderRule>) {
    let mut read = |name| {
        let text = read_rules_file(folder, name, max_bytes);
        text.unwrap_or_else(|fault| {
            faults.push(fault);
            String::new()
        })
    };
    let [redirects, headers] = ["_redirects", "_headers"].map(|name| (name, read(name)));
    let (name, text) = redirects;
    let redirects = parse_or_report(name, faults, |faults| parse_redirects(&text, dialect, name, faults));
    let (name, text) = headers;
    let headers = parse_or_report(name, faults, |faults| parse_headers(&text, dialect, name, faults));
    (redirects, RuleList::new(headers))
}

/// The text of a file with rules. Empty if there is no such file, or if it is a folder, which contains pages.
/// Invalid UTF-8 is replaced. Fails for a file outside the build, and for one that is too large or cannot be
/// read.
fn read_rules_file(folder: &Path, name: &str, max_bytes: u64) -> Result<String, Fault> {
    let error = |message: &str| {
        let hint = "repair, replace or remove the file: its rules may protect pages, so the build is not served \
                    without them";
        Fault::error(name, None, message).hint(hint)
    };
    let at = folder.join(name);
    match at.symlink_metadata() {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(String::new()),
        Err(why) => return Err(error(&why.to_string())),
        Ok(_) => {}
    }
    let real = at.canonicalize().map_err(|why| match why.kind() {
        ErrorKind::NotFound => error("the symbolic link is broken"),
        _ => error(&why.to_string()),
    })?;
    if !folder.canonicalize().is_ok_and(|folder| real.starts_with(folder)) {
        return Err(error("the symbolic link points outside the build"));
    }
    let metadata = real.metadata().map_err(|why| error(&why.to_string()))?;
    if metadata.is_dir() {
        return Ok(String::new());
    }
    if !metadata.is_file() {
        return Err(error("is not a regular file"));
    }
    if metadata.len() > max_bytes {
        return Err(error(&format!("is larger than {} MiB", max_bytes >> 20)));
    }
    let bytes = std::fs::read(real).map_err(|why| error(&why.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses the rules in `file` by calling `parse`. If that panics, reports the defect and returns no rules.
fn parse_or_report<T>(
    file: &str,
    faults: &mut Vec<Fault>,
    parse: impl FnOnce(&mut Vec<Fault>) -> Vec<T>,
) -> Vec<T> {
    let rules = panics::catch(Part::Content, || {
        panics::inject("rules", file);
        parse(faults)
    });
    rules.unwrap_or_else(|panic| {
        faults.push(Fault::defect(file, &panic, "its rules are ignored"));
        Vec::new()
    })
}
