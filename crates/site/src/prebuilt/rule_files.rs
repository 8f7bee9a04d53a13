//! Reads the files with the rules of a build.

use std::io::ErrorKind;
use std::path::Path;

use crate::fault::Fault;
use crate::rules::{HeaderRule, RedirectRule, RuleList, RulesDialect, parse_headers, parse_redirects};
use frontdesk_process::panics::{self, Part};
use frontdesk_publish::MAX_FILE_BYTES;

/// Reads the rules in `_redirects` and `_headers`, which the build's files do not include. They apply under
/// any mode, because they may protect pages.
pub(super) fn read_rules(
    folder: &Path,
    dialect: RulesDialect,
    faults: &mut Vec<Fault>,
) -> (Vec<RedirectRule>, RuleList<HeaderRule>) {
    let mut read = |name| {
        let text = read_rules_file(folder, name);
        text.unwrap_or_else(|fault| {
            faults.push(fault);
            String::new()
        })
    };
    let [redirects, headers] = ["_redirects", "_headers"].map(|name| (name, read(name)));
    let (name, text) = redirects;
    let redirects = contain(name, faults, |faults| parse_redirects(&text, dialect, name, faults));
    let (name, text) = headers;
    let headers = contain(name, faults, |faults| parse_headers(&text, dialect, name, faults));
    (redirects, RuleList::new(headers))
}

/// The text of a file with rules, or an empty text if there is none. A folder with this name has pages.
fn read_rules_file(folder: &Path, name: &str) -> Result<String, Fault> {
    let error = |message: &str| {
        let hint = "the rules may protect pages, so the build is not served without them";
        Fault::error(name, None, message).hint(hint)
    };
    let at = folder.join(name);
    match at.symlink_metadata() {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(String::new()),
        Err(why) => return Err(error(&why.to_string())),
        Ok(_) => {}
    }
    let real = at.canonicalize().map_err(|_| error("the symbolic link is broken"))?;
    if !folder.canonicalize().is_ok_and(|folder| real.starts_with(folder)) {
        return Err(error("the symbolic link points outside the build"));
    }
    let metadata = real.metadata().map_err(|why| error(&why.to_string()))?;
    if metadata.is_dir() {
        return Ok(String::new());
    }
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(error("is not a regular file, or is too large"));
    }
    let bytes = std::fs::read(real).map_err(|why| error(&why.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the rules in `file`. A panic costs the rules of this file.
fn contain<T>(file: &str, faults: &mut Vec<Fault>, read: impl FnOnce(&mut Vec<Fault>) -> Vec<T>) -> Vec<T> {
    let rules = panics::catch(Part::Content, || {
        panics::inject("rules", file);
        read(faults)
    });
    rules.unwrap_or_else(|panic| {
        faults.push(Fault::defect(file, &panic, "its rules are ignored"));
        Vec::new()
    })
}
