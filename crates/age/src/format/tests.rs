//! Fixed files from other implementations, and files that each deviate from the format in one way.

use super::*;

const LIMIT: usize = 1 << 20;

static FULL_CHUNK: [u8; CHUNK_BYTES] = [1; CHUNK_BYTES];

/// A chunk's index, whether it is encrypted as the last one, and its text.
type Chunk<'a> = (usize, bool, &'a [u8]);

const IDENTITY_A: &str = "AGE-SECRET-KEY-1HX05R0JP690PCLEHHMSJ89XJLRWX4A2Z6M7TR2WA59XXMXLG004QVSJYZV";
const RECIPIENT_A: &str = "age1n5kxxp2xytcl0egpsv48unzxyzecq7rp0f4h08pvczl5je25tqes5nllqe";
const IDENTITY_B: &str = "AGE-SECRET-KEY-1S05EGQYTTF2UWMKQHFNP200EDTEVN56F9K68GXF6SM2D0QY5DMAQL8KET0";

/// `printf Hello | age -r A`, by age 1.1.1.
const HELLO: &str = "\
    YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBvOWZPUkZFVTQ3WlBDZUcxL1BHUDlYMnBKZUVPam9vTHNlZDJYdml1aGxZ\
    ClluYjM1M3VpVDIwNU1LZ3p6eGhnTHE2aStFYm5rbm5ReXNJcWhnZFFRblUKLS0tIGp6czZKUUVsWkg4VlNiNlc5dGorMWV6dXFL\
    TU1vZUlSWDdUUkZ3bWlVRTgKFmJoANjbHJvkCSufWLvWtB0o5KWyV38dbMz9Hlj2z4G8JRK8mQ==";
/// `printf '' | age -r A`, by age 1.1.1.
const EMPTY: &str = "\
    YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBaaUxiZGRZeDdJbUthdE1NTFNHb3RtRTFId28wSVdXQWY1dWFaL1Y0T2hJ\
    Ck1BZXRmd01OdnkrK3dsV0ZsdG9QWGJIMitMREtYZ0RBRFM2MlhiWkxNQkUKLS0tIGxIRmZ4RTdEZE9OSlpqRU1EaGc2enJ5YzYv\
    VGRNMDYvbFVwS2NtVzdBTmMKAxNDeR8hJ3b+9Tlxsufep8nRhBkVhQGTt5joS/PfkXw=";
/// `printf Hello | age -r B -r A`, by age 1.1.1.
const TWO_RECIPIENTS: &str = "\
    YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSB5bmpBUmVPQlFpcDE1L0Jjc3ljSU1JOFUyc04zNkl3Z092SGo3VGhzOERR\
    CkdaaDd0ZldDV3liaUx4TG1DYW1udDhhdDFjLy85R1ZDZld4S0FDUkdvVGMKLT4gWDI1NTE5IFhiNjBQZTJZYUZLZUZlUXJJc3pM\
    VVFQRyswM3RmSDBqK3M4S0hpSjMxMWsKSGxnR0NrWTNRalZBc2xtaFFXa3BseWh4T3daR3VqWldHcnRZcEozbTVEbwotLS0gZk44\
    eGhPeC9oZVZvY0pyTzNZQ3dsb0FUcVQ1b0tYOVpVWDRmamRiSDBmNAoKH8aw5lkn6NPSDKckU030TyoESm76i6pTNkvfUYmL1I5n\
    ITOb";
/// `age -p` with "Hello", by age 1.1.1.
const PASSPHRASE: &str = "\
    YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdCBtZ05zZXdUTXhZU2FFYVVqQlRCbzNnIDE4CmpLa0JzMFV0eUI0WSs4azVC\
    am5vOWVmMFd3cFlVQXpUNk1JOWkzZGZQRFkKLS0tIDBjZUE2MWI4SEFaaFc0TjhTZGlGUmI0emJwV2dPYVVOOUVacVM1LzFQcFUK\
    YLtD8zG5dmfcPOCVXunwk3Bb3oBkFNWygOWh+a4NoScHN3AfZg==";
/// "Hello" to A, by version 0.12.1 of the `age` crate, with a stanza of an unknown type. Earlier versions of
/// this server wrote such files.
const UNKNOWN_STANZA: &str = "\
    YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBFVWpLWkRKR1VFblBGS085c3RabWNCd0pSazRESzdMdGpDd2ErTmZ0UHlF\
    CmdCcGNUTDBKcDhXWlVOVldzaFMzVFhsZjZnckR6eXFxZGNNbzFXNW1CZWcKLT4gM1lLZzEtZ3JlYXNlIEYieEJJRl9HIElvQC83\
    UWcKWDlJUXRXc1BMbnFISHBibUxQV2o4S1NrU1ZZN29QZEE4czAxdVJBMWpZektCVTlYUGl2L29aQQotLS0gWTlKTzFxYmptNXNh\
    WG9aU3Y2WGd3SGJieFl6eFc3TUVZVDQwK09RMVRhbwry1k6cfW4+kz69ZoHN+h52PWBsTOGdazXYQKH58J2p0ZyASi7q";

#[test]
fn files_of_other_implementations_are_decrypted() {
    for (file, plain) in [(HELLO, "Hello"), (EMPTY, ""), (TWO_RECIPIENTS, "Hello"), (UNKNOWN_STANZA, "Hello")]
    {
        assert_eq!(decrypt(&[identity()], &bytes(file), LIMIT).as_deref(), Ok(plain.as_bytes()), "{file}");
    }
}

#[test]
fn each_recipient_decrypts_a_file_for_several() {
    let other = || PrivateKey::parse(IDENTITY_B).unwrap();
    let file = bytes(TWO_RECIPIENTS);
    for identities in [vec![identity()], vec![other()], vec![other(), identity()]] {
        assert_eq!(decrypt(&identities, &file, LIMIT).as_deref(), Ok(&b"Hello"[..]));
    }
    assert_eq!(decrypt(&[other()], &bytes(HELLO), LIMIT), Err(EncryptionError::WrongKey));
    assert_eq!(decrypt(&[], &bytes(HELLO), LIMIT), Err(EncryptionError::WrongKey));
}

#[test]
fn passphrase_files_are_for_another_key() {
    assert_eq!(decrypt(&[identity()], &bytes(PASSPHRASE), LIMIT), Err(EncryptionError::WrongKey));
}

#[test]
fn limit_applies_to_the_decrypted_text() {
    let recipient = PublicKey::parse(RECIPIENT_A).unwrap();
    for length in [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1] {
        let file = encrypt(&recipient, &vec![1; length]).unwrap();
        assert_eq!(decrypt(&[identity()], &file, length).unwrap(), vec![1; length]);
        if length > 0 {
            assert_eq!(decrypt(&[identity()], &file, length - 1), Err(EncryptionError::TooLarge), "{length}");
        }
    }
}

#[test]
fn stanzas_are_parsed_strictly() {
    let valid = stanza();
    let [arguments, body] = &valid.lines().collect::<Vec<_>>()[..] else { panic!("{valid}") };
    let share = arguments.strip_prefix("-> X25519 ").unwrap();
    let short = BASE64.encode(&BASE64.decode(share).unwrap()[..31]);
    let long = BASE64.encode([BASE64.decode(share).unwrap().as_slice(), &[0]].concat());
    let zero = BASE64.encode([0; 32]);
    let full = BASE64.encode([7; 48]);
    let good: Result<&[u8], EncryptionError> = Ok(b"Hello");
    let damaged = Err(EncryptionError::Damaged);
    let wrong_key = Err(EncryptionError::WrongKey);
    for (stanzas, expected) in [
        (valid.clone(), good),
        // The share.
        (valid.replace(share, &format!("{share}=")), damaged),
        (valid.replace(share, &not_canonical(share)), damaged),
        (valid.replace(share, &short), damaged),
        (valid.replace(share, &long), damaged),
        (valid.replace(share, &zero), damaged),
        (format!("-> X25519\n{body}\n"), damaged),
        (format!("-> X25519 {share} {share}\n{body}\n"), damaged),
        // The encrypted file key.
        (valid.replace(body, &format!("{body}=")), damaged),
        (valid.replace(body, &not_canonical(body)), damaged),
        (valid.replace(body, &BASE64.encode([7; 31])), damaged),
        (valid.replace(body, &BASE64.encode([7; 33])), damaged),
        (valid.replace(body, &format!("{full}\n")), damaged),
        (valid.replace(body, &body[..40]), damaged),
        (valid.replace(body, &body[..41]), damaged),
        (valid.replace(body, &format!("{}\n{}", &body[..40], &body[40..])), damaged),
        (valid.replace(body, ""), damaged),
        (valid.replace(&format!("{body}\n"), ""), damaged),
        (valid.replace(body, &format!("{body}\n")), damaged),
        (valid.replace(body, &BASE64.encode([7; 32])), wrong_key),
        // The words.
        (valid.replace("X25519", "x25519"), wrong_key),
        (valid.replace("-> ", "->"), damaged),
        (valid.replace("-> ", "->  "), damaged),
        (valid.replace("-> ", "--> "), damaged),
        (valid.replace("-> ", "> "), damaged),
        (valid.replace("X25519 ", "X25519  "), damaged),
        (valid.replace("X25519 ", "X25519\t"), damaged),
        (valid.replace(share, &format!("{share} ")), damaged),
        (valid.replace('\n', "\r\n"), damaged),
        (format!("\n{valid}"), damaged),
        (format!("{valid}\n"), damaged),
        (String::new(), damaged),
        // Other types.
        (format!("{valid}-> other\n\n"), good),
        (format!("-> other a b !~\n\n{valid}"), good),
        (format!("-> other\n{full}\n\n{valid}"), good),
        (format!("-> other\n{full}\n{full}\nAAAA\n{valid}"), good),
        (format!("-> \n\n{valid}"), damaged),
        (format!("-> other\n{valid}"), damaged),
        (format!("-> other\n{full}\n{valid}"), damaged),
        (format!("-> other\nAAAA\nAAAA\n{valid}"), damaged),
        (format!("-> other\nAAAA{full}\n\n{valid}"), damaged),
        (format!("-> other\nAB\n{valid}"), damaged),
        (format!("-> other\nAA==\n{valid}"), damaged),
        (format!("-> other \u{7f}\n\n{valid}"), damaged),
        (format!("-> other é\n\n{valid}"), damaged),
        ("-> other\n\n".to_owned(), wrong_key),
        // Passphrases.
        ("-> scrypt AAAAAAAAAAAAAAAAAAAAAA 18\n\n".to_owned(), wrong_key),
        (format!("{valid}-> scrypt AAAAAAAAAAAAAAAAAAAAAA 18\n\n"), damaged),
        ("-> scrypt AAAAAAAAAAAAAAAAAAAAAA 18\n\n".repeat(2), damaged),
        // A valid stanza does not excuse an invalid one.
        (format!("{valid}-> X25519\n\n"), damaged),
        (format!("-> X25519 {zero}\n{body}\n{valid}"), damaged),
    ] {
        let file = file(&stanzas, &[(0, true, b"Hello")]);
        assert_eq!(decrypt(&[identity()], &file, LIMIT).as_deref(), expected.as_ref().copied(), "{stanzas}");
    }
}

#[test]
fn version_and_mac_are_parsed_strictly() {
    let header = format_header(&file_key(), &stanza()).unwrap();
    let mac = &header[header.len() - 44..header.len() - 1];
    let payload = payload(&[(0, true, b"Hello")]);
    let open = |header: &str| decrypt(&[identity()], &[header.as_bytes(), &payload].concat(), LIMIT);
    assert_eq!(open(&header).unwrap(), b"Hello");
    for damaged in [
        header.replace("/v1", "/v2"),
        header.replace("/v1", "/v1 "),
        header.replace("/v1\n", "/v1\n\n"),
        header.replace("/v1\n", "/v1\r\n"),
        format!("\n{header}"),
        header.replace(mac, &BASE64.encode([0; MAC_BYTES])),
        header.replace(mac, &BASE64.encode([0; MAC_BYTES - 1])),
        header.replace(mac, &BASE64.encode([0; MAC_BYTES + 1])),
        header.replace(mac, &not_canonical(mac)),
        header.replace(mac, &format!("{mac}=")),
        header.replace(mac, &format!("{mac} ")),
        header.replace(mac, &format!(" {mac}")),
        header.replace(mac, &format!("{mac}\r")),
        header.replace(mac, ""),
        header.replace("--- ", "---"),
        header.replace("--- ", "-- "),
        header.replace("--- ", "---- "),
        header.replace(&format!("--- {mac}\n"), ""),
        header.trim_end().to_owned(),
        format!("{header}\n"),
        // The MAC covers what the parser ignores.
        header.replace("---", "-> other\n\n---"),
    ] {
        assert_eq!(open(&damaged), Err(EncryptionError::Damaged), "{damaged}");
    }
}

#[test]
fn chunks_are_checked_strictly() {
    let full = &FULL_CHUNK[..];
    let longer = [full, b"x"].concat();
    let good: &[&[Chunk]] = &[
        &[(0, true, b"")],
        &[(0, true, b"x")],
        &[(0, true, full)],
        &[(0, false, full), (1, true, b"x")],
        &[(0, false, full), (1, true, full)],
        &[(0, false, full), (1, false, full), (2, true, b"x")],
    ];
    for chunks in good {
        let plain = chunks.iter().map(|(_, _, plain)| *plain).collect::<Vec<_>>().concat();
        assert_eq!(decrypt(&[identity()], &file(&stanza(), chunks), LIMIT).unwrap(), plain);
    }
    let damaged: &[(&str, &[Chunk])] = &[
        ("no chunk", &[]),
        ("no last chunk", &[(0, false, b"x")]),
        ("no last chunk, full", &[(0, false, full)]),
        ("no last chunk of two", &[(0, false, full), (1, false, b"x")]),
        ("two last chunks", &[(0, true, full), (1, true, full)]),
        ("a chunk after the last", &[(0, true, full), (1, false, b"x")]),
        ("an empty last chunk", &[(0, false, full), (1, true, b"")]),
        ("an empty first chunk", &[(0, false, b""), (1, true, b"x")]),
        ("a short first chunk", &[(0, false, b"x"), (1, true, b"x")]),
        ("a long chunk", &[(0, true, &longer)]),
        ("a count from one", &[(1, true, b"x")]),
        ("a repeated chunk", &[(0, false, full), (0, true, full)]),
        ("swapped chunks", &[(1, true, full), (0, false, full)]),
        ("a missing chunk", &[(0, false, full), (2, true, b"x")]),
    ];
    for (what, chunks) in damaged {
        let file = file(&stanza(), chunks);
        assert_eq!(decrypt(&[identity()], &file, LIMIT), Err(EncryptionError::Damaged), "{what}");
    }
}

#[test]
fn payload_may_be_neither_shorter_nor_longer() {
    let file = file(&stanza(), &[(0, false, &FULL_CHUNK), (1, true, b"x")]);
    let header = format_header(&file_key(), &stanza_of(&file)).unwrap().len();
    let (first, second) = (header + NONCE_BYTES, header + NONCE_BYTES + CHUNK_BYTES + TAG_BYTES);
    for length in [header, header + 1, first - 1, first, first + 1, first + TAG_BYTES, second - 1, second]
        .into_iter()
        .chain(second..file.len())
    {
        assert_eq!(decrypt(&[identity()], &file[..length], LIMIT), Err(EncryptionError::Damaged), "{length}");
    }
    for tail in [&b"\n"[..], b"\0", &[0; TAG_BYTES], &FULL_CHUNK] {
        let longer = [&file, tail].concat();
        assert_eq!(
            decrypt(&[identity()], &longer, LIMIT),
            Err(EncryptionError::Damaged),
            "{} more",
            tail.len()
        );
    }
}

#[test]
fn chunk_nonce_is_a_counter_and_a_mark_of_the_last_chunk() {
    assert_eq!(chunk_nonce(0, true).as_ref(), &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(chunk_nonce(0x0001_0203, false).as_ref(), &[0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0]);
}

fn identity() -> PrivateKey {
    PrivateKey::parse(IDENTITY_A).unwrap()
}

fn bytes(base64: &str) -> Vec<u8> {
    base64::prelude::BASE64_STANDARD.decode(base64).unwrap()
}

fn file_key() -> FileKey {
    FileKey::init_with_mut(|key| *key = *b"sixteen byte key")
}

/// The stanza that carries [`file_key`] to the recipient A.
fn stanza() -> String {
    format_stanza(&PublicKey::parse(RECIPIENT_A).unwrap().wrap(&file_key()).unwrap())
}

/// The stanza of a file that was made with [`stanza`].
fn stanza_of(file: &[u8]) -> String {
    let lines: Vec<_> = file.split(|byte| *byte == b'\n').skip(1).take(2).collect();
    format!("{}\n", String::from_utf8(lines.join(&b'\n')).unwrap())
}

/// A file with a valid MAC over any stanzas, and with any chunks.
fn file(stanzas: &str, chunks: &[Chunk]) -> Vec<u8> {
    [format_header(&file_key(), stanzas).unwrap().as_bytes(), &payload(chunks)].concat()
}

fn payload(chunks: &[Chunk]) -> Vec<u8> {
    let nonce = [3; NONCE_BYTES];
    let mut payload = nonce.to_vec();
    let key = derive_payload_key(&file_key(), &nonce).unwrap();
    for (index, is_last, plain) in chunks {
        append_encrypted_chunk(&mut payload, &key, *index, *is_last, plain).unwrap();
    }
    payload
}

/// The same value with an unused bit set in its last character.
fn not_canonical(base64: &str) -> String {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (rest, last) = base64.split_at(base64.len() - 1);
    let at = ALPHABET.find(last).unwrap() + 1;
    format!("{rest}{}", &ALPHABET[at..=at])
}
