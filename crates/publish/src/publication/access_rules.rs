//! Finds the rules in configurations of other servers that restrict access to files. Without these rules, the
//! files would be public.

use serde_json::Value;

/// A rule that restricts access.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AccessRule {
    pub line: Option<usize>,
    /// The rule, such as `Require valid-user`, without passwords.
    pub text: String,
}

impl AccessRule {
    fn new(line: usize, text: &str) -> Self {
        Self { line: Some(line + 1), text: text.to_owned() }
    }
}

/// Whether a file of this name, in lower case, may have access rules. `is_root` says that it is at the root
/// of a build or of `static/`.
pub(crate) fn may_restrict_access(name: &str, is_root: bool) -> bool {
    matches!(name, ".htaccess" | "web.config")
        || is_root && matches!(name, "staticwebapp.config.json" | "netlify.toml")
}

/// The first rule in the configuration `name`, in lower case, that restricts access. `exists` says whether
/// a file or folder with this path relative to the configuration is there. Ignores files that cannot be
/// parsed, and rules for paths without files.
pub(crate) fn find_access_rule(name: &str, text: &str, exists: impl Fn(&str) -> bool) -> Option<AccessRule> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match name {
        ".htaccess" => in_htaccess(text),
        "web.config" => in_lines(text, |line| {
            let line = line.to_ascii_lowercase();
            let denies = line.starts_with("<deny users=") || line.contains("accesstype=\"deny\"");
            denies.then_some("deny users")
        }),
        "netlify.toml" => in_lines(text, |line| {
            let (key, value) = line.split_once('=')?;
            match key.trim().trim_matches(['"', '\'']) {
                "Basic-Auth" => Some("Basic-Auth"),
                "Role" => Some("Role"),
                "conditions" if value.contains("Role") => Some("Role"),
                _ => None,
            }
        }),
        _ => in_static_web_app(text, exists),
    }
}

/// The first line with a rule. `rule_of` names the rule in a trimmed line, without its value, which may be a
/// password.
fn in_lines(text: &str, rule_of: impl Fn(&str) -> Option<&'static str>) -> Option<AccessRule> {
    text.lines().enumerate().find_map(|(at, line)| Some(AccessRule::new(at, rule_of(line.trim())?)))
}

/// Apache sections that limit their directives to some files, requests or methods, or negate them.
const NARROW_SECTIONS: [&str; 8] =
    ["else", "elseif", "files", "filesmatch", "if", "limit", "limitexcept", "requirenone"];

/// The first directive of Apache that asks for a login, or that refuses or limits access to the whole
/// folder. Sections for some files or methods often refuse what should not be there, such as backups, so only
/// a login counts in them. Rules that block single visitors or programs (`Require not`, `Deny from` an
/// address) do not count.
fn in_htaccess(text: &str) -> Option<AccessRule> {
    let mut narrow = 0_usize;
    for (at, line) in text.lines().map(str::trim).enumerate() {
        let lower = line.to_ascii_lowercase();
        let is_narrow = |tag: &str| {
            let name = tag.split(|c: char| !c.is_ascii_alphabetic()).next();
            name.is_some_and(|name| NARROW_SECTIONS.contains(&name))
        };
        if lower.strip_prefix("</").is_some_and(is_narrow) {
            narrow = narrow.saturating_sub(1);
        } else if lower.strip_prefix('<').is_some_and(is_narrow) {
            narrow += 1;
        }
        let mut words = lower.split_whitespace();
        let is_rule = match (words.next(), words.next(), words.next()) {
            (Some("require"), Some(kind), what) => match kind {
                "all" => what == Some("denied") && narrow == 0,
                "ip" | "host" | "local" => narrow == 0,
                "not" | "env" | "expr" | "method" | "ssl" | "forward-dns" => false,
                _ => true,
            },
            (Some("deny"), Some("from"), Some("all")) => narrow == 0,
            _ => false,
        };
        if is_rule {
            return Some(AccessRule::new(at, line));
        }
    }
    None
}

/// The first restriction in the configuration of Azure Static Web Apps: a route for GET requests that some
/// roles may use and anonymous visitors may not, if it has files, or permitted addresses.
fn in_static_web_app(text: &str, exists: impl Fn(&str) -> bool) -> Option<AccessRule> {
    let settings: Value = serde_json::from_str(text).ok()?;
    let line_of = |key: &str| {
        let at = text.find(&format!("\"{key}\""))?;
        Some(text[..at].matches('\n').count() + 1)
    };
    if settings["networking"]["allowedIpRanges"].is_array() {
        return Some(AccessRule { line: line_of("allowedIpRanges"), text: "allowedIpRanges".to_owned() });
    }
    let has = |list: &Value, text: &str| list.as_array().is_some_and(|list| list.iter().any(|it| it == text));
    settings["routes"].as_array()?.iter().find_map(|rule| {
        let route = rule["route"].as_str()?;
        let path = route.split('*').next().unwrap_or_default().trim_matches('/');
        let is_restricted = rule["allowedRoles"].is_array() && !has(&rule["allowedRoles"], "anonymous");
        let is_for_pages = rule["methods"].is_null() || has(&rule["methods"], "GET");
        let is_here = || path.is_empty() || exists(path) || exists(&format!("{path}.html"));
        (is_restricted && is_for_pages && is_here())
            .then(|| AccessRule { line: line_of(route), text: format!("allowedRoles of {route}") })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str, text: &str) -> Option<(usize, String)> {
        let exists = |path: &str| matches!(path, "members" | "team.html");
        find_access_rule(name, text, exists).map(|rule| (rule.line.expect("a line"), rule.text))
    }

    #[test]
    fn rules_of_apache_that_restrict_access_are_found() {
        for (text, expected) in [
            ("AuthType Basic\nAuthUserFile /x\nRequire valid-user\n", Some((3, "Require valid-user"))),
            ("<Files secret.html>\n  require user ada\n</Files>", Some((2, "require user ada"))),
            ("Require ldap-group cn=a", Some((1, "Require ldap-group cn=a"))),
            ("Order deny,allow\nDeny from all\nAllow from 10.0.0.0/8", Some((2, "Deny from all"))),
            ("<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>", Some((2, "Require all denied"))),
            ("<RequireAny>\nRequire ip 10.0.0.0/8\n</RequireAny>", Some((2, "Require ip 10.0.0.0/8"))),
            (
                "<FilesMatch \"^\\.\">\nRequire all denied\n</FilesMatch>\nDeny from all",
                Some((4, "Deny from all")),
            ),
            ("<FilesMatch \"\\.bak$\">\nOrder allow,deny\nDeny from all\n</FilesMatch>", None),
            ("<If \"%{HTTPS} == 'on'\">\nDeny from all\n</If>\nRequire local", Some((4, "Require local"))),
            ("<LimitExcept GET POST>\nRequire all denied\n</LimitExcept>", None),
            ("<RequireAll>\nRequire all granted\nRequire not ip 192.0.2.1\n</RequireAll>", None),
            ("Order allow,deny\nAllow from all\nDeny from 192.0.2.1", None),
            ("# Require valid-user\nAuthType None\nRequire all granted\nRewriteEngine On", None),
        ] {
            assert_eq!(
                find(".htaccess", text),
                expected.map(|(line, text)| (line, text.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn routes_with_roles_are_found_if_they_have_files() {
        for (text, expected) in [
            (
                r#"{"route": "/members/*", "allowedRoles": ["authenticated"]}"#,
                Some("allowedRoles of /members/*"),
            ),
            (r#"{"route": "/team", "allowedRoles": ["a", "b"]}"#, Some("allowedRoles of /team")),
            (r#"{"route": "/*", "allowedRoles": ["a"], "methods": ["GET"]}"#, Some("allowedRoles of /*")),
            (r#"{"route": "/*", "allowedRoles": ["a"], "methods": ["PUT", "POST"]}"#, None),
            (r#"{"route": "/*", "allowedRoles": ["anonymous", "authenticated"]}"#, None),
            (r#"{"route": "/api/*", "allowedRoles": ["authenticated"]}"#, None),
            (r#"{"route": "/.auth/login/github", "statusCode": 404}"#, None),
        ] {
            let text = format!("{{\n\"routes\": [\n{text}]}}");
            let expected = expected.map(|rule| (3, rule.to_owned()));
            assert_eq!(find("staticwebapp.config.json", &text), expected, "{text}");
        }
        let networks = "\u{feff}{\"networking\": {\"allowedIpRanges\": [\"10.0.0.0/8\"]}}";
        assert_eq!(find("staticwebapp.config.json", networks), Some((1, "allowedIpRanges".to_owned())));
        assert_eq!(find("staticwebapp.config.json", "{\"globalHeaders\": {}}"), None);
        assert_eq!(find("staticwebapp.config.json", "not JSON"), None);
    }

    #[test]
    fn rules_of_other_servers_are_found() {
        for (name, text, expected) in [
            ("web.config", "<a>\n <deny users=\"?\" />", Some((2, "deny users"))),
            ("web.config", "<add accessType=\"Deny\" users=\"?\" />", Some((1, "deny users"))),
            ("web.config", "<!-- <deny users=\"?\" /> -->", None),
            ("web.config", "<staticContent />", None),
            ("netlify.toml", "[[headers]]\n  Basic-Auth = \"a:b\"", Some((2, "Basic-Auth"))),
            ("netlify.toml", "conditions = {Role = [\"a\"]}", Some((1, "Role"))),
            ("netlify.toml", "# Role\nconditions = {Country = [\"de\"]}", None),
        ] {
            assert_eq!(find(name, text), expected.map(|(line, text)| (line, text.to_owned())), "{text}");
        }
    }
}
