//! Disk usage by senders: byte budgets per source and network, and the reserve of free space for small
//! submissions.

use rustix::process::Signal;
use serde_json::json;

use crate::ops::Figures;
use crate::support::channel_site::until;
use crate::support::{Answer, TestServer, frontdesk, small_site, store_of};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Sends a contact message with a body of this many bytes. `number` makes it unique.
fn send(server: &TestServer, from: &str, bytes: usize, number: usize) -> Answer {
    let body =
        |message: &str| json!({ "name": "A", "email": "a@example.com", "message": message }).to_string();
    let start = format!("{number} ");
    let padding = "x".repeat(bytes - body(&start).len());
    server.request(
        "POST",
        "/api/contact",
        &[JSON, ("X-Forwarded-For", from)],
        body(&(start + &padding)).as_bytes(),
    )
}

/// The value of `Retry-After` in seconds. Asserts that the body holds exactly one error.
fn retry_after(answer: &Answer) -> u64 {
    assert_eq!(answer.json().as_object().map(serde_json::Map::len), Some(1), "exactly an error");
    answer.header("retry-after").and_then(|seconds| seconds.parse().ok()).expect("seconds")
}

#[test]
fn past_a_byte_budget_a_source_gets_429_and_others_go_on() {
    // A source regains 56 bytes in a minute and a network 104, so the result does not depend on the duration
    // of the test.
    let server = TestServer::with(
        &small_site(),
        &[
            ("FRONTDESK_LIMITS__BYTES_PER_DAY", "80kB"),
            ("FRONTDESK_LIMITS__NETWORK_BYTES_PER_DAY", "150kB"),
            ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.0/8"),
        ],
    );
    let mut number = 0..;
    let mut status = |from: &str, bytes: usize| {
        let answer = send(&server, from, bytes, number.next().unwrap_or_default());
        if answer.status != 200 {
            let seconds = retry_after(&answer);
            assert!((1..=86_400).contains(&seconds), "{seconds}");
            assert!(answer.text().contains(&format!("{seconds} second")), "{}", answer.text());
            assert!(answer.header("ratelimit").is_some());
        }
        answer.status
    };
    // A body that is refused for another reason does not count.
    let without_address = json!({ "name": "A", "message": "x".repeat(19_000) }).to_string();
    let headers = [JSON, ("X-Forwarded-For", "192.0.2.1")];
    for _ in 0..5 {
        assert_eq!(server.request("POST", "/api/contact", &headers, without_address.as_bytes()).status, 400);
    }
    assert_eq!([0; 4].map(|_| status("192.0.2.1", 20_000)), [200; 4]);
    assert_eq!(status("192.0.2.1", 20_000), 429);
    assert_eq!(status("192.0.2.2", 20_000), 200, "another source in the network has a separate budget");
    assert_eq!([0; 2].map(|_| status("192.0.2.2", 20_000)), [200; 2]);
    assert_eq!(status("192.0.2.3", 20_000), 429, "the network has sent 140 kB of 150");
    assert_eq!(status("192.0.2.3", 2_000), 200);
    assert_eq!([status("198.51.100.1", 20_000), status("2001:db8::1", 20_000)], [200, 200]);
    let figures = Figures::of(server.ops("/metrics").text());
    for (layer, count) in [("source", 1), ("network", 1)] {
        assert_eq!(figures.get(&format!("frontdesk_byte_limited_total{{layer=\"{layer}\"}}")), count);
    }
    assert_eq!(figures.get("frontdesk_submissions_total{form=\"contact\",verdict=\"limited\"}"), 2);
    server.expect(10);
}

#[test]
fn without_limits_there_is_no_byte_budget() {
    let server = TestServer::with(
        &small_site(),
        &[("FRONTDESK_LIMITS__ENABLED", "false"), ("FRONTDESK_LIMITS__BYTES_PER_DAY", "64KiB")],
    );
    for number in 0..6 {
        assert_eq!(send(&server, "192.0.2.1", 20_000, number).status, 200);
    }
    server.expect(6);
}

#[test]
fn below_the_reserve_only_small_submissions_are_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let setting = folder.path().join("min_free");
    std::fs::write(&setting, "1000TiB").expect("a file");
    let server = TestServer::with(
        &small_site(),
        &[
            ("FRONTDESK_LIMITS__ENABLED", "false"),
            ("FRONTDESK_STORE__MIN_FREE_FILE", setting.to_str().expect("a name")),
        ],
    );
    if store_of(&server.data_dir()).is_some() {
        // This inbox does not store submissions on the local disk.
        assert_eq!(send(&server, "192.0.2.1", 20_000, 0).status, 200);
        server.expect(1);
        return;
    }
    let refused = send(&server, "192.0.2.1", 4_097, 0);
    assert_eq!((refused.status, retry_after(&refused)), (500, 600));
    assert!(refused.text().contains("4 KiB") && refused.header("x-request-id").is_some(), "{refused:?}");
    assert_eq!(send(&server, "192.0.2.1", 4_096, 1).status, 200);
    assert_eq!(server.get("/", &[]).status, 200);
    assert_eq!(server.ops("/readyz").status, 200);
    let figures = || Figures::of(server.ops("/metrics").text());
    let low = figures();
    assert_eq!((low.get("frontdesk_disk_low"), low.get("frontdesk_disk_reserve_bytes")), (1, 1000 << 40));
    assert!(low.get("frontdesk_disk_free_bytes") <= low.get("frontdesk_disk_size_bytes"));
    assert_eq!(low.get("frontdesk_submissions_total{form=\"contact\",verdict=\"low_disk\"}"), 1);
    assert_eq!(digest(&server, "1000TiB").matches("is free on the inbox's disk").count(), 1);
    assert_eq!(digest(&server, "off"), "Nothing needs your attention.\n");

    std::fs::write(&setting, "1B").expect("a file");
    server.signal(Signal::HUP);
    until(|| (figures().get("frontdesk_disk_low") == 0).then_some(())).expect("there is room");
    assert_eq!(send(&server, "192.0.2.1", 20_000, 2).status, 200);
    let said = |words: &str| server.log().matches(words).count();
    until(|| (said("free space is above `store.min_free` again") == 1).then_some(())).expect("it says so");
    assert_eq!(said("free space is below `store.min_free`"), 1, "logged once, not for each request");
    server.expect(2);
}

/// The output of `frontdesk inbox digest` with this `min_free`.
fn digest(server: &TestServer, min_free: &str) -> String {
    let mut command = frontdesk();
    command.args(["inbox", "digest", "--site"]).arg(server.site()).arg("--data-dir").arg(server.data_dir());
    let output = command.env("FRONTDESK_STORE__MIN_FREE", min_free).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}
