//! Forms that arrive in unusual pieces. Each gets a response or a closed connection, and is stored completely
//! or not at all.

use std::time::Duration;

use crate::support::{Connection, TestServer, deadlines, small_site};

const BODY_TIMEOUT: (&str, &str) = ("FRONTDESK_SERVER__BODY_TIMEOUT", "1s");

const FORM: &str = r#"{"email":"ada@example.com"}"#;

/// One action of a client.
enum Step<'a> {
    /// Sends the text.
    Send(&'a str),
    /// Sends the text one byte per packet, with a pause after each.
    Trickle(&'a str, Duration),
    /// Waits for an answer with this status.
    Hear(u16),
    /// Closes the sending direction.
    CloseWriting,
}

use Step::{CloseWriting, Hear, Send, Trickle};

/// The expected result.
#[derive(Clone, Copy)]
enum End {
    /// An answer with this status on a connection that stays open.
    Answered(u16),
    /// An answer with this status on a connection that is then closed.
    Last(u16),
    /// A closed connection without an answer.
    Closed,
}

use End::{Answered, Closed, Last};

fn head(length: usize, more: &str) -> String {
    format!(
        "POST /api/waitlist HTTP/1.1\r\nHost: www.example.com\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n"
    )
}

fn chunked_head() -> String {
    head(0, "").replace("Content-Length: 0", "Transfer-Encoding: chunked")
}

#[test]
fn a_form_that_arrives_byte_by_byte_is_kept() {
    let whole = head(FORM.len(), "") + FORM;
    check(&[Trickle(&whole, Duration::ZERO)], Answered(200), 1);
}

#[test]
fn a_form_in_chunks_of_one_byte_is_kept() {
    let chunks: String = FORM.chars().map(|byte| format!("1\r\n{byte}\r\n")).collect();
    let whole = chunked_head() + &chunks + "0\r\n\r\n";
    check(&[Trickle(&whole, Duration::ZERO)], Answered(200), 1);
}

#[test]
fn a_header_that_arrives_too_slowly_is_cut_off() {
    let whole = head(FORM.len(), "") + FORM;
    let deadline = ("FRONTDESK_SERVER__HEADER_TIMEOUT", "2s");
    check_within(&[deadline], &[Trickle(&whole, Duration::from_millis(50))], Closed, 0);
}

#[test]
fn a_body_that_arrives_too_slowly_is_answered_and_closed() {
    let steps = [Send(&head(FORM.len(), "")), Trickle(&FORM[1..], Duration::from_millis(100))];
    check_within(&[BODY_TIMEOUT], &steps, Last(408), 0);
}

#[test]
fn a_body_sent_after_100_continue_is_accepted() {
    let head = head(FORM.len(), "Expect: 100-continue\r\n");
    check(&[Send(&head), Hear(100), Send(FORM)], Answered(200), 1);
}

#[test]
fn a_body_sent_before_100_continue_is_accepted() {
    let whole = head(FORM.len(), "Expect: 100-continue\r\n") + FORM;
    check(&[Send(&whole), Hear(100)], Answered(200), 1);
}

#[test]
fn a_missing_body_after_100_continue_is_answered_and_closed() {
    let head = head(FORM.len(), "Expect: 100-continue\r\n");
    check_within(&[BODY_TIMEOUT], &[Send(&head), Hear(100)], Last(408), 0);
}

#[test]
fn a_form_whose_sender_half_closes_is_answered() {
    let whole = head(FORM.len(), "") + FORM;
    check(&[Send(&whole), CloseWriting], Last(200), 1);
}

#[test]
fn a_form_that_ends_early_is_not_kept() {
    let cut = head(FORM.len() + 1, "") + FORM;
    check(&[Send(&cut), CloseWriting], Last(400), 0);
    // The body is a whole form except for the last chunk.
    let cut = format!("{}{:x}\r\n{FORM}\r\n", chunked_head(), FORM.len());
    check(&[Send(&cut), CloseWriting], Last(400), 0);
}

#[test]
fn an_incomplete_header_closes_the_connection() {
    check(&[Send("POST /api/waitlist HTTP/1.1\r\nHost: www"), CloseWriting], Closed, 0);
    check(&[CloseWriting], Closed, 0);
}

#[test]
fn bytes_after_content_length_are_not_part_of_the_form() {
    let whole = head(FORM.len(), "") + FORM + "\0\0\0";
    check(&[Send(&whole), Hear(200)], Last(400), 1);
}

#[test]
fn a_client_that_disconnects_midway_leaves_nothing_behind() {
    let server = TestServer::with(&small_site(), &deadlines(&[]));
    for length in [0, 1, FORM.len() / 2, FORM.len() - 1] {
        let mut connection = server.connect();
        let cut = head(FORM.len(), "") + &FORM[..length];
        connection.send(cut.as_bytes()).expect("sent");
        drop(connection);
    }
    assert_eq!(server.get("/", &[]).status, 200);
    server.expect(0);
}

/// Runs the client against a server without deadlines, then checks the outcome and the number of stored
/// submissions.
fn check(steps: &[Step<'_>], expected: End, kept: usize) {
    check_within(&[], steps, expected, kept);
}

/// Like [`check`], but with a server that has these deadlines and no others.
fn check_within(few: &[(&'static str, &'static str)], steps: &[Step<'_>], expected: End, kept: usize) {
    let server = TestServer::with(&small_site(), &deadlines(few));
    let mut connection = server.connect();
    for step in steps {
        match step {
            Send(text) => connection.send(text.as_bytes()).expect("sent"),
            Trickle(text, pause) => trickle(&mut connection, text, *pause),
            Hear(status) => assert_eq!(connection.answer(false).expect("an answer").status, *status),
            CloseWriting => connection.close_writing(),
        }
    }
    match expected {
        Answered(status) => {
            assert_eq!(connection.answer(false).expect("an answer").status, status);
            assert_eq!(
                connection.request("GET", "/", &[], b"").expect("the connection stays open").status,
                200
            );
        }
        Last(status) => {
            assert_eq!(connection.answer(false).expect("an answer").status, status);
            match connection.rest() {
                Ok(rest) => assert_eq!(String::from_utf8_lossy(&rest), "", "the connection is closed"),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
            }
        }
        Closed => match connection.rest() {
            Ok(rest) => assert_eq!(String::from_utf8_lossy(&rest), "", "nothing is sent"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
        },
    }
    server.expect(kept);
}

/// Sends the text one byte at a time, with a pause after each. Stops at a write error, because the server may
/// have closed the connection.
fn trickle(connection: &mut Connection, text: &str, pause: Duration) {
    for byte in text.as_bytes() {
        if connection.send(&[*byte]).is_err() {
            return;
        }
        std::thread::sleep(pause);
    }
}
