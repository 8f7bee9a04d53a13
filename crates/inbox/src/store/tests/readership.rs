//! Whether operators read the inbox.

use super::*;

const DAY: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

#[test]
fn an_unused_inbox_is_not_read_here() {
    let fixture = Fixture::new();
    let read = |before: Timestamp| fixture.reader().readership(before).unwrap();
    let far = Timestamp::MAX;
    assert_eq!(read(far), Readership { unread: 0, last_use: None, is_read_here: false });
    fixture.accept_new(&contact("one"));
    let arrived = fixture.list()[0].received_at;
    assert_eq!((read(far).unread, read(arrived).unread), (1, 0));
    assert!(!read(far).is_read_here);
}

#[test]
fn an_inbox_is_read_here_if_most_submissions_were_opened() {
    let fixture = Fixture::new();
    let ids: Vec<Uuid> = (0..4).map(|n| fixture.accept_new(&contact(&n.to_string()))).collect();
    let later = fixture.list()[0].received_at + DAY;
    let read = || fixture.reader().readership(Timestamp::MAX).unwrap();
    let mut editor = fixture.editor().on_behalf_of("ada");
    editor.set_seen(ids[0], true, later).unwrap();
    assert_eq!(read(), Readership { unread: 3, last_use: Some(later), is_read_here: false });
    editor.set_seen(ids[1], true, later + DAY).unwrap();
    assert_eq!(read(), Readership { unread: 2, last_use: Some(later + DAY), is_read_here: true });
    // Neither spam nor what is done is unread.
    editor.set_done(ids[2], true, later).unwrap();
    editor.set_spam(ids[3], true, later).unwrap();
    assert_eq!(read().unread, 0);
}

#[test]
fn the_time_of_the_last_digest_can_be_read() {
    let fixture = Fixture::new();
    assert_eq!(fixture.reader().stored_time("digest").unwrap(), None);
    let at: Timestamp = "2026-11-20T07:00:00Z".parse().unwrap();
    fixture.runtime.block_on(fixture.store.change(move |tx| tx.store_time("digest", at))).unwrap();
    assert_eq!(fixture.reader().stored_time("digest").unwrap(), Some(at));
}
