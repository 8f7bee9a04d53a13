//! Recognizes files at the root of a build, or of `static/`, that configure or extend a host: a hosting
//! provider for static sites, such as Cloudflare Pages, Netlify or Vercel.

use std::path::Path;

/// A file or folder for the server of a hosting provider, not for visitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostingFile {
    /// `_headers` or `_redirects`, whose rules apply to a build.
    Rules,
    /// A copy of `_headers` or `_redirects` that is compressed or named in capitals. Its rules do not apply.
    RulesCopy,
    /// A program that the provider would run for requests, a part of such a program, or its routes.
    Program,
    /// The configuration of a hosting provider, which may contain passwords.
    Configuration,
}

/// Maximum number of entries in a folder `functions`. A larger folder counts as one without programs.
const MAX_EXAMINED: usize = 1000;

impl HostingFile {
    /// Determines from the name in the root of a build, or in `static/`, whether the entry is for a host.
    /// Ignores case, and endings of compressed files such as `.gz`, except that [`Self::Rules`] need the
    /// exact name. A folder can only be a [`Self::Program`].
    pub fn from_name(name: &str, is_folder: bool) -> Option<Self> {
        // Compare in lower case, because not all file systems distinguish cases.
        let lower = name.to_ascii_lowercase();
        let plain = [".br", ".gz", ".zst"].iter().find_map(|ending| lower.strip_suffix(ending));
        match plain.unwrap_or(&lower) {
            "_headers" | "_redirects" if is_folder => None,
            plain @ ("_headers" | "_redirects") if plain == name => Some(Self::Rules),
            "_headers" | "_redirects" => Some(Self::RulesCopy),
            "_worker.js" | "_worker.bundle" | "_routes.json" => Some(Self::Program),
            plain if plain.starts_with("_worker.js.") => Some(Self::Program),
            "netlify.toml" | "vercel.json" | "wrangler.toml" | "wrangler.json" | "wrangler.jsonc"
                if !is_folder =>
            {
                Some(Self::Configuration)
            }
            _ => None,
        }
    }
}

/// Whether the folder `functions` at the root of a build has programs for Cloudflare Pages: at any depth, at
/// least one script, no HTML, and at most [`MAX_EXAMINED`] files and folders. A folder with pages about
/// functions has HTML.
pub(crate) fn has_programs(folder: &Path) -> bool {
    let (mut has_script, mut count) = (false, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            count += 1;
            let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
            let has_ending = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
            if count > MAX_EXAMINED || has_ending(&[".html", ".htm"]) {
                return false;
            }
            has_script |= has_ending(&[".js", ".jsx", ".mjs", ".ts", ".tsx"]);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    has_script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_hosts_are_recognized_by_their_names() {
        for (name, is_folder, expected) in [
            ("_headers", false, Some(HostingFile::Rules)),
            ("_redirects", false, Some(HostingFile::Rules)),
            ("_headers", true, None),
            ("_headers.br", false, Some(HostingFile::RulesCopy)),
            ("_redirects.gz", false, Some(HostingFile::RulesCopy)),
            ("_HEADERS", false, Some(HostingFile::RulesCopy)),
            ("_worker.js", false, Some(HostingFile::Program)),
            ("_worker.js", true, Some(HostingFile::Program)),
            ("_worker.js.map", false, Some(HostingFile::Program)),
            ("_worker.js.zst", false, Some(HostingFile::Program)),
            ("_worker.bundle", false, Some(HostingFile::Program)),
            ("_routes.json", false, Some(HostingFile::Program)),
            ("_worker.html", false, None),
            ("vercel.json", false, Some(HostingFile::Configuration)),
            ("vercel.json", true, None),
            ("netlify.toml", false, Some(HostingFile::Configuration)),
            ("wrangler.jsonc", false, Some(HostingFile::Configuration)),
            ("wrangler", true, None),
            ("index.html.gz", false, None),
        ] {
            assert_eq!(HostingFile::from_name(name, is_folder), expected, "{name}");
        }
    }

    #[test]
    fn functions_are_scripts_without_pages() {
        for (files, expected) in [
            (&["api/x.ts", "a.json"][..], true),
            (&["x.js", "api/index.html"], false),
            (&["a.png"], false),
            (&[], false),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            for file in files {
                let at = folder.path().join(file);
                std::fs::create_dir_all(at.parent().expect("a folder")).expect("a folder");
                std::fs::write(at, "x").expect("it is written");
            }
            assert_eq!(has_programs(folder.path()), expected, "{files:?}");
        }
    }
}
