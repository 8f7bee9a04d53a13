//! Visitors that continuously read pages and send forms over persistent TLS connections, and record each
//! result.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;

use super::balancer::Balancer;
use crate::support::tls::{Client, Secure};
use crate::support::{Answer, compose};

/// The paths that visitors read.
const PAGES: [&str; 4] = ["/", "/developers/", "/llms.txt", "/sitemap.xml"];

/// One in this many requests submits a form.
const FORMS: usize = 8;

/// A visitor stops after this many failures.
const MOST_FAILURES: usize = 20;

pub struct Crowd {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Outcome>>,
}

/// The results of all requests.
#[derive(Default)]
pub struct Outcome {
    /// The number of pages that were served.
    pub pages: usize,
    /// The addresses whose forms were acknowledged.
    pub kept: Vec<String>,
    /// The errors of the other pages.
    pub lost_pages: Vec<String>,
    /// The errors of the other forms.
    pub lost_forms: Vec<String>,
}

impl Crowd {
    /// Starts this many visitors that use the balancer.
    pub fn gather(balancer: &Balancer, visitors: usize) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = (0..visitors)
            .map(|number| {
                let (stop, answered) = (stop.clone(), answered.clone());
                let (client, address) = (balancer.client(), balancer.address);
                std::thread::spawn(move || {
                    visit(number, &client, address, &answered, || stop.load(Ordering::Relaxed))
                })
            })
            .collect();
        Self { stop, answered, threads }
    }

    /// Waits until this many more requests have succeeded.
    pub fn wait_for(&self, answers: usize) {
        let before = self.answered.load(Ordering::Relaxed);
        let began = Instant::now();
        while self.answered.load(Ordering::Relaxed) < before + answers {
            assert!(began.elapsed() < Duration::from_mins(1), "hardly any request succeeds");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops the visitors and returns their combined results.
    pub fn leave(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Outcome::default();
        for thread in self.threads {
            let one = thread.join().expect("a visitor ends");
            all.pages += one.pages;
            all.kept.extend(one.kept);
            all.lost_pages.extend(one.lost_pages);
            all.lost_forms.extend(one.lost_forms);
        }
        all
    }
}

fn visit(
    number: usize,
    client: &Client,
    address: SocketAddr,
    answered: &AtomicUsize,
    is_over: impl Fn() -> bool,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut connection: Option<Secure> = None;
    for n in 0_usize.. {
        if is_over() || outcome.lost_pages.len() + outcome.lost_forms.len() > MOST_FAILURES {
            break;
        }
        let email = n.is_multiple_of(FORMS).then(|| format!("visitor{number}n{n}@example.com"));
        let page = PAGES[n % PAGES.len()];
        let request = match &email {
            Some(email) => {
                let body = json!({ "email": email }).to_string();
                let headers = [("Content-Type", "application/json")];
                compose("POST", "/api/waitlist", &headers, body.as_bytes())
            }
            None => compose("GET", page, &[], b""),
        };
        let mut exchange = || -> io::Result<Answer> {
            let mut open = match connection.take() {
                Some(open) => open,
                None => client.connect(address)?,
            };
            open.send(&request)?;
            let answer = open.answer(false)?;
            connection = (answer.header("connection") != Some("close")).then_some(open);
            Ok(answer)
        };
        let failure = match exchange() {
            Ok(answer) if answer.status == 200 && !answer.body.is_empty() => None,
            Ok(answer) => Some(answer.status.to_string()),
            Err(error) => Some(error.to_string()),
        };
        match (email, failure) {
            (Some(email), None) => outcome.kept.push(email),
            (None, None) => outcome.pages += 1,
            (Some(email), Some(failure)) => {
                outcome.lost_forms.push(format!("{email}: {failure}"));
                continue;
            }
            (None, Some(failure)) => {
                outcome.lost_pages.push(format!("{page}: {failure}"));
                continue;
            }
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
    outcome
}
