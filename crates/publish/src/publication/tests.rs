//! Tests of the rules, each as a table, and of whole sites.

use super::*;

#[test]
fn names_decide_what_is_published() {
    let alone = Siblings::default();
    let beside = Siblings::from_names(["index.html", "Frontdesk.TOML", "package.json"].into_iter());
    for (name, siblings, expected) in [
        ("index.html", alone, None),
        ("a.b.c", alone, None),
        (".env", alone, Some(ExclusionReason::Hidden)),
        (".htpasswd", alone, Some(ExclusionReason::Hidden)),
        (".#x", alone, Some(ExclusionReason::Hidden)),
        (".well-known", alone, None),
        ("x~", alone, Some(ExclusionReason::Leftover)),
        ("#x#", alone, Some(ExclusionReason::Leftover)),
        ("#x", alone, None),
        ("index.html.bak", alone, Some(ExclusionReason::Leftover)),
        ("index.html.ORIG", alone, Some(ExclusionReason::Leftover)),
        ("x.swp", alone, Some(ExclusionReason::Leftover)),
        ("x.swo", alone, Some(ExclusionReason::Leftover)),
        ("x.old", alone, Some(ExclusionReason::Leftover)),
        ("x.rej", alone, Some(ExclusionReason::Leftover)),
        ("x.tmp", alone, Some(ExclusionReason::Leftover)),
        ("b.sqlite.partial", alone, Some(ExclusionReason::Leftover)),
        ("Thumbs.db", alone, Some(ExclusionReason::Leftover)),
        ("a.sync-conflict-20240101-120000-ABCDEFG.md", alone, Some(ExclusionReason::Leftover)),
        ("a (Ada's conflicted copy 2026-01-01).md", alone, Some(ExclusionReason::Leftover)),
        ("a (Conflicted Copy 2026-01-01 120000).pdf", alone, Some(ExclusionReason::Leftover)),
        ("how to remove a conflicted copy.md", alone, None),
        ("bold.html", alone, None),
        ("backup", alone, None),
        ("frontdesk.toml", alone, Some(ExclusionReason::Configuration)),
        ("FRONTDESK.TOML", alone, Some(ExclusionReason::Configuration)),
        ("frontdesk.toml.2026", alone, Some(ExclusionReason::Configuration)),
        ("frontdesk.toml.bak", alone, Some(ExclusionReason::Leftover)),
        ("netlify.toml", alone, None),
        ("netlify.toml", beside, Some(ExclusionReason::Configuration)),
        ("prod.env", alone, Some(ExclusionReason::Configuration)),
        ("web.config", alone, Some(ExclusionReason::Configuration)),
        ("a.p12", alone, Some(ExclusionReason::KeyFile)),
        ("a.PFX", alone, Some(ExclusionReason::KeyFile)),
        ("inbox.sqlite", alone, Some(ExclusionReason::Database)),
        ("inbox.sqlite3", alone, Some(ExclusionReason::Database)),
        ("inbox.sqlite-wal", alone, Some(ExclusionReason::Database)),
        ("inbox.SQLite.gz", alone, Some(ExclusionReason::Database)),
        ("inbox.sqlite.before-restore-2026", alone, Some(ExclusionReason::Database)),
        ("book.sqlite3.html", alone, None),
        ("sqlite.css", alone, None),
        // Other databases are recognized by their content.
        ("a.db", alone, None),
        ("wp-config.php", alone, Some(ExclusionReason::ServerCode)),
        ("x.phtml", alone, Some(ExclusionReason::ServerCode)),
        ("package.json", beside, None),
        ("node_modules", beside, None),
    ] {
        assert_eq!(exclusion_by_name(name, false, siblings), expected, "{name}");
    }
    for (name, siblings, expected) in [
        (".git", alone, Some(ExclusionReason::Hidden)),
        (".well-known", alone, None),
        ("node_modules", alone, None),
        ("node_modules", beside, Some(ExclusionReason::Packages)),
        ("x.bak", alone, None),
        ("x.sqlite", alone, None),
    ] {
        assert_eq!(exclusion_by_name(name, true, siblings), expected, "{name}/");
    }
}

#[test]
fn modes_decide_if_they_differ_from_those_of_the_pages() {
    for (audience, published, private) in [
        (Audience::Others, &[0o644, 0o604, 0o444][..], &[0o640, 0o600, 0o660, 0][..]),
        (Audience::Group, &[0o640, 0o644, 0o604, 0o440], &[0o600, 0o400]),
        (Audience::Owner, &[0o600, 0o644], &[]),
    ] {
        for mode in published {
            assert!(audience.includes(*mode), "{audience:?} {mode:o}");
        }
        for mode in private {
            assert!(!audience.includes(*mode), "{audience:?} {mode:o}");
        }
    }
    // The first page is the home page.
    for (pages, expected) in [
        (&[][..], Audience::Others),
        (&[0o644], Audience::Others),
        (&[0o644, 0o600, 0o600, 0o640], Audience::Others),
        (&[0o600, 0o644, 0o644], Audience::Others),
        (&[0o600, 0o644], Audience::Others),
        (&[0o640, 0o644, 0o640], Audience::Group),
        (&[0o640, 0o600, 0o600], Audience::Group),
        (&[0o600, 0o640], Audience::Group),
        (&[0o600, 0o644, 0o600], Audience::Owner),
        (&[0o600, 0o400], Audience::Owner),
    ] {
        let found = Audience::of_pages(pages.iter().enumerate().map(|(index, mode)| (*mode, index == 0)));
        assert_eq!(found, expected, "{pages:?}");
    }
    for (folders, expected) in [
        (&[0o755, 0o711][..], 0o444),
        (&[0o755, 0o750], 0o440),
        (&[0o750, 0o755], 0o440),
        (&[0o700], 0o400),
        (&[0o750, 0o705], 0o400),
        (&[0o744], 0o400),
        (&[], 0o444),
    ] {
        let readers = folders.iter().fold(0o444, |readers, folder| restrict_readers(readers, *folder));
        assert_eq!(readers, expected, "{folders:?}");
    }
}

#[test]
fn an_exclusion_says_why_and_how_to_publish_the_file() {
    let check = |name: &str, reason, expected: &str| {
        let exclusion = Exclusion { path_in_site: name.into(), path: String::new(), reason };
        assert_eq!(exclusion.to_string(), expected);
    };
    check(
        "key.pem",
        ExclusionReason::Private("`tls.key` names it".into()),
        "key.pem is not published: `tls.key` names it",
    );
    check(
        "leads.csv",
        ExclusionReason::Content(ContentMark::Export),
        "leads.csv is not published: it is an export of submissions",
    );
    check(
        "a.db",
        ExclusionReason::Content(ContentMark::Database),
        "a.db is not published: it is a SQLite database; `publish = [\"a.db\"]` in [site] publishes it",
    );
    check(
        "node_modules/",
        ExclusionReason::Packages,
        "node_modules/ is not published: it contains installed packages (`node_modules` beside a `package.json`); \
         `publish = [\"node_modules/**\"]` in [site] publishes it",
    );
    check(
        "a.txt",
        ExclusionReason::Mode(0o100_640),
        "a.txt is not published: fewer users of this machine may read it (mode 0640) than the pages; to publish it, \
         give all who may read the pages access to it and to the folders above it, or write `publish = [\"a.txt\"]` in [site]",
    );
}

#[test]
fn an_entry_without_effect_is_a_warning() {
    let check = |entries: &[&str], expected: &[&str]| {
        let value = entries.iter().map(|entry| (*entry).to_owned()).collect();
        let publish = Some(Placed { value, place: "frontdesk.toml".into(), line: Some(7) });
        let options = PublicationOptions { private: Vec::new(), publish };
        let mut publication = Publication::new(&options);
        for name in ["a.db", "x/", "x/b.db", "static/c.db", ".git/"] {
            publication.lists(name);
        }
        let private = || ExclusionReason::Private("`tls.key` names it".into());
        publication.lists("key.pem");
        publication.exclude("key.pem".into(), "/key.pem".into(), private());
        publication.exclude("data/".into(), "/data/".into(), private());
        let mut faults = Vec::new();
        publication.finish(&mut faults);
        let said: Vec<String> = faults.iter().map(|fault| format!("{fault}")).collect();
        assert_eq!(said.len(), expected.len(), "{entries:?}: {said:?}");
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.starts_with(&format!("frontdesk.toml:7: `site.publish`: {expected}")), "{said}");
        }
    };
    check(&["a.db", "x/*.db", "c.db", "static/c.db", "**", "x/"], &[]);
    check(
        &["b.db", ".git/config"],
        &[
            "no file that can be published matches `b.db`",
            "no file that can be published matches `.git/config`",
        ],
    );
    check(&["key.pem"], &["`key.pem` cannot be published: `tls.key` names it"]);
    check(&["*.pem"], &[]);
    let folder = "`data/` cannot be published: `tls.key` names it";
    check(&["data/a.txt", "data/*.txt", "data/"], &[folder, folder, folder]);
}
