//! Finds broken links.

use std::sync::Arc;

use super::document::Document;
use super::link_resolution::{LinkTarget, is_local_file, percent_decoded};
use super::markdown::BodyFacts;
use super::page_bodies::Bodies;
use super::path;
use super::path_registry::PathRegistry;
use super::redirects::CompiledRedirects;
use super::rendered_pages::LaidOutPage;
use super::structure::Structure;
use crate::fault::{Fault, Placed, closest, closest_path};
use frontdesk_process::hash_maps::{HashMap, HashSet};
use frontdesk_process::memo::ByPointer;
use frontdesk_process::parallel::in_parallel;
use frontdesk_publish::media_type::media_type;

/// A link in a page, its front matter or the configuration.
#[derive(Debug)]
pub(super) struct LinkUse<'a> {
    pub place: &'a str,
    pub line: Option<usize>,
    pub target: &'a LinkTarget,
}

/// The result of the last check. A reload does not check the links of an unchanged page again if they were
/// intact and all paths and anchors are the same.
#[derive(Debug, Default)]
pub(super) struct LinkChecker {
    names: Option<ByPointer<PathRegistry>>,
    /// The anchors of each page, in the order of the pages.
    anchors: Vec<Arc<HashSet<Box<str>>>>,
    /// The facts of the bodies that had no broken link in the last check, by source file.
    intact: HashMap<String, Arc<BodyFacts>>,
}

impl LinkChecker {
    /// Checks the links of all pages, of their front matter, of the footer and of redirects, and returns a
    /// warning for each broken one. Skips unchanged bodies that the last check found intact, if all paths and
    /// anchors are the same. `pages` are the pages in the order of the structure; empty if they could not be
    /// laid out, so that their anchors are unknown and not checked.
    pub fn check(
        &mut self,
        structure: &Structure,
        bodies: &Bodies,
        pages: &[Arc<LaidOutPage>],
    ) -> Vec<Fault> {
        let names = Some(ByPointer(structure.names.clone()));
        let anchors: Vec<_> = pages.iter().map(|page| page.anchors.clone()).collect();
        if (&self.names, &self.anchors) != (&names, &anchors) {
            self.intact.clear();
        }
        let documents = structure.all().iter().map(|document| (&document.file, &bodies.of(document).facts));
        let of_bodies = documents.clone().flat_map(|(place, facts)| {
            let is_intact = self.intact.get(place).is_some_and(|known| Arc::ptr_eq(known, facts));
            let links = if is_intact { &[][..] } else { &facts.links };
            links.iter().map(move |(target, line)| LinkUse { place, line: Some(*line), target })
        });
        let of_matter = structure.all().iter().zip(&structure.links_of_matter);
        let of_matter = of_matter.flat_map(|(Document { file: place, .. }, links)| {
            links.iter().map(move |(target, line)| LinkUse { place, line: *line, target })
        });
        let footer = structure.links_of_footer.iter();
        let footer = footer.map(|target| LinkUse { place: "frontdesk.toml", line: None, target });
        let mut links: Vec<LinkUse<'_>> = of_bodies.chain(of_matter).chain(footer).collect();
        links.extend(redirect_links(&structure.redirects));
        let paths = structure.documents().iter().map(|document| document.path.as_str());
        let broken =
            check_links(&links, &structure.names, &paths.zip(anchors.iter().map(|ids| &**ids)).collect());
        let places: HashSet<&str> = broken.iter().map(|fault| fault.place.as_str()).collect();
        let intact = documents.filter(|(file, _)| !file.is_empty() && !places.contains(file.as_str()));
        self.intact = intact.map(|(file, facts)| (file.clone(), facts.clone())).collect();
        (self.names, self.anchors) = (names, anchors);
        broken
    }
}

/// The ids on each page, by the page's path.
pub(super) type Anchors<'a> = HashMap<&'a str, &'a HashSet<Box<str>>>;

/// Maximum number of missing paths for which similar paths are suggested. Each suggestion requires a
/// comparison with every path, and if more links than this are broken, typos are unlikely to be the cause.
const MOST_SUGGESTIONS: usize = 100;

/// The hint about a link to a file on the author's computer.
const LOCAL_FILE: &str =
    "visitors cannot open files on your computer: copy the file to assets/, and link to it there";

/// Returns a warning for each link to a missing path or anchor, in the order of `found`. `anchors` maps the
/// path of each page to the ids on the page. The hint about a missing path says why a file is not published,
/// or suggests a similar path; only the first [`MOST_SUGGESTIONS`] missing paths can get one. The hint about
/// a missing anchor suggests a similar one.
pub(super) fn check_links(found: &[LinkUse<'_>], names: &PathRegistry, anchors: &Anchors<'_>) -> Vec<Fault> {
    let chunks: Vec<&[LinkUse<'_>]> = found.chunks(1_000).collect();
    let broken = in_parallel(&chunks, |links| {
        let broken = links.iter().filter_map(|link| Some((link, check_link(link.target, names, anchors)?)));
        broken.collect::<Vec<_>>()
    });
    let mut paths: Option<Vec<&str>> = None;
    let mut suggested: HashMap<(&str, &str), Option<String>> = HashMap::default();
    let mut faults = Vec::new();
    for (LinkUse { place, line, target }, problem) in broken.into_iter().flatten() {
        let path = &*target.path;
        match problem {
            BrokenLink::MissingPath => {
                let (origin, written) = match &target.written {
                    Some(written) => (*place, &**written),
                    None => ("", path),
                };
                let enough = suggested.len() >= MOST_SUGGESTIONS;
                let hint = suggested.entry((origin, written)).or_insert_with(|| {
                    if is_local_file(written) {
                        return Some(LOCAL_FILE.to_owned());
                    }
                    if enough {
                        return None;
                    }
                    if let Some(exclusion) = names.find_exclusion(place, target) {
                        return Some(exclusion.to_string());
                    }
                    // The first of several equally similar paths is suggested, so sort them to make the
                    // suggestion deterministic.
                    let paths = paths.get_or_insert_with(|| {
                        let owned = names.owners.keys().filter(|path| !names.gone.contains(*path));
                        let mut paths: Vec<&str> = owned.map(String::as_str).collect();
                        paths.sort_unstable();
                        paths
                    });
                    let beside = || suggest_beside(place, target.written.as_deref()?, paths, names);
                    let anywhere = || closest_path(path, paths.iter().copied()).map(str::to_owned);
                    beside().or_else(anywhere).map(|known| format!("did you mean `{known}`?"))
                });
                let message = if media_type(path).starts_with("image/") {
                    format!("the image `{written}` does not exist")
                } else {
                    format!("the link to `{written}` is broken")
                };
                let fault = Fault::warning(*place, *line, message);
                faults.push(Fault { hint: hint.clone(), ..fault });
            }
            BrokenLink::MissingAnchor(fragment, anchors) => {
                let message = format!("there is no anchor `#{fragment}` on `{path}`");
                let mut anchors: Vec<&str> = anchors.iter().map(AsRef::as_ref).collect();
                anchors.sort_unstable();
                let fault = Fault::warning(*place, *line, message);
                let hint = closest(fragment, anchors).map(|known| format!("did you mean `#{known}`?"));
                faults.push(Fault { hint, ..fault });
            }
        }
    }
    faults
}

/// A correction for a broken relative link: the link with the most similar file name in the folder to which
/// the link leads. A page counts with the name of its source file. If a file in `static/` has just this name,
/// its path is the correction. `None` for other links, and if no name is similar. `place` is the file with
/// the link, and `paths` are all paths with an owner, except those of pages that were removed for good.
fn suggest_beside(place: &str, written: &str, paths: &[&str], names: &PathRegistry) -> Option<String> {
    let raw = percent_decoded(&written[..written.find(['?', '#']).unwrap_or(written.len())]);
    if raw.starts_with(['/', '@']) {
        return None;
    }
    let (above, name) = raw.split_at(raw.rfind('/').map_or(0, |at| at + 1));
    let folder = path::resolve_relative(&format!("/{place}"), &format!("./{above}"));
    let sources = folder.trim_start_matches('/');
    let files = path::public_path(sources);
    let files_here = paths.iter().filter_map(|path| {
        let owner = names.owner(path)?;
        let is_page = owner.ends_with(".md") || owner.ends_with(".markdown");
        if is_page { owner.strip_prefix(sources) } else { path.strip_prefix(&files) }
    });
    let meant = closest_path(name, files_here.filter(|name| !name.contains('/')))?;
    if meant == name {
        return Some(path::encode(&format!("{files}{meant}")).into_owned());
    }
    Some(format!("{above}{}", path::encode(meant)))
}

enum BrokenLink<'a> {
    MissingPath,
    /// The anchor that the page lacks, and the anchors that it has.
    MissingAnchor(&'a str, &'a HashSet<Box<str>>),
}

/// The reason a link is broken; `None` if its path exists and its page was not removed for good, and its
/// anchor exists or the page's anchors are unknown.
fn check_link<'a>(
    target: &'a LinkTarget,
    names: &PathRegistry,
    anchors: &Anchors<'a>,
) -> Option<BrokenLink<'a>> {
    let path = &*target.path;
    let there = anchors.get(path);
    if there.is_none() && (!names.has_path(path) || names.gone.contains(path)) {
        return Some(BrokenLink::MissingPath);
    }
    // Ignore a text directive, which begins with `:~:` (URL Fragment Text Directives). `#top` is valid
    // without a matching id (HTML).
    let fragment = target.fragment.as_deref()?;
    let passage = fragment.find(':').and_then(|_| fragment.find(":~:"));
    let fragment = &fragment[..passage.unwrap_or(fragment.len())];
    if fragment.is_empty() || fragment.eq_ignore_ascii_case("top") {
        return None;
    }
    let with_slash = || anchors.get(format!("{}/", path.trim_end_matches('/')).as_str());
    let anchors: &HashSet<Box<str>> = there.or_else(with_slash)?;
    (!anchors.contains(fragment)).then_some(BrokenLink::MissingAnchor(fragment, anchors))
}

/// Lists the targets of redirects as links, so that they are checked. Each names the file that defines it.
pub(super) fn redirect_links(redirects: &CompiledRedirects) -> Vec<LinkUse<'_>> {
    let links = redirects.targets.iter();
    links.map(|Placed { value: target, place, line }| LinkUse { place, line: *line, target }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::link_resolution::{LinkCatalog, LinkOrigin};
    use super::super::redirects::{RedirectOption, compile};
    use super::*;

    #[test]
    fn a_broken_link_is_reported_as_written_with_the_nearest_file() {
        let mut names = PathRegistry::default();
        for (path, owner) in [
            ("/", "pages/index.md"),
            ("/contact/", "pages/contact.md"),
            ("/contact.md", "pages/contact.md"),
            ("/blog/open/", "posts/2026-01-02-open.md"),
            ("/blog/glaze.png", "blog/glaze.png"),
            ("/assets/logo.svg", "assets/logo.svg"),
            ("/assets/two words.svg", "assets/two words.svg"),
        ] {
            names.claim(path, owner, None, &mut Vec::new());
        }
        let catalog = LinkCatalog::default();
        let place = LinkOrigin { file: "posts/2026-01-02-open.md", path: "/blog/open/" };
        for (link, expected) in [
            ("glase.png", "the image `glase.png` does not exist, did you mean `glaze.png`?"),
            ("glaze.png", "the image `glaze.png` does not exist, did you mean `/blog/glaze.png`?"),
            ("./Glaze.PNG", "the image `./Glaze.PNG` does not exist, did you mean `./glaze.png`?"),
            (
                "../pages/kontact.md",
                "the link to `../pages/kontact.md` is broken, did you mean `../pages/contact.md`?",
            ),
            (
                "2026-01-02-opem.md#a",
                "the link to `2026-01-02-opem.md#a` is broken, did you mean `2026-01-02-open.md`?",
            ),
            (
                "../assets/two%20word.svg",
                "the image `../assets/two%20word.svg` does not exist, did you mean `../assets/two%20words.svg`?",
            ),
            ("/contcat/", "the link to `/contcat/` is broken, did you mean `/contact/`?"),
            ("/assets/nope.png", "the image `/assets/nope.png` does not exist"),
            ("nothing.md", "the link to `nothing.md` is broken"),
            (
                "C:\\Users\\me\\glaze.png",
                "the image `C:\\Users\\me\\glaze.png` does not exist, visitors cannot open files on your computer: copy the file to assets/, and link to it there",
            ),
            (
                "file:///home/me/a.pdf",
                "the link to `file:///home/me/a.pdf` is broken, visitors cannot open files on your computer: copy the file to assets/, and link to it there",
            ),
            ("@/kontact.md", "the link to `@/kontact.md` is broken, did you mean `/contact.md`?"),
        ] {
            let target = catalog.resolve(place, link).target.expect("a link to this site");
            let used = [LinkUse { place: place.file, line: None, target: &target }];
            let faults = check_links(&used, &names, &HashMap::default());
            let [Fault { message, hint, .. }] = &faults[..] else { panic!("{link}: {faults:?}") };
            let hint = hint.as_deref().map(|hint| format!(", {hint}")).unwrap_or_default();
            assert_eq!(format!("{message}{hint}"), expected);
        }
    }

    #[test]
    fn a_broken_target_is_reported_where_its_redirect_is_defined() {
        let redirect = RedirectOption {
            from: "/a".into(),
            to: "/gone/".into(),
            status: 308,
            place: "other.toml".into(),
            line: Some(3),
        };
        let mut names = PathRegistry::default();
        let compiled = compile(&[redirect], &mut names, &mut Vec::new());
        let faults = check_links(&redirect_links(&compiled), &names, &HashMap::default());
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(faults, ["other.toml:3: the link to `/gone/` is broken"]);
    }
}
