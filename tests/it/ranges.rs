//! Byte ranges of files.

use std::path::Path;

use crate::support::http2::Http2;
use crate::support::prebuilt::write_build;
use crate::support::{Answer, TestServer};

/// A build with the files `film.mp4` (256 bytes, each with its position as its value), `long.css` and
/// `empty.bin`.
fn write_files(build: &Path) {
    write_build(build, "A state.");
    let film: Vec<u8> = (0..=255).collect();
    for (name, content) in
        [("film.mp4", film), ("long.css", b"p { color: red }\n".repeat(100)), ("empty.bin", Vec::new())]
    {
        std::fs::write(build.join(name), content).expect("it can be written");
    }
}

/// Status, body and `Content-Range`.
fn part(answer: &Answer) -> (u16, &[u8], &str) {
    (answer.status, &answer.body, answer.header("content-range").unwrap_or_default())
}

#[test]
fn a_range_of_a_file_is_sent_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    write_files(folder.path());
    let server = TestServer::with(folder.path(), &[]);
    let (mut one, mut two) = (server.connect(), Http2::open(server.address));
    for path in ["/film.mp4", "/long.css"] {
        let whole = server.get(path, &[]);
        let etag = whole.header("etag").expect("a validator").to_owned();
        assert_eq!((whole.status, whole.header("accept-ranges")), (200, Some("bytes")));
        let length = whole.body.len();
        let end = length - 1;
        for (range, bytes) in [
            ("bytes=0-1", 0..2),
            ("bytes=0-", 0..length),
            ("bytes=5-9", 5..10),
            ("bytes=-4", length - 4..length),
            ("bytes=7-99999999999999999999", 7..length),
        ] {
            let expected = format!("bytes {}-{}/{length}", bytes.start, bytes.end - 1);
            let headers = [("Range", range), ("Accept-Encoding", "br, gzip"), ("If-Range", &etag)];
            let answers = [
                one.request("GET", path, &headers, b"").expect("an answer"),
                two.request("GET", path, &headers, b"").expect("an answer"),
            ];
            for answer in answers {
                assert_eq!(part(&answer), (206, &whole.body[bytes.clone()], &*expected), "{path} {range}");
                assert_eq!(answer.header("content-length"), Some(&*bytes.len().to_string()));
                for name in
                    ["etag", "content-type", "cache-control", "vary", "content-encoding", "accept-ranges"]
                {
                    assert_eq!(answer.header(name), whole.header(name), "{path} {range} {name}");
                }
                assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            }
        }
        let (behind, unsatisfied) = (format!("bytes={length}-"), format!("bytes */{length}"));
        for range in [behind.as_str(), "bytes=-0"] {
            let answer = one.request("GET", path, &[("Range", range)], b"").expect("an answer");
            assert_eq!(
                (answer.status, answer.header("content-range")),
                (416, Some(&*unsatisfied)),
                "{range}"
            );
            assert_eq!(answer.header("vary"), whole.header("vary"));
        }
        let last = format!("bytes={end}-{end}");
        let answer = one.request("GET", path, &[("Range", &last)], b"").expect("an answer");
        assert_eq!(answer.body, whole.body[end..]);
    }
}

#[test]
fn other_requests_with_a_range_get_the_whole_file() {
    let folder = tempfile::tempdir().expect("a folder");
    write_files(folder.path());
    let server = TestServer::with(folder.path(), &[]);
    let mut connection = server.connect();
    let whole = server.get("/long.css", &[("Accept-Encoding", "gzip")]);
    let (etag, length) = (whole.header("etag").expect("a validator"), whole.body.len().to_string());
    assert_eq!(whole.header("content-encoding"), Some("gzip"));
    let identity = server.get("/long.css", &[]).header("etag").expect("a validator").to_owned();
    let weak = format!("W/{identity}");
    for (method, range, condition, is_encoded) in [
        // The range is ignored, so the encoding is negotiated.
        ("GET", "bytes=0-1,5-6", None, true),
        ("GET", "bytes=6-5", None, true),
        ("GET", "pages=0-1", None, true),
        ("HEAD", "bytes=0-1", None, true),
        // The file may have changed.
        ("GET", "bytes=0-1", Some("\"another\""), false),
        ("GET", "bytes=0-1", Some(etag), false),
        ("GET", "bytes=0-1", Some(&*weak), false),
        ("GET", "bytes=0-1", Some("Sat, 21 Nov 2099 12:00:00 GMT"), false),
    ] {
        let mut headers = vec![("Range", range), ("Accept-Encoding", "gzip")];
        headers.extend(condition.map(|value| ("If-Range", value)));
        let answer = connection.request(method, "/long.css", &headers, b"").expect("an answer");
        assert_eq!(part(&answer).2, "", "{method} {range} {condition:?}");
        assert_eq!(answer.status, 200, "{method} {range} {condition:?}");
        assert_eq!(answer.header("content-encoding").is_some(), is_encoded, "{method} {range} {condition:?}");
        assert_eq!(answer.header("accept-ranges"), Some("bytes"));
        if is_encoded {
            assert_eq!(answer.header("content-length"), Some(&*length));
        }
    }
    // Preconditions precede the range.
    for (name, value, status) in [
        ("If-None-Match", &*identity, 304),
        ("If-None-Match", "\"another\"", 206),
        ("If-Match", "\"another\"", 412),
        ("If-Match", &*identity, 206),
    ] {
        let headers = [("Range", "bytes=0-1"), (name, value)];
        let answer = connection.request("GET", "/long.css", &headers, b"").expect("an answer");
        assert_eq!(answer.status, status, "{name} {value}");
    }
    for range in ["bytes=0-", "bytes=-1"] {
        let answer = connection.request("GET", "/empty.bin", &[("Range", range)], b"").expect("an answer");
        assert_eq!(part(&answer), (200, &b""[..], ""), "{range}");
    }
    // Neither pages nor errors have ranges.
    for (path, accept, status) in
        [("/about/", "text/html", 200), ("/about/", "text/markdown", 200), ("/none", "text/html", 404)]
    {
        let headers = [("Range", "bytes=0-1"), ("Accept", accept)];
        let answer = connection.request("GET", path, &headers, b"").expect("an answer");
        assert_eq!((answer.status, part(&answer).2, answer.header("accept-ranges")), (status, "", None));
        assert!(answer.body.len() > 2);
    }
}
