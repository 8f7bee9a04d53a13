//! The redirects of the configuration: compiles them to rules, and reports those that cannot work.

use super::link_resolution::LinkTarget;
use super::path;
use super::path_registry::PathRegistry;
use super::rules::{RedirectRule, RuleList};
use crate::fault::{Fault, Placed};

/// A redirect from the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectOption {
    /// The path to redirect. It may end with `*`, and `:name` stands for a segment or a part of one.
    pub from: String,
    /// A path on this site or a URL, in which `:name` and `:splat` stand for the texts that `:name` and `*`
    /// matched. Empty for the status 410.
    pub to: String,
    /// One of the statuses 301, 302, 303, 307 and 308, or 410 for pages that were removed for good.
    pub status: u16,
    /// The configuration file that defines the redirect.
    pub place: String,
    pub line: Option<usize>,
}

/// Maximum number of consecutive redirects. A longer chain counts as circular.
pub(super) const MAX_HOPS: usize = 10;

/// The rules for redirects, and the targets whose existence the caller must check, with the places of their
/// redirects.
#[derive(Debug, Default)]
pub(super) struct CompiledRedirects {
    pub rules: Vec<RedirectRule>,
    pub targets: Vec<Placed<LinkTarget>>,
}

/// Compiles redirects: those without placeholders come first, and longer paths before shorter ones. Claims
/// the paths of those without placeholders, and marks the ones with the status 410 as gone. Reports and
/// leaves out redirects that are invalid or circular, or whose path is in use. The `targets` of the result
/// leave out targets on other sites, targets with placeholders, and targets that one of the rules redirects.
pub(super) fn compile(
    redirects: &[RedirectOption],
    names: &mut PathRegistry,
    faults: &mut Vec<Fault>,
) -> CompiledRedirects {
    let mut parsed = Vec::with_capacity(redirects.len());
    for redirect in redirects {
        let rule = match redirect.status {
            410 => RedirectRule::gone(&redirect.from),
            status => RedirectRule::new(&redirect.from, &redirect.to, status),
        };
        match rule {
            Ok(rule) => parsed.push((redirect, rule)),
            Err(why) => {
                let message = format!("the redirect from `{}` {why}", redirect.from);
                let hint = "write, for example, \"/old/\" = \"/new/\", or \"/old/*\" = \"/new/:splat\" for all pages below /old/";
                faults.push(Fault::error(&*redirect.place, redirect.line, message).hint(hint));
            }
        }
    }
    // Sort redirects without placeholders before those with placeholders, and longer paths first.
    parsed.sort_by_key(|(redirect, rule)| {
        (rule.literal_paths().is_empty(), std::cmp::Reverse(redirect.from.len()))
    });
    let rules = RuleList::new(parsed.iter().map(|(_, rule)| rule.clone()).collect());
    let target = |path: &str| rules.candidates(path).find_map(|rule| rule.target(path, None));
    let next = |path: &str| target(path).filter(|_| !names.has_path(path));
    let is_circular = |path: String| target(&path).is_some_and(|to| is_circular(&path, to, next));
    let circular: Vec<bool> = parsed.iter().map(|(_, rule)| is_circular(rule.example())).collect();
    let mut compiled = CompiledRedirects::default();
    for ((redirect, rule), is_circular) in parsed.into_iter().zip(circular) {
        let RedirectOption { from, to, place, line, .. } = redirect;
        if is_circular {
            let message = format!(
                "the redirect from `{from}` leads back to itself, or through more than {MAX_HOPS} redirects"
            );
            let fault = Fault::error(&**place, *line, message);
            faults.push(fault.hint("redirect directly to a page or to another site"));
            continue;
        }
        let literal = rule.literal_paths();
        if let Some(used) = literal.iter().find(|path| names.has_path(path)) {
            let message = match names.owner(used) {
                Some(owner) => format!("the path `{used}` is taken by {owner}"),
                None if names.owners.contains_key(used) => {
                    format!("the path `{used}` is taken by a built-in resource")
                }
                None => format!("the path `{used}` already leads to a page"),
            };
            let fault = Fault::error(&**place, *line, message);
            faults.push(fault.hint("redirect from a path that is not in use, or remove the redirect"));
            continue;
        }
        for path in &literal {
            names.claim(path, place, *line, faults);
            if rule.is_gone() {
                names.mark_as_gone(path);
            }
        }
        if let Some(value) = local_target(to).filter(|_| !rule.has_variable_target()) {
            compiled.targets.push(Placed { value, place: place.clone(), line: *line });
        }
        compiled.rules.push(rule);
    }
    let leads_on = |rule: &RedirectRule, path: &str| !rule.is_gone() && rule.target(path, None).is_some();
    let rules = RuleList::new(compiled.rules.clone());
    let has_rule =
        |target: &LinkTarget| rules.candidates(&target.path).any(|rule| leads_on(rule, &target.path));
    compiled.targets.retain(|target| !has_rule(&target.value));
    compiled
}

/// The path and fragment of a target on this site, without its query; `None` for a URL. Resolves empty
/// segments, as the server does, and dot segments, as browsers do. A path that cannot be requested stays as
/// it is written.
fn local_target(to: &str) -> Option<LinkTarget> {
    let (rest, fragment) = to.split_once('#').map_or((to, None), |(rest, fragment)| (rest, Some(fragment)));
    let path = rest.split('?').next().filter(|path| path.starts_with('/'))?;
    let resolved = path::resolve_relative("/", path);
    Some(LinkTarget {
        path: path::decode(&resolved).map_or_else(|_| path.into(), Into::into),
        fragment: fragment.map(Into::into),
        written: None,
    })
}

/// Maximum length of a path to follow, in bytes. Longer paths do not fit into a request's header.
const MAX_PATH_BYTES: usize = 16 * 1024;

/// Whether a redirect from the decoded path `from` to `to` leads back to that path, through more than
/// [`MAX_HOPS`] redirects, or to a path that is too long for a request. `next` returns the target of the
/// redirect at a decoded path, if there is one.
pub(super) fn is_circular(from: &str, mut to: String, next: impl Fn(&str) -> Option<String>) -> bool {
    for _ in 0..MAX_HOPS {
        let Some(LinkTarget { path, .. }) = local_target(&to) else { return false };
        // Stop at a path too long for a request: a target with several `:splat` grows with each redirect.
        if *path == *from || path.len() > MAX_PATH_BYTES {
            return true;
        }
        let Some(further) = next(&path) else { return false };
        to = further;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles redirects on a site with the page `/new/`. The line of a redirect is its position. An empty
    /// target stands for the status 410.
    fn compile_lines(lines: &[(&str, &str)]) -> (CompiledRedirects, Vec<String>) {
        let mut names = PathRegistry::default();
        let mut faults = Vec::new();
        names.claim("/new/", "pages/new.md", None, &mut faults);
        names.add_secondary("/new".into());
        let redirect = |(index, (from, to)): (usize, &(&str, &str))| RedirectOption {
            from: (*from).into(),
            to: (*to).into(),
            status: if to.is_empty() { 410 } else { 308 },
            place: "frontdesk.toml".into(),
            line: Some(index + 1),
        };
        let redirects: Vec<RedirectOption> = lines.iter().enumerate().map(redirect).collect();
        let compiled = compile(&redirects, &mut names, &mut faults);
        (compiled, faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn redirects_apply_to_paths_and_folders() {
        let lines = [
            ("/*", "/new/"),
            ("/old/*", "/new/:splat"),
            ("/old/a/", "/new/?q=1#x"),
            ("/ä", "https://example.com/ü"),
        ];
        let (compiled, faults) = compile_lines(&lines);
        assert_eq!(faults, [""; 0]);
        let target = |path| compiled.rules.iter().find_map(|rule| rule.target(path, None));
        for (path, expected) in [
            ("/old/a/", "/new/?q=1#x"),
            ("/old/a", "/new/?q=1#x"),
            ("/old/b/c", "/new/b/c"),
            ("/other", "/new/"),
            ("/ä/", "https://example.com/%C3%BC"),
        ] {
            assert_eq!(target(path).as_deref(), Some(expected), "{path}");
        }
        assert!(compiled.rules.iter().all(|rule| rule.status == 308 && !rule.is_forced));
    }

    #[test]
    fn redirects_that_cannot_work_are_faults_with_their_line() {
        for (lines, expected) in [
            (vec![("/new/", "/x/")], "frontdesk.toml:1: the path `/new` already leads to a page"),
            (
                vec![("/a/", "/new/"), ("/a", "/new/")],
                "frontdesk.toml:2: the path `/a` is taken by frontdesk.toml",
            ),
            (
                vec![("a", "/new/")],
                "frontdesk.toml:1: the redirect from `a` applies to another host or is not a path",
            ),
            (vec![("/a", "new")], "frontdesk.toml:1: the redirect from `/a` has an invalid target"),
            (
                vec![("/a", "//example.com/")],
                "frontdesk.toml:1: the redirect from `/a` has an invalid target",
            ),
            (vec![("/a", "javascript:x")], "frontdesk.toml:1: the redirect from `/a` has an invalid target"),
            (vec![("/a", "/b c")], "frontdesk.toml:1: the redirect from `/a` has an invalid target"),
            (vec![("/*/a/*", "/new/")], "frontdesk.toml:1: the redirect from `/*/a/*` has more than one `*`"),
            (
                vec![("/*/a", "/new/")],
                "frontdesk.toml:1: the redirect from `/*/a` has a `*` that is not at its end",
            ),
            (vec![("/a", "/a/")], "frontdesk.toml:1: the redirect from `/a` leads back to itself"),
            (
                vec![("/a/*", "/a/b/:splat")],
                "frontdesk.toml:1: the redirect from `/a/*` leads back to itself",
            ),
        ] {
            let (compiled, faults) = compile_lines(&lines);
            assert!(faults.len() == 1 && faults[0].starts_with(expected), "{lines:?}: {faults:?}");
            assert_eq!(compiled.rules.len(), lines.len() - 1);
        }
        let (compiled, faults) = compile_lines(&[("/a", "/b"), ("/b", "/c/"), ("/c", "/a"), ("/d", "/new/")]);
        assert_eq!((compiled.rules.len(), faults.len()), (1, 3), "{faults:?}");
    }

    #[test]
    fn removed_pages_have_no_target_and_are_not_valid_targets() {
        let lines = [("/gone/", ""), ("/gone-below/*", ""), ("/a", "/gone"), ("/b", "/gone-below/x/")];
        let (compiled, faults) = compile_lines(&lines);
        assert_eq!(faults, [""; 0]);
        let find =
            |path| compiled.rules.iter().find(|rule| rule.target(path, None).is_some()).expect("a rule");
        for path in ["/gone", "/gone/", "/gone-below/x"] {
            assert!(find(path).is_gone(), "{path}");
        }
        assert!(!find("/a").is_gone());
        let targets: Vec<&str> = compiled.targets.iter().map(|target| &*target.value.path).collect();
        assert_eq!(targets, ["/gone", "/gone-below/x/"], "redirects to removed pages are checked like links");
        let (_, faults) = compile_lines(&[("/new/", "")]);
        assert!(
            faults[0].starts_with("frontdesk.toml:1: the path `/new` already leads to a page"),
            "{faults:?}"
        );
    }

    #[test]
    fn targets_are_checked_unless_another_redirect_applies() {
        let lines = [
            ("/a", "/b/?x"),
            ("/b", "/new/"),
            ("/c/*", "/gone/"),
            ("/d/*", "/e/:splat"),
            ("/f", "https://x.example/"),
            ("/g", "/new//x/../y"),
            ("/h", "/new%2F"),
            ("/i", "/new\\"),
        ];
        let (compiled, faults) = compile_lines(&lines);
        assert_eq!(faults, [""; 0]);
        let mut paths: Vec<_> =
            compiled.targets.iter().map(|target| (&*target.value.path, target.line)).collect();
        paths.sort_unstable();
        let expected = [("/gone/", 3), ("/new%2F", 7), ("/new/", 2), ("/new/y", 6), ("/new\\", 8)]
            .map(|(path, line)| (path, Some(line)));
        assert_eq!(paths, expected);
    }
}
