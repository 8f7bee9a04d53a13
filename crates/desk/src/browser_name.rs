//! Describes a browser by its `User-Agent` header, in words that its owner recognizes.

/// Browsers by a part of their `User-Agent`. The first match counts, because the header of a browser may also
/// contain the parts of those below it.
const BROWSERS: [(&str, &str); 9] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Vivaldi/", "Vivaldi"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];

/// Operating systems, each with a text that identifies it in the `User-Agent`. The first match counts.
const SYSTEMS: [(&str, &str); 7] = [
    ("iPhone", "an iPhone"),
    ("iPad", "an iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "a Mac"),
    ("Linux", "Linux"),
];

/// Returns a browser and, if known, its system, such as `Firefox on Linux`; `An unknown browser` for another
/// client. Never contains text from the header.
pub(super) fn describe_client(agent: &str) -> String {
    let find =
        |names: &[(&str, &'static str)]| names.iter().find(|(part, _)| agent.contains(part)).map(|it| it.1);
    let browser = find(&BROWSERS).unwrap_or("An unknown browser");
    find(&SYSTEMS).map_or_else(|| browser.to_owned(), |system| format!("{browser} on {system}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_described_in_words() {
        let check = |agent: &str, expected: &str| assert_eq!(describe_client(agent), expected, "{agent}");
        check("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "Firefox on Linux");
        check(
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0",
            "Edge on Windows",
        );
        check(
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
            "Safari on an iPhone",
        );
        check(
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36",
            "Chrome on Android",
        );
        check("curl/8.14.1", "An unknown browser");
        check("<b>\r\nLinux", "An unknown browser on Linux");
        check("", "An unknown browser");
    }
}
