//! Finds the parts of raw HTML that the content security policy blocks, and images without alternative text.

/// The beginnings of raw HTML that the content security policy blocks, each with a hint.
pub(super) const BLOCKED: [(&str, &str); 4] = [
    ("<script", "move the code to a file in assets/ and load it with `src`"),
    ("<style", "move the rules to theme/style.css"),
    (
        "<iframe",
        "link to the embedded page instead, or add its host to `frame` in `[security.allow]` in frontdesk.toml",
    ),
    (" style=", "give the element a class, and add a rule for the class to theme/style.css"),
];

/// Images, which the policy permits only from this site and permitted hosts, with a hint for authors.
pub(super) const BLOCKED_IMAGE: (&str, &str) = (
    "images",
    "copy the image to assets/, or add its host to `image` in `[security.allow]` in frontdesk.toml",
);
pub(super) const BLOCKED_SCRIPT: (&str, &str) = (
    "scripts",
    "copy the script to assets/, or add its host to `script` in `[security.allow]` in frontdesk.toml",
);

/// The `src` of each element in `html` that begins with `tag`, such as `<img`; `None` for an element without
/// one. Both arguments are in lower case, and a space separates attributes.
pub(super) fn element_sources<'a>(html: &'a str, tag: &'a str) -> impl Iterator<Item = Option<&'a str>> {
    html.match_indices(tag).map(move |(at, _)| {
        let element = html[at..].split('>').next()?;
        let (_, value) = element.split_once(" src=")?;
        match value.strip_prefix(['"', '\'']) {
            Some(quoted) => quoted.split(['"', '\'']).next(),
            None => value.split_ascii_whitespace().next(),
        }
    })
}

/// Whether an `img` element in the HTML has no `alt` attribute.
pub(super) fn has_image_without_alternative(html: &str) -> bool {
    let lower = html.to_ascii_lowercase();
    let mut tags = lower.match_indices("<img").map(|(at, _)| &lower[at..]);
    tags.any(|tag| {
        let tag = &tag[..tag.find('>').unwrap_or(tag.len())];
        let is_image = tag[4..].starts_with(|c: char| c.is_whitespace() || c == '/');
        is_image
            && !tag
                .split(|c: char| c.is_whitespace() || c == '/')
                .any(|name| name == "alt" || name.starts_with("alt="))
    })
}
