//! Entries of `site.publish`: paths with wildcards.

/// A path whose components may have wildcards: `*` stands for any characters of a name, and `**` for any
/// number of folders. A wildcard does not match a dot at the beginning of a name, as in a shell.
#[derive(Debug, Clone)]
pub(super) struct PathPattern(Vec<String>);

impl PathPattern {
    /// Parses an entry. A slash at the end stands for everything in the folder; `./` and slashes at the
    /// beginning are ignored.
    pub fn new(entry: &str) -> Self {
        let entry = entry.trim_start_matches("./").trim_start_matches('/');
        let mut parts: Vec<String> = entry.split('/').map(str::to_owned).collect();
        if let Some(last) = parts.last_mut().filter(|last| last.is_empty()) {
            "**".clone_into(last);
        }
        Self(parts)
    }

    /// Whether the pattern matches the file `name` or, if `name` ends with a slash, whether it could match a
    /// file in that folder.
    pub fn matches(&self, name: &str) -> bool {
        let folder = name.strip_suffix('/');
        let parts: Vec<&str> = folder.unwrap_or(name).split('/').collect();
        matches_parts(&self.0, &parts, folder.is_some())
    }

    /// Whether the pattern is the name of this file, or that of files in this folder, whose name ends with a
    /// slash. `static/` at the beginning of either is ignored.
    pub fn is_confined_to(&self, name: &str) -> bool {
        let name = name.strip_prefix("static/").unwrap_or(name);
        let own = self.0.join("/");
        let own = own.strip_prefix("static/").unwrap_or(&own);
        own == name || name.ends_with('/') && own.starts_with(name)
    }
}

/// Whether the components of a path match those of a pattern. A folder matches if files in it may match.
fn matches_parts(pattern: &[String], parts: &[&str], is_folder: bool) -> bool {
    match (pattern, parts) {
        ([], []) => !is_folder,
        // Files in the folder may match the rest of the pattern.
        (_, []) => is_folder,
        ([], _) => false,
        ([any, rest @ ..], [first, others @ ..]) if any == "**" => {
            let is_last = rest.is_empty() && others.is_empty() && !is_folder;
            (is_last && !first.starts_with('.'))
                || matches_parts(rest, parts, is_folder)
                || (!first.starts_with('.') && matches_parts(pattern, others, is_folder))
        }
        ([own, rest @ ..], [first, others @ ..]) => {
            matches_name(own.as_bytes(), first.as_bytes()) && matches_parts(rest, others, is_folder)
        }
    }
}

/// Whether one name matches one component of a pattern other than `**`. A `*` does not match a dot at the
/// beginning of the name.
fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    let (mut at, mut from) = (0, 0);
    // The index of the last `*` in the pattern, and the end of the text that it matches, which moves on by
    // one byte after each mismatch.
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(own) if *own == name[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, from) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|own| *own == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_path_or_has_wildcards() {
        for (pattern, name, expected) in [
            ("a/b.txt", "a/b.txt", true),
            ("/a/b.txt", "a/b.txt", true),
            ("./a/b.txt", "a/b.txt", true),
            ("a/b.txt", "a/b.txt.bak", false),
            ("a/b.txt", "b.txt", false),
            ("a/b.txt", "A/b.txt", false),
            ("*.db", "a.db", true),
            ("*.db", "x/a.db", false),
            ("*.db", ".db", false),
            (".*", ".nojekyll", true),
            ("x/*.d*", "x/a.b.db", true),
            ("x/*.d*b", "x/a.d", false),
            ("a*b*c", "axxbxxbc", true),
            ("a*b*c", "axxbxxb", false),
            ("**/*.db", "a.db", true),
            ("**/*.db", "x/y/a.db", true),
            ("**/*.db", "x/.y/a.db", false),
            ("x/**", "x/y/a.db", true),
            ("x/**", "x/.env", false),
            ("x/**", "y/x/a", false),
            ("x/", "x/y/a.db", true),
            ("x/**/a", "x/a", true),
            (".git/**", ".git/config", true),
            ("**", "a", true),
            ("**", ".a", false),
            // Folders that may have such files.
            ("x/y/a", "x/", true),
            ("x/y/a", "x/y/", true),
            ("x/y/a", "x/z/", false),
            ("x/y/a", "x/y/a/", false),
            (".git/a", ".git/", true),
            ("**/a", ".git/", false),
            ("**/a", "node_modules/", true),
            ("*.db", "node_modules/", false),
        ] {
            assert_eq!(PathPattern::new(pattern).matches(name), expected, "{pattern} {name}");
        }
        let hostile = "*a".repeat(50);
        assert!(!PathPattern::new(&hostile).matches(&"a".repeat(49)), "it ends");
    }
}
