//! Interoperability with the `age` tool, in both directions.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use frontdesk_age::{AgeIdentity, EncryptionError, Recipient};

#[test]
#[ignore = "needs the age tool: scripts/test unit"]
fn the_age_tool_decrypts_sealed_submissions() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, public) = generate(folder.path(), "key.txt");
    let recipient = Recipient::parse(&public).expect("age-keygen made it");
    for plain in plain_texts() {
        let sealed = recipient.encrypt(&plain).expect("it can be sealed");
        let opened = run("age", &["--decrypt", "--identity", &file.display().to_string()], &sealed);
        assert!(opened == plain, "{} bytes came back as {}", plain.len(), opened.len());
    }
}

#[test]
#[ignore = "needs the age tool: scripts/test unit"]
fn a_file_encrypted_by_age_is_decrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, public) = generate(folder.path(), "key.txt");
    let (other, _) = generate(folder.path(), "other.txt");
    let identity = AgeIdentity::read(&file).expect("age-keygen made it");
    for plain in plain_texts() {
        let sealed = run("age", &["--encrypt", "--recipient", &public], &plain);
        let opened = identity.decrypt(&sealed).expect("it can be opened");
        assert!(opened == plain, "{} bytes came back as {}", plain.len(), opened.len());
    }
    let other = AgeIdentity::read(&other).expect("age-keygen made it");
    let sealed = run("age", &["--encrypt", "--recipient", &public], b"Hello");
    assert_eq!(other.decrypt(&sealed), Err(EncryptionError::WrongKey));
    let armoured = run("age", &["--encrypt", "--armor", "--recipient", &public], b"Hello");
    assert_eq!(identity.decrypt(&armoured), Err(EncryptionError::Damaged));
}

#[test]
#[ignore = "needs the age tool: scripts/test unit"]
fn a_file_encrypted_to_several_keys_is_decrypted_by_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = ["one.txt", "two.txt"].map(|name| generate(folder.path(), name));
    let arguments = ["--encrypt", "--recipient", &keys[0].1, "--recipient", &keys[1].1];
    let sealed = run("age", &arguments, b"Hello");
    for (file, _) in &keys {
        assert_eq!(
            AgeIdentity::read(file).expect("age-keygen made it").decrypt(&sealed).as_deref(),
            Ok(&b"Hello"[..])
        );
    }
    let (other, _) = generate(folder.path(), "other.txt");
    let other = AgeIdentity::read(&other).expect("age-keygen made it");
    assert_eq!(other.decrypt(&sealed), Err(EncryptionError::WrongKey));
}

#[test]
#[ignore = "needs the age tool: scripts/test unit"]
fn the_age_tool_refuses_another_key_and_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, public) = generate(folder.path(), "key.txt");
    let (other, _) = generate(folder.path(), "other.txt");
    let sealed =
        Recipient::parse(&public).expect("age-keygen made it").encrypt(b"Hello").expect("it can be sealed");
    let mut changed = sealed.clone();
    *changed.last_mut().expect("it is not empty") ^= 1;
    for (identity, sealed) in [(&other, &sealed), (&file, &changed)] {
        let identity = identity.display().to_string();
        let output = output("age", &["--decrypt", "--identity", &identity], sealed);
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
#[ignore = "needs the age tool: scripts/test unit"]
fn both_read_the_same_identity_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = ["one.txt", "two.txt"].map(|name| generate(folder.path(), name));
    let file = folder.path().join("both.txt");
    let texts = keys.each_ref().map(|(file, _)| std::fs::read_to_string(file).expect("it was written"));
    std::fs::write(&file, texts.concat()).expect("it can be written");
    let identity = AgeIdentity::read(&file).expect("it has two identities");
    for (_, public) in &keys {
        let sealed = Recipient::parse(public)
            .expect("age-keygen made it")
            .encrypt(b"Hello")
            .expect("it can be sealed");
        assert_eq!(identity.decrypt(&sealed).as_deref(), Ok(&b"Hello"[..]));
        assert_eq!(run("age", &["--decrypt", "--identity", &file.display().to_string()], &sealed), b"Hello");
    }
}

/// Texts of zero to several chunks of 64 KiB, with and without a partial last chunk.
fn plain_texts() -> impl Iterator<Item = Vec<u8>> {
    [0, 1, 300, 65_535, 65_536, 65_537, 131_072, 200_000, 1 << 20]
        .into_iter()
        .map(|length| (0..=u8::MAX).cycle().take(length).collect())
}

/// Generates an identity file and returns its path and public key.
fn generate(folder: &Path, name: &str) -> (PathBuf, String) {
    let file = folder.join(name);
    let path = file.display().to_string();
    run("age-keygen", &["-o", &path], b"");
    let public = String::from_utf8(run("age-keygen", &["-y", &path], b"")).expect("it is text");
    (file, public.trim().to_owned())
}

/// Runs a command, which must be installed and must succeed. Returns its standard output.
fn run(program: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let output = output(program, arguments, input);
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn output(program: &str, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; this test needs the `age` package"));
    let mut stdin = child.stdin.take().expect("it is piped");
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("it ends")
    })
}
