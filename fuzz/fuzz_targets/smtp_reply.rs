//! Fuzzes replies of mail servers: the pieces in which a reply arrives do not change it, and its size is
//! limited.
//!
//! The first byte of the input is the length of the pieces.

#![no_main]

use frontdesk_deliver::smtp::reply::{MAX_REPLY_BYTES, ReplyError, ReplyReader, SmtpReply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((length, bytes)) = input.split_first() else { return };
    let whole = read(bytes, bytes.len().max(1));
    let in_pieces = read(bytes, usize::from(*length).max(1));
    assert_eq!(whole, in_pieces);
    if let Ok((Some(reply), rest)) = whole {
        assert!((200..600).contains(&reply.code), "{reply:?}");
        assert!(bytes.ends_with(&rest) && bytes.len() - rest.len() <= MAX_REPLY_BYTES);
        assert!(bytes[..bytes.len() - rest.len()].ends_with(b"\n"));
        let first = reply.code / 100;
        assert!(reply.text().len() <= 3 * MAX_REPLY_BYTES && (2..=5).contains(&first));
    }
});

/// Reads one reply, and returns what follows it. Without a complete reply, checks what can be read of it.
fn read(bytes: &[u8], length: usize) -> Result<(Option<SmtpReply>, Vec<u8>), ReplyError> {
    let mut reader = ReplyReader::default();
    let mut read = 0;
    for piece in bytes.chunks(length) {
        let mut piece = piece.to_vec();
        let before = piece.len();
        let reply = reader.read(&mut piece)?;
        read += before - piece.len();
        if reply.is_some() {
            return Ok((reply, bytes[read..].to_vec()));
        }
        assert!(piece.is_empty(), "a reader without a reply reads everything");
    }
    assert!(reader.cut_off().is_none_or(|reply| (200..600).contains(&reply.code)));
    Ok((None, Vec::new()))
}
