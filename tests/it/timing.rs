//! Neither the bytes nor the timing of a response reveal whether an address was already on the waitlist.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::json;

use crate::support::{Connection, TestServer, compose, small_site};

/// The number of submissions of each kind. They are sent one after another, so that none of them delays
/// another.
const PER_KIND: usize = 20_000;

/// Welch's t above which two samples are considered different. Leakage tests such as dudect use 4.5.
const BOUND: f64 = 4.5;

/// The number of other connections that send at the same time.
const CROWD: usize = 4;

/// The number of comparisons that must all find a difference for the test to fail.
const SAMPLES: usize = 3;

/// The response's headers and body without the date.
fn bytes(connection: &mut Connection, email: &str) -> Vec<(String, String)> {
    let body = json!({ "email": email }).to_string();
    let answer = connection
        .request("POST", "/api/waitlist", &[("Content-Type", "application/json")], body.as_bytes())
        .expect("an answer");
    let mut all = answer.headers;
    all.retain(|(name, _)| name != "date");
    all.push(("status".into(), answer.status.to_string()));
    all.push(("body".into(), String::from_utf8(answer.body).expect("it is text")));
    all
}

#[test]
fn a_known_address_gets_the_same_bytes_as_a_new_one() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let first = bytes(&mut connection, "ada@example.com");
    let again = bytes(&mut connection, "ada@example.com");
    let other = bytes(&mut connection, "bob@example.com");
    assert_eq!(first, again);
    assert_eq!(first, other);
    server.expect(2);
    // With limits enabled, each submission reduces the remaining quota by the same amount.
    let limited = TestServer::with(&small_site(), &[]);
    let mut connection = limited.connect();
    let counts: Vec<_> = ["ada@example.com", "ada@example.com", "bob@example.com"]
        .map(|email| bytes(&mut connection, email))
        .into_iter()
        .map(|answer| {
            answer.into_iter().find(|(name, _)| name == "ratelimit").expect("the response has the header").1
        })
        .collect();
    assert!(counts[0] != counts[1] && counts[1] != counts[2], "{counts:?}");
    limited.expect(2);
}

/// Welch's t of two samples.
fn welch(a: &[f64], b: &[f64]) -> f64 {
    let moments = |sample: &[f64]| {
        let n = f64::from(u32::try_from(sample.len()).expect("it is a small sample"));
        let mean = sample.iter().sum::<f64>() / n;
        let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, variance / n)
    };
    let ((mean_a, error_a), (mean_b, error_b)) = (moments(a), moments(b));
    (mean_a - mean_b) / (error_a + error_b).sqrt()
}

/// Compares the times of known and new addresses, up to [`SAMPLES`] times, and fails if they differ in the
/// same direction each time.
///
/// The chance that this fails for a server that leaks nothing is below 1e-6: if the means are normally
/// distributed, |t| > 4.5 has a chance of 7e-6 in one comparison. Even if other programs on the machine raise
/// that chance to one in a hundred, the chance of three differences in the same direction is 2 × 0.005³ =
/// 2.5e-7. Repeating the comparison does not hide a leak, because a difference in means is found each time.
fn assert_equal_times(server: &TestServer) {
    let mut direction = None;
    for sample in 0..SAMPLES {
        let t = compare(server, sample);
        if t.abs() < BOUND || direction.is_some_and(|before| before != t.is_sign_positive()) {
            return;
        }
        direction = Some(t.is_sign_positive());
    }
    panic!("the times differ in each of {SAMPLES} comparisons");
}

#[test]
#[ignore = "40,000 submissions one after the other take a minute: scripts/test door"]
fn a_known_address_takes_as_long_as_a_new_one() {
    let server = TestServer::start();
    server.expect_anything();
    assert_equal_times(&server);
}

#[test]
#[ignore = "40,000 submissions one after the other take a minute: scripts/test door"]
fn a_known_address_takes_as_long_as_a_new_one_among_others() {
    let server = TestServer::start();
    server.expect_anything();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for other in 0..CROWD {
            let (is_over, address) = (&is_over, server.address);
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    number += 1;
                    // Each address is sent twice, so every other submission is known.
                    let body =
                        json!({ "email": format!("other{other}-{}@example.com", number / 2) }).to_string();
                    let headers = [("Content-Type", "application/json")];
                    let answer = connection.request("POST", "/api/waitlist", &headers, body.as_bytes());
                    assert_eq!(answer.expect("an answer").status, 200);
                }
            });
        }
        let _end = End(&is_over);
        assert_equal_times(&server);
    });
}

/// Stops the other connections, even if the comparison fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Welch's t of the times that new and known addresses take.
fn compare(server: &TestServer, sample: usize) -> f64 {
    let mut connection = server.connect();
    let known = "knownx@example.com";
    let length = known.len();
    bytes(&mut connection, known);
    // A deterministic coin (xorshift).
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    let mut number = 0;
    while times.iter().any(|kind| kind.len() < PER_KIND) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let is_known = state & 1 == 1;
        number += 1;
        // All addresses have the same length, so that they differ only in whether they are known.
        let fresh = format!("{sample}{number:05}@example.com");
        let email = if is_known { known.to_owned() } else { format!("{fresh:x>length$}") };
        let body = json!({ "email": email }).to_string();
        let request =
            compose("POST", "/api/waitlist", &[("Content-Type", "application/json")], body.as_bytes());
        let began = Instant::now();
        connection.send(&request).expect("sent");
        let answer = connection.answer(false).expect("an answer");
        let took = began.elapsed().as_secs_f64() * 1e6;
        assert_eq!(answer.status, 200);
        times[usize::from(is_known)].push(took);
    }
    // Delays by other processes do not depend on the group, so the slowest tenth of each is ignored.
    let mut all: Vec<f64> = times.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let bound = all[all.len() * 9 / 10];
    let kept =
        times.each_ref().map(|kind| kind.iter().copied().filter(|took| *took <= bound).collect::<Vec<_>>());
    let t = welch(&kept[0], &kept[1]);
    let median = |sample: &[f64]| {
        let mut sorted = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    eprintln!(
        "{} new, {} known, medians {:.0} and {:.0} µs, t = {t:.2}",
        kept[0].len(),
        kept[1].len(),
        median(&kept[0]),
        median(&kept[1])
    );
    t
}
