//! Fuzzes HTTP responses: a status that the strict parser reads is read by the lenient one too.

#![no_main]

use frontdesk_fetch::read_response;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let lenient = read_response(input);
    if let Some(response) = &lenient {
        assert!((200..1000).contains(&response.status.as_u16()));
        assert!(!response.is_whole && input.ends_with(&response.body));
    }
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut strict = httparse::Response::new(&mut fields);
    if strict.parse(input).is_ok_and(|parsed| parsed.is_complete())
        && let Some(code @ 200..1000) = strict.code
    {
        assert_eq!(lenient.map(|response| response.status.as_u16()), Some(code));
    }
});
