//! Tests of the Maildir channel, including the files that an interrupted attempt leaves behind.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::notification::Topic;

const NAME: &str = "1795183385.01940000-0000-7000-8000-000000000001-submission.example.com";

#[tokio::test]
async fn a_message_is_a_file_that_only_its_owner_can_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mail/desk");
    create_parents(&path).expect("the folders are created");
    assert_eq!(send(&path, &notice()).await, Outcome::Delivered(format!("{NAME} is in new/")));

    let file = path.join("new").join(NAME);
    let message = mail::compose(&addresses("desk@example.com"), &notice());
    let message = String::from_utf8(message).expect("it is ASCII").replace("\r\n", "\n");
    assert_eq!(fs::read_to_string(&file).expect("the file exists"), message);
    assert!(message.contains("\n\n") && !message.contains('\r'), "its lines end as those of Unix files");
    let mode = |path: &Path| fs::metadata(path).expect("the file exists").permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    for made in ["", "tmp", "new", "cur"] {
        assert_eq!(mode(&path.join(made)), 0o700, "{made}");
    }
    assert_eq!(files(&path.join("tmp")), [""; 0]);
}

#[tokio::test]
async fn a_missing_folder_above_the_maildir_is_not_recreated() {
    let folder = tempfile::tempdir().expect("a folder");
    check_failure(&send(&folder.path().join("mail/desk"), &notice()).await, "cannot create the folder");
    assert!(!folder.path().join("mail").exists());
}

#[tokio::test]
async fn a_message_that_is_already_there_is_not_delivered_twice() {
    for place in [
        format!("new/{NAME}"),
        format!("cur/{NAME}"),
        format!("cur/{NAME}:2,S"),
        format!("cur/{NAME}:2,"),
        format!("cur/{NAME},S=1200,W=1250:2,FS"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        send(folder.path(), &notice()).await;
        fs::rename(folder.path().join("new").join(NAME), folder.path().join(&place)).expect("it exists");
        let outcome = send(folder.path(), &notice()).await;
        assert_eq!(outcome, Outcome::Delivered(format!("{NAME} was already there")), "{place}");
        assert_eq!(files(&folder.path().join("new")).len() + files(&folder.path().join("cur")).len(), 1);
    }
}

#[tokio::test]
async fn other_messages_do_not_count_as_this_one() {
    let folder = tempfile::tempdir().expect("a folder");
    send(folder.path(), &notice()).await;
    send(folder.path(), &Notification { topic: Topic::Digest, ..notice() }).await;
    let id = "01940000-0000-7000-8000-000000000002".parse().expect("an id");
    send(folder.path(), &Notification { id, ..notice() }).await;
    fs::write(folder.path().join("cur").join(format!("{NAME}.au")), "").expect("the file is written");
    assert_eq!(files(&folder.path().join("new")).len(), 3);
}

#[tokio::test]
async fn files_of_a_killed_attempt_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("tmp")).expect("a folder");
    for number in 0..3 {
        fs::write(folder.path().join(format!("tmp/{NAME}.{number}")), "From: desk@exa")
            .expect("the file is written");
    }
    fs::write(folder.path().join("tmp/somebody.elses"), "x").expect("the file is written");
    assert!(matches!(send(folder.path(), &notice()).await, Outcome::Delivered(_)));
    assert_eq!(files(&folder.path().join("new")), [NAME]);
    assert_eq!(files(&folder.path().join("tmp")), ["somebody.elses"]);
    let delivered = fs::read(folder.path().join("new").join(NAME)).expect("the file exists");
    assert!(delivered.ends_with(b"--\n"), "the message is complete");
}

#[tokio::test]
async fn a_failed_write_counts_against_the_channel_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("maildir");
    fs::write(&path, "a file").expect("the file is written");
    check_failure(&send(&path, &notice()).await, "cannot create the folder");

    // The message's file name is too long for the file system.
    let path = folder.path().join("long");
    let from = format!("desk@{}example.com", "a23456789.".repeat(20));
    let maildir = Maildir(MaildirOptions { addresses: addresses(&from), ..options(&path) });
    check_failure(&maildir.send(&notice()).await, "cannot write");
    assert_eq!(files(&path.join("new")).len() + files(&path.join("tmp")).len(), 0);
}

#[test]
fn a_file_that_cannot_be_moved_leaves_nothing_in_tmp() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("tmp")).expect("a folder");
    let written =
        write_temporary_file(&folder.path().join("tmp"), NAME, b"x\r\n").expect("the file is written");
    let error =
        move_or_remove(&written, &folder.path().join("gone").join(NAME)).expect_err("the folder is missing");
    assert!(error.starts_with("cannot move the message to "), "{}", error);
    assert_eq!(files(&folder.path().join("tmp")), [""; 0]);
}

#[test]
fn a_full_disk_is_reported_as_such() {
    // ENOSPC and EDQUOT
    for (number, words) in [(28, "the disk is full: cannot write /mail"), (122, "the disk quota is used up")]
    {
        let error = describe_io_error("write", Path::new("/mail"))(io::Error::from_raw_os_error(number));
        assert!(error.starts_with(words), "{}", error);
    }
}

#[test]
fn the_file_name_of_an_address_literal_has_no_colons() {
    let name = message_file_name(&notice(), "[IPv6:2001:db8::1]");
    assert!(name.ends_with(".[IPv6\\0722001\\072db8\\072\\0721]"), "{name}");
}

fn addresses(from: &str) -> MailAddresses {
    MailAddresses::new(from, "", &["team@example.com".to_owned()]).expect("addresses")
}

fn options(path: &Path) -> MaildirOptions {
    MaildirOptions { path: path.to_owned(), addresses: addresses("desk@example.com") }
}

async fn send(path: &Path, notice: &Notification) -> Outcome {
    Maildir(options(path)).send(notice).await
}

fn notice() -> Notification {
    Notification {
        is_suspicious: false,
        may_be_there: true,
        id: "01940000-0000-7000-8000-000000000001".parse().expect("an id"),
        topic: Topic::Submission,
        created_at: "2026-11-20T14:03:05.120Z".parse().expect("a time"),
        dated_at: "2026-11-20T14:03:05.120Z".parse().expect("a time"),
        form: Some("contact".to_owned()),
        definition: None,
        title: "Contact: Ada".to_owned(),
        lines: Vec::new(),
        fields: vec![("message".to_owned(), "Hello.".into())],
        lead: frontdesk_forms::LeadSource::default(),
    }
}

fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[track_caller]
fn check_failure(outcome: &Outcome, words: &str) {
    let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.cause, Cause::Channel);
    assert!(failure.answer.contains(words), "{} lacks {words}", failure.answer);
}
