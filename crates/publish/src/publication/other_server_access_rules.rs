//! Finds the rules in configurations of other servers that restrict access to files. Without these rules, the
//! files would be public.

use std::path::Path;

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

/// Configurations at the root of a build, or of `static/`, that may have access rules, in lower case.
#[rustfmt::skip]
const AT_ROOT: [&str; 8] = [
    "_harp.json", "auth", "harp.json", "netlify.toml", "routes.json", "static.json", "staticfile.auth",
    "staticwebapp.config.json",
];

/// Whether a file of this name may have access rules. `is_root` says that it is at the root of a build or of
/// `static/`. Ignores case, except that Surge reads only `AUTH` in capitals.
pub(crate) fn may_restrict_access(name: &str, is_root: bool) -> bool {
    let lower = name.to_ascii_lowercase();
    matches!(&*lower, ".htaccess" | "web.config")
        || is_root && AT_ROOT.contains(&&*lower) && (lower != "auth" || name == "AUTH")
}

/// The first rule that restricts access in a configuration that [`may_restrict_access`] recognizes by its
/// name. `exists` says whether a file or folder with this path relative to the configuration is there; a path
/// may leave out `.html`. Ignores files that cannot be parsed and, except in `AUTH`, `netlify.toml` and
/// `.htaccess`, rules for paths without files.
pub(crate) fn find_access_rule(name: &str, text: &str, exists: impl Fn(&str) -> bool) -> Option<AccessRule> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let exists = |path: &str| matches!(path, "" | ".") || exists(path) || exists(&format!("{path}.html"));
    match &*name.to_ascii_lowercase() {
        ".htaccess" => in_htaccess(text),
        "web.config" => in_web_config(text, exists),
        // Cloud Foundry asks for the passwords of `name:password`. In a file for Surge, `/path who` may also
        // restrict access to a path.
        "auth" | "staticfile.auth" => in_lines(text, |line| {
            let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let is_path = first.starts_with('/') && !rest.is_empty();
            let is_login = first.split_once(':').is_some_and(|(name, password)| {
                !name.is_empty() && !name.contains(['#', '/', '<', '{']) && !password.starts_with("//")
            });
            (is_path || is_login && rest.is_empty()).then_some("login")
        }),
        "harp.json" | "_harp.json" | "static.json" => {
            let settings: Value = serde_json::from_str(text).ok()?;
            let is_set = |key: &&str| !matches!(settings[key], Value::Null | Value::Bool(false));
            let key = ["basicAuth", "basic_auth"].into_iter().find(is_set)?;
            Some(AccessRule { line: line_of(text, key), text: key.to_owned() })
        }
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

/// Whether `folder` has a file or folder with this relative path. Ignores the case of ASCII letters, as IIS
/// does.
pub(crate) fn has_entry(folder: &Path, path: &str) -> bool {
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut named = entries.filter(|entry| entry.file_name().eq_ignore_ascii_case(name));
    named.any(|entry| rest.is_empty() || has_entry(&entry.path(), rest))
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

/// The 1-based line of the first member `key` in JSON.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let at = text.find(&format!("\"{key}\""))?;
    Some(text[..at].matches('\n').count() + 1)
}

/// The first rule of IIS or ASP.NET that refuses anonymous visitors, or all addresses but some, for GET
/// requests. Rules that refuse single users, roles or addresses, and rules in a `<location>` without files,
/// do not count. Neither does `<deny>` after `<allow users="*">`: ASP.NET applies the first rule that
/// matches.
fn in_web_config(text: &str, exists: impl Fn(&str) -> bool) -> Option<AccessRule> {
    // `removed` is the position of a tag that removes the rule which permits all users, unless a later tag
    // permits them again.
    let (mut has_files, mut is_open, mut removed) = (true, false, None);
    for (at, tag) in tags_of(text) {
        let value = |key: &str| attribute(&tag, key).unwrap_or_default();
        let has = |list: &str, names: &[&str]| list.split(',').any(|name| names.contains(&name.trim()));
        let is_for_all =
            || has(value("users"), &["*", "?"]) && has(&value("verbs").to_lowercase(), &["", "*", "get"]);
        let is = |key: &str, expected: &str| value(key).eq_ignore_ascii_case(expected);
        let name = tag.split(' ').next().unwrap_or_default().trim_end_matches('/').to_ascii_lowercase();
        let rule = match &*name {
            "location" => {
                has_files = exists(value("path").trim_matches('/'));
                None
            }
            "/location" => {
                has_files = true;
                None
            }
            "authorization" => {
                (is_open, removed) = (false, None);
                None
            }
            // IIS has a server-wide rule that permits all users, until a configuration removes it.
            "clear" | "remove" if name == "clear" || has(value("users"), &["*"]) => {
                removed = Some(at);
                None
            }
            "allow" if is_for_all() => {
                is_open = true;
                None
            }
            "add" if is("accessType", "allow") && is_for_all() => {
                removed = None;
                None
            }
            "/authorization" => removed.take().map(|at| (at, "authorization")),
            "add" if is("accessType", "deny") && is_for_all() => Some((at, "deny users")),
            "deny" if !is_open && is_for_all() => Some((at, "deny users")),
            "ipsecurity" if is("allowUnlisted", "false") => Some((at, "ipSecurity")),
            "anonymousauthentication" if is("enabled", "false") => Some((at, "anonymousAuthentication")),
            _ => None,
        };
        if let Some((at, rule)) = rule.filter(|_| has_files) {
            return Some(AccessRule::new(text[..at].matches('\n').count(), rule));
        }
    }
    None
}

/// The tags of XML outside of comments, without angle brackets, and their positions in bytes. White space is
/// one space between attributes and none around `=`, and values are in double quotes.
fn tags_of(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        loop {
            let at = next + text[next..].find('<')?;
            let is_comment = text[at..].starts_with("<!--");
            let end = at + text[at..].find(if is_comment { "-->" } else { ">" })?;
            next = end + 1;
            if !is_comment {
                let words: Vec<&str> = text[at + 1..end].split_whitespace().collect();
                return Some((at, words.join(" ").replace(" =", "=").replace("= ", "=").replace('\'', "\"")));
            }
        }
    })
}

/// The value of the attribute `key` of a tag from [`tags_of`]. The case of the name does not matter.
fn attribute<'a>(tag: &'a str, key: &str) -> Option<&'a str> {
    let key = format!(" {}=\"", key.to_ascii_lowercase());
    let start = tag.to_ascii_lowercase().find(&key)? + key.len();
    tag[start..].split('"').next()
}

/// The first restriction in the configuration of Azure Static Web Apps: a route for GET requests that some
/// roles may use and anonymous visitors may not, if it has files, or permitted addresses.
fn in_static_web_app(text: &str, exists: impl Fn(&str) -> bool) -> Option<AccessRule> {
    let settings: Value = serde_json::from_str(text).ok()?;
    if settings["networking"]["allowedIpRanges"].is_array() {
        let line = line_of(text, "allowedIpRanges");
        return Some(AccessRule { line, text: "allowedIpRanges".to_owned() });
    }
    let has = |list: &Value, text: &str| list.as_array().is_some_and(|list| list.iter().any(|it| it == text));
    settings["routes"].as_array()?.iter().find_map(|rule| {
        let route = rule["route"].as_str()?;
        let path = route.split('*').next().unwrap_or_default().trim_matches('/');
        let is_restricted = rule["allowedRoles"].is_array() && !has(&rule["allowedRoles"], "anonymous");
        let is_for_pages = rule["methods"].is_null() || has(&rule["methods"], "GET");
        (is_restricted && is_for_pages && exists(path))
            .then(|| AccessRule { line: line_of(text, route), text: format!("allowedRoles of {route}") })
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
            ("netlify.toml", "[[headers]]\n  Basic-Auth = \"a:b\"", Some((2, "Basic-Auth"))),
            ("netlify.toml", "conditions = {Role = [\"a\"]}", Some((1, "Role"))),
            ("netlify.toml", "# Role\nconditions = {Country = [\"de\"]}", None),
        ] {
            assert_eq!(find(name, text), expected.map(|(line, text)| (line, text.to_owned())), "{text}");
        }
    }
    #[test]
    fn rules_of_iis_and_asp_net_that_refuse_visitors_are_found() {
        let removed = "<authorization>\n<remove users='*' roles='' verbs='' />";
        for (text, expected) in [
            ("<a>\n <deny users=\"?\" />", Some((2, "deny users"))),
            ("<authorization><deny verbs = 'GET,HEAD'\n users = 'ada, *' />", Some((1, "deny users"))),
            ("<authorization><allow roles='a'/><deny users='*'/>", Some((1, "deny users"))),
            ("<authorization><allow users='*'/><deny users='*'/>", None),
            ("<deny users='ada' />", None),
            ("<deny users='*' verbs='TRACE' />", None),
            ("<add accessType=\"Deny\" users=\"?\" />", Some((1, "deny users"))),
            ("<add accessType=\"Deny\" users=\"ada\" />", None),
            ("<!-- <deny users=\"?\" /> -->", None),
            ("<location path='Old'><deny users='?'/></location>\n<deny users='?'/>", Some((2, "deny users"))),
            ("<location path='members'><deny users='?'/></location>", Some((1, "deny users"))),
            ("<location path='team'><deny users='?'/></location>", Some((1, "deny users"))),
            (
                &format!("{removed}<add accessType='Allow' users='' roles='a' /></authorization>"),
                Some((2, "authorization")),
            ),
            ("<authorization>\n<clear/></authorization>", Some((2, "authorization"))),
            (&format!("{removed}<add accessType='Allow' users='?' /></authorization>"), None),
            ("<authorization><add accessType='Allow' roles='a' /></authorization>", None),
            ("<files><clear /></files><authorization></authorization>", None),
            ("<ipSecurity allowUnlisted=\"false\">", Some((1, "ipSecurity"))),
            ("<ipSecurity><add ipAddress='192.0.2.1' allowed='false' /></ipSecurity>", None),
            ("<anonymousAuthentication enabled=\"False\" />", Some((1, "anonymousAuthentication"))),
            ("<staticContent />", None),
        ] {
            let expected = expected.map(|(line, text)| (line, text.to_owned()));
            assert_eq!(find("web.config", text), expected, "{text}");
        }
    }

    #[test]
    fn files_are_found_in_any_case() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("members")).expect("a folder");
        std::fs::write(folder.path().join("members/index.html"), "x").expect("it is written");
        for (path, expected) in
            [("Members", true), ("MEMBERS/Index.html", true), ("member", false), ("members/a", false)]
        {
            assert_eq!(has_entry(folder.path(), path), expected, "{path}");
        }
        let text = "<location path=\"Members\"><deny users=\"?\"/></location>";
        let rule = find_access_rule("web.config", text, |path| has_entry(folder.path(), path));
        assert_eq!(rule, Some(AccessRule { line: Some(1), text: "deny users".to_owned() }));
    }

    #[test]
    fn logins_of_surge_cloud_foundry_heroku_and_harp_are_found() {
        for (name, text, expected) in [
            ("AUTH", "# who\nada:secret\n", Some((2, "login"))),
            ("AUTH", "/admin/*   jane@example.com", Some((1, "login"))),
            ("AUTH", "https://example.com\n#a:b\n", None),
            ("AUTH", "<p>Note: see https://example.com</p>\na { color: red }", None),
            ("Staticfile.auth", "ada:$apr1$x$y/z.", Some((1, "login"))),
            ("static.json", "{\n\"basic_auth\": true}", Some((2, "basic_auth"))),
            ("static.json", "{\"basic_auth\": false}", None),
            ("_harp.json", "{\"basicAuth\": [\"a:b\"]}", Some((1, "basicAuth"))),
            ("harp.json", "{\"globals\": {}}", None),
            (
                "routes.json",
                "{\"routes\": [{\"route\": \"/team\", \"allowedRoles\": [\"a\"]}]}",
                Some((1, "allowedRoles of /team")),
            ),
            ("routes.json", "{\"routes\": [{\"name\": \"Line 5\"}]}", None),
        ] {
            assert_eq!(find(name, text), expected.map(|(line, text)| (line, text.to_owned())), "{text}");
        }
        for (name, expected) in [("AUTH", true), ("auth", false), ("Web.config", true), ("a.json", false)] {
            assert_eq!(may_restrict_access(name, true), expected, "{name}");
        }
        assert!(!may_restrict_access("static.json", false), "it counts at the root only");
    }
}
