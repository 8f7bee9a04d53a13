//! Submissions to forms that are not configured any more, or whose definition has changed.

use super::*;
use frontdesk_forms::definition::FormFile;

/// A definition of the form `book` whose first field has this label.
fn book(label: &str) -> &'static Form {
    let text = format!(
        "title = \"Book a demo\"\ndescription = \"Choose a day.\"\nsubmit = \"Book\"\n\
         [[field]]\nname = \"work\"\ntype = \"email\"\nlabel = \"{label}\"\nrequired = true\n\
         [[field]]\nname = \"floor\"\ntype = \"number\"\nlabel = \"Floor\"\nmin = -3\nmax = 20\n"
    );
    FormFile::read("book", &text, "forms/book.toml").unwrap().form
}

#[test]
fn a_removed_form_is_listed_shown_and_exported_as_it_was() {
    let inbox = Inbox::with(&[
        (&WAITLIST, r#"{"email":"a@example.com"}"#),
        (book("Work e-mail"), r#"{"work":"b@example.com","floor":3}"#),
        (book("Your address"), r#"{"work":"c@example.com","floor":-2}"#),
    ]);
    let lines = |arguments: &str| -> Vec<Value> {
        inbox.run(arguments).1.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let found = lines("list --json --form book");
    assert_eq!(found.len(), 2);
    assert_eq!((&found[1]["work"], &found[1]["floor"]), (&"b@example.com".into(), &3.into()));
    assert_eq!(lines("list --json --form never-used").len(), 0);
    let show = |found: &Value| inbox.run(&format!("show {}", found["id"].as_str().unwrap())).1;
    let first = show(&found[1]);
    assert!(first.contains("\nWork e-mail  b@example.com\nFloor        3\n"), "{first}");
    assert!(show(&found[0]).contains("\nYour address  c@example.com\n"), "{}", show(&found[0]));
    let (_, table, _) = inbox.run("list --form book");
    assert!(table.contains("b@example.com") && table.contains("c@example.com"), "{table}");
    let (_, csv, _) = inbox.run("export --csv");
    let mut rows = csv.lines().map(|line| line.trim_start_matches('\u{feff}').trim_end());
    let header = rows.next().unwrap();
    assert!(
        header.starts_with("id,form,received_at,status,email,")
            && header.contains(",company,work,floor,lead_page,"),
        "{csv}"
    );
    assert!(rows.next().unwrap().contains(",c@example.com,-2,"), "{csv}");
    assert!(rows.next().unwrap().contains(",b@example.com,3,"), "{csv}");
}
