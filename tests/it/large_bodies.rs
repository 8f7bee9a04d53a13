//! Long bodies, which the kernel sends from memory files and from the disk, on all kinds of connection.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::support::http2::Http2;
use crate::support::prebuilt::write_build;
use crate::support::tls::Authority;
use crate::support::{Answer, Connection, PATIENCE, TestServer};

/// Names and lengths of files: two are sent from memory, two from the disk.
const FILES: [(&str, usize); 4] =
    [("a.png", 28 << 10), ("b.mp4", 64 << 10), ("c.pdf", 300 << 10), ("d.mp4", 50 << 20)];

/// Bytes that differ from file to file and do not repeat with the length of a page or a piece.
fn content(length: usize) -> Vec<u8> {
    let mut state = u32::try_from(length).expect("a short file");
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn write_files(build: &Path) {
    write_build(build, "A state.");
    for (name, length) in FILES {
        fs::write(build.join(name), content(length)).expect("it can be written");
    }
    let text = "<p>A line of a long page.</p>\n".repeat(2000);
    let page = format!("<!doctype html><title>Long</title><main><h1>Long</h1>{text}</main>");
    fs::write(build.join("long.html"), page).expect("it can be written");
}

/// Reloads the site, and waits until it is served.
fn reload(server: &TestServer) {
    let count = || server.log().matches("configuration reloaded").count();
    let before = count();
    server.reload();
    server.assert_logged_times("configuration reloaded", before + 1);
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.header(name).unwrap_or_default()
}

/// Checks whole responses, ranges, HEAD and preconditions with `request`, each several times, because bodies
/// get their copies at the second request.
fn check_file(name: &str, expected: &[u8], mut request: impl FnMut(&str, &[(&str, &str)]) -> Answer) {
    let length = expected.len();
    let mut etag = String::new();
    for round in 0..3 {
        let whole = request("GET", &[]);
        assert_eq!((whole.status, header(&whole, "content-length")), (200, &*length.to_string()), "{name}");
        assert!(whole.body == expected, "{name} {round}");
        assert_eq!(header(&whole, "accept-ranges"), "bytes", "{name}");
        header(&whole, "etag").clone_into(&mut etag);
        let head = request("HEAD", &[]);
        assert_eq!((head.status, header(&head, "content-length")), (200, &*length.to_string()), "{name}");
        assert_eq!(header(&head, "etag"), etag);
    }
    let cached = request("GET", &[("If-None-Match", &etag)]);
    assert_eq!((cached.status, header(&cached, "etag"), cached.body.len()), (304, &*etag, 0), "{name}");
    for (range, bytes) in [
        ("bytes=0-99", 0..100),
        ("bytes=20000-28000", 20_000..28_001),
        ("bytes=1-", 1..length),
        ("bytes=-5000", length - 5000..length),
    ] {
        let part = request("GET", &[("Range", range), ("If-Range", &etag)]);
        let place = format!("bytes {}-{}/{length}", bytes.start, bytes.end - 1);
        assert_eq!((part.status, header(&part, "content-range")), (206, &*place), "{name} {range}");
        assert_eq!(header(&part, "content-length"), bytes.len().to_string());
        assert!(part.body == expected[bytes], "{name} {range}");
    }
    let other = request("GET", &[("Range", "bytes=0-99"), ("If-Range", "\"another\"")]);
    assert!(other.status == 200 && other.body == expected, "{name}");
    let behind = request("GET", &[("Range", &format!("bytes={length}-"))]);
    assert_eq!((behind.status, header(&behind, "content-range")), (416, &*format!("bytes */{length}")));
    assert_eq!(request("GET", &[("If-Match", "\"another\"")]).status, 412);
}

#[test]
fn every_kind_of_connection_gets_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = folder.path().join("build");
    write_files(&build);
    let authority = Authority::new();
    let (certificate, key) = authority.issue();
    let (certificate_file, key_file) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    fs::write(&certificate_file, certificate).expect("it can be written");
    fs::write(&key_file, key).expect("it can be written");
    let server = TestServer::with(
        &build,
        &[
            ("FRONTDESK_TLS__LISTEN", "127.0.0.1:0"),
            ("FRONTDESK_TLS__REDIRECT", "false"),
            ("FRONTDESK_TLS__CERTIFICATE", &certificate_file.to_string_lossy()),
            ("FRONTDESK_TLS__KEY", &key_file.to_string_lossy()),
        ],
    );
    let secure = server.tls.expect("a TLS socket");
    for (name, length) in FILES {
        // Before the connections, because the server closes those that are idle.
        let (path, expected) = (format!("/{name}"), content(length));
        let mut plain = server.connect();
        check_file(name, &expected, |method, headers| {
            plain.request(method, &path, headers, b"").expect("an answer")
        });
        let mut two = Http2::open(server.address);
        check_file(name, &expected, |method, headers| {
            two.request(method, &path, headers, b"").expect("an answer")
        });
        let mut tls = authority.client().connect(secure).expect("TLS");
        check_file(name, &expected, |method, headers| {
            tls.request(method, &path, headers, b"").expect("an answer")
        });
    }
    let page = |number| {
        let answer = server.get("/long", &[("Accept", "text/html")]);
        assert_eq!(answer.status, 200, "{number}");
        (answer.body.len(), header(&answer, "etag").to_owned(), answer.body)
    };
    let first = page(1);
    assert!(first.0 > 50_000);
    (2..5).for_each(|number| assert!(page(number) == first, "{number}"));
}

#[test]
fn pipelined_requests_and_slow_readers_get_complete_responses() {
    let folder = tempfile::tempdir().expect("a folder");
    write_files(folder.path());
    let server = TestServer::with(folder.path(), &[]);
    // More than the socket buffers hold, so that most writes are partial.
    let order = ["a.png", "d.mp4", "b.mp4", "c.pdf", "a.png", "d.mp4", "c.pdf", "b.mp4"];
    let mut stream = TcpStream::connect(server.address).expect("the server accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let requests: String =
        order.iter().map(|name| format!("GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n")).collect();
    stream.write_all(requests.as_bytes()).expect("the server reads");
    let mut connection = Connection::over(Slow { stream, reads: 0 });
    for name in order {
        let length = FILES.iter().find(|(file, _)| *file == name).expect("a file").1;
        let answer = connection.answer(false).expect("an answer");
        assert!(answer.status == 200 && answer.body == content(length), "{name}");
    }
}

/// A stream whose reader pauses now and then, so that the socket buffers fill up.
struct Slow {
    stream: TcpStream,
    reads: u32,
}

impl std::io::Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.reads += 1;
        if self.reads.is_multiple_of(64) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let length = buffer.len().min(200_000);
        self.stream.read(&mut buffer[..length])
    }
}

impl std::io::Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_that_is_replaced_is_served_as_it_was_until_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    write_files(folder.path());
    let server = TestServer::with(folder.path(), &[]);
    let before = server.get("/c.pdf", &[]);
    let (path, new) = (folder.path().join("c.pdf"), vec![b'n'; 400 << 10]);
    let draft = folder.path().join("draft.tmp");
    // The first half of a download precedes the replacement.
    let mut download = server.connect();
    download.send(b"GET /d.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("the server reads");
    let film = folder.path().join("d.mp4");
    fs::remove_file(&film).expect("it can be removed");
    fs::write(&draft, &new).and_then(|()| fs::rename(&draft, &path)).expect("it can be replaced");
    assert!(download.answer(false).expect("an answer").body == content(50 << 20));
    for _ in 0..2 {
        let answer = server.get("/c.pdf", &[]);
        assert!(answer.status == 200 && answer.body == before.body);
        assert_eq!(header(&answer, "etag"), header(&before, "etag"));
    }
    assert_eq!(server.get("/d.mp4", &[("Range", "bytes=0-9")]).body, content(50 << 20)[..10]);
    reload(&server);
    let after = server.get("/c.pdf", &[]);
    assert!(after.status == 200 && after.body == new);
    assert_ne!(header(&after, "etag"), header(&before, "etag"));
    assert_eq!(server.get("/d.mp4", &[]).status, 404);
}

#[test]
fn a_file_that_changes_in_place_is_not_sent_until_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    write_files(folder.path());
    let server = TestServer::with(folder.path(), &[]);
    let etag = header(&server.get("/c.pdf", &[]), "etag").to_owned();
    let path = folder.path().join("c.pdf");
    let same_length = vec![b'x'; 300 << 10];
    for (change, new) in [("the content", &same_length[..]), ("the length", &same_length[..290 << 10])] {
        File::options()
            .write(true)
            .open(&path)
            .and_then(|mut file| {
                file.write_all(new)?;
                file.set_len(new.len() as u64)
            })
            .expect("it can be written");
        for headers in [&[][..], &[("Range", "bytes=0-9")], &[("If-None-Match", &*etag)]] {
            let answers = [
                server.get("/c.pdf", headers),
                server.request("HEAD", "/c.pdf", headers, b""),
                Http2::open(server.address).request("GET", "/c.pdf", headers, b"").expect("an answer"),
            ];
            for answer in answers {
                assert_eq!((answer.status, answer.header("etag")), (503, None), "{change}");
                assert_eq!(answer.header("retry-after"), Some("60"));
            }
        }
        assert_eq!(server.get("/a.png", &[]).status, 200, "other files are served");
    }
    server.assert_logged("a file has changed since the site was loaded, or cannot be opened");
    reload(&server);
    let answer = server.get("/c.pdf", &[]);
    assert!(answer.status == 200 && answer.body == same_length[..290 << 10]);
    assert_ne!(header(&answer, "etag"), etag);
}

#[test]
fn a_download_ends_early_if_its_file_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    write_files(folder.path());
    let server = TestServer::with(folder.path(), &[]);
    let path = folder.path().join("d.mp4");
    for length in [50 << 20, 1 << 20] {
        let mut connection = server.connect();
        connection.send(b"GET /d.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("the server reads");
        // The response has begun, and does not fit into the socket buffers.
        connection.stream().peek(&mut [0]).expect("the response begins");
        let file = File::options().write(true).open(&path).expect("it exists");
        file.set_len(length).and_then(|()| (&file).write_all(b"changed")).expect("it can be written");
        let error = connection.answer(false).expect_err("the response is not complete");
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{length}");
        reload(&server);
        assert_eq!(server.get("/d.mp4", &[]).body.len() as u64, length);
    }
}

#[test]
fn large_files_are_not_in_memory() {
    const COUNT: usize = 20;
    let folder = tempfile::tempdir().expect("a folder");
    write_build(folder.path(), "A state.");
    for number in 0..COUNT {
        fs::write(folder.path().join(format!("{number}.mp4")), content(10 << 20)).expect("it can be written");
    }
    let server = TestServer::with(folder.path(), &[]);
    let mut connection = server.connect();
    for number in 0..COUNT {
        let path = format!("/{number}.mp4");
        assert_eq!(connection.request("GET", &path, &[], b"").expect("an answer").body.len(), 10 << 20);
        let part = server.get(&path, &[("Range", "bytes=5-")]);
        assert_eq!(part.body.len(), (10 << 20) - 5);
    }
    // 200 MB of files, and what a server of an empty site needs.
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let field = |name: &str| -> usize {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux says it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    let kib = field("RssAnon:") + field("RssShmem:");
    assert!(kib < 80 << 10, "{kib} KiB");
}
