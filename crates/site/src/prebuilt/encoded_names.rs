//! Decodes the percent-encoded names that some generators give to the files of a build.

use std::collections::{HashMap, HashSet};

use crate::path::{self, encode};
use crate::site::{Redirect, Site, SiteEntry};
use crate::site_files::BuildFile;

/// Decodes percent escapes in the names of files, because the links of such builds are meant for the decoded
/// names, and likewise in the names of the targets of symbolic links. Returns the names on the disk and the
/// decoded ones. Keeps a name that is no valid path, or whose decoded form is hidden or the name of another
/// file.
pub(super) fn decode_names(files: &mut [BuildFile]) -> Vec<(String, String)> {
    if !files.iter().any(|file| file.name.contains('%')) {
        return Vec::new();
    }
    let mut names: HashSet<String> = files.iter().map(|file| file.name.clone()).collect();
    let mut decoded = Vec::new();
    for file in files.iter_mut().filter(|file| file.name.contains('%')) {
        let written = format!("/{}", file.name);
        let Ok(path) = path::decode(&written) else { continue };
        let name = path[1..].to_owned();
        if !path.contains("/.") && names.insert(name.clone()) {
            decoded.push((std::mem::replace(&mut file.name, name.clone()), name));
        }
    }
    let targets: HashMap<&str, &String> = decoded.iter().map(|(on_disk, name)| (&**on_disk, name)).collect();
    for target in files.iter_mut().filter_map(|file| file.linked.as_mut()) {
        if let Some(name) = targets.get(&**target) {
            target.clone_from(name);
        }
    }
    decoded
}

/// Redirects the name on disk of each file that [`decode_names`] decoded to the decoded path: some builds
/// link to the name, with the percent sign encoded once more. Also redirects the name without `index.html` or
/// `.html` at its end. Skips decoded paths that the site lacks, and replaces nothing.
pub(super) fn redirect_written_names(site: &mut Site, mount: &str, decoded: &[(String, String)]) {
    for (written, decoded) in decoded {
        for end in ["index.html", ".html", ""] {
            let ends = written.strip_suffix(end).zip(decoded.strip_suffix(end));
            let Some((written, decoded)) = ends else { continue };
            let path = format!("{mount}{decoded}");
            if site.entry_at(&path).is_some() {
                let to = || SiteEntry::Redirect(Redirect::permanent(encode(&path)));
                site.insert_if_free(&format!("{mount}{written}"), to);
            }
        }
    }
}
