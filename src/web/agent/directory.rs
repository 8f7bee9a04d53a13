//! The keys that an agent publishes (draft-meunier-http-message-signatures-directory), fetched when they are needed and kept for
//! as long as the answer says, within bounds.
//!
//! Who sends requests decides neither what is fetched nor how often: only directories that the operator names are, each by one
//! fetch at a time, at most once a minute after a success, and ever less often while it fails. A directory may sign its answer,
//! with the keys that are in it; that is not looked at, because TLS says already whose answer it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::Why;
use super::key::Key;
use super::replays::Replays;
use super::signature::Claim;
use crate::fetch::{Answer, Client, Url};

/// Where a directory is, on every host (RFC 8615).
pub const WELL_KNOWN: &str = "/.well-known/http-message-signatures-directory";

/// What it is: a JWK set.
pub const MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";

/// How long keys are fresh where the answer does not say, and the bounds of what it may say.
const USUAL_LIFETIME: i64 = 60 * 60;
const SHORTEST_LIFETIME: i64 = 5 * 60;
const LONGEST_LIFETIME: i64 = 24 * 60 * 60;

/// For how long keys that are no longer fresh still count while no new ones can be had.
const LONGEST_STALE: i64 = 24 * 60 * 60;

/// After a success, how long a key that is not there is not looked for again; after a failure, the shortest and longest pause.
const PAUSE: i64 = 60;
const LONGEST_PAUSE: i64 = 60 * 60;

/// No fetch takes longer, all phases taken together.
const LONGEST_FETCH: Duration = Duration::from_secs(15);

/// A directory that the operator trusts to say who its agents are.
#[derive(Debug)]
pub(super) struct Directory {
    url: Url,
    state: Mutex<State>,
    /// Told after each fetch.
    fetched: watch::Sender<()>,
    replays: Mutex<Replays>,
}

/// What is known of a directory. Times are seconds since 1970.
#[derive(Debug, Default)]
struct State {
    keys: Arc<[Key]>,
    fresh_until: i64,
    next_fetch: i64,
    failures: u32,
    is_under_way: bool,
}

/// What to do about one key.
#[derive(Debug)]
enum Step {
    /// It is known.
    Use(Arc<[Key]>),
    /// It may be there once the fetch that is under way is done.
    Wait,
    /// It is not to be had, and the next fetch is not due.
    Refuse(Why),
}

impl Directory {
    /// The directory at a URL, which has no path of its own.
    pub(super) fn new(url: &Url) -> Directory {
        let url = url.with_target(WELL_KNOWN);
        let (state, replays) = (Mutex::default(), Mutex::default());
        Directory { url, state, fetched: watch::Sender::new(()), replays }
    }

    /// Its host, with the port where that is not the scheme's own.
    pub(super) fn name(&self) -> String {
        self.url.authority()
    }

    /// Whether an agent that writes its directory so means this one: by its origin, or by the very URL.
    pub(super) fn is_meant_by(&self, text: &str) -> bool {
        Url::parse(text).is_ok_and(|url| {
            let is_same = (url.scheme(), url.host(), url.port())
                == (self.url.scheme(), self.url.host(), self.url.port());
            is_same && matches!(url.target(), "/" | WELL_KNOWN)
        })
    }

    /// Keys among which is the one of this thumbprint. A key that is not known is waited for until the deadline, where a fetch is
    /// due or under way.
    pub(super) async fn keys_with(
        self: &Arc<Self>,
        client: &Arc<Client>,
        key_id: &str,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Arc<[Key]>, Why> {
        let (step, mut fetched) = {
            let mut state = self.state();
            let (step, begins) = state.decide(key_id, now);
            let fetched = self.fetched.subscribe();
            if begins {
                let attempt = Attempt { directory: Arc::clone(self), began: now, result: None };
                tokio::spawn(attempt.run(Arc::clone(client)));
            }
            (step, fetched)
        };
        match step {
            Step::Use(keys) => Ok(keys),
            Step::Refuse(why) => Err(why),
            Step::Wait => {
                let _ = timeout_at(deadline, fetched.changed()).await;
                self.state().known(key_id, now)
            }
        }
    }

    /// Records that a signature counts; an error where it has counted before. See [`Replays::record`].
    pub(super) fn record(&self, claim: &Claim, now: Timestamp) -> Result<(), Why> {
        let mut replays = self.replays.lock().unwrap_or_else(PoisonError::into_inner);
        replays.record(&claim.key_id, claim.identity(), claim.expires, now)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What to do about a key, and whether a fetch begins with that.
    fn decide(&mut self, key_id: &str, now: Timestamp) -> (Step, bool) {
        let known = self.known(key_id, now);
        let is_enough = known.is_ok() && now.as_second() < self.fresh_until;
        let begins = !is_enough && !self.is_under_way && now.as_second() >= self.next_fetch;
        self.is_under_way |= begins;
        let step = match known {
            Ok(keys) => Step::Use(keys),
            Err(_) if self.is_under_way => Step::Wait,
            Err(why) => Step::Refuse(why),
        };
        (step, begins)
    }

    /// The keys, if this one is among them and they still count.
    fn known(&self, key_id: &str, now: Timestamp) -> Result<Arc<[Key]>, Why> {
        if self.keys.is_empty() || now.as_second() >= self.fresh_until.saturating_add(LONGEST_STALE) {
            return Err(Why::Unavailable);
        }
        if self.keys.iter().any(|key| key.id() == key_id) {
            Ok(Arc::clone(&self.keys))
        } else {
            Err(Why::Key)
        }
    }

    /// Takes the keys over, or the failure; what was known before stays until it is too old.
    fn record(&mut self, result: Option<(Vec<Key>, i64)>, now: Timestamp) {
        let now = now.as_second();
        self.is_under_way = false;
        if let Some((keys, lifetime)) = result {
            self.keys = keys.into();
            self.fresh_until = now.saturating_add(lifetime);
            self.next_fetch = now.saturating_add(PAUSE);
            self.failures = 0;
        } else {
            let pause = (PAUSE << self.failures.min(6)).min(LONGEST_PAUSE);
            self.next_fetch = now.saturating_add(pause);
            self.failures += 1;
        }
    }
}

/// One fetch. However it ends, also by the end of the thread that it runs on, the directory hears of it.
struct Attempt {
    directory: Arc<Directory>,
    began: Timestamp,
    result: Option<(Vec<Key>, i64)>,
}

impl Attempt {
    async fn run(mut self, client: Arc<Client>) {
        let directory = self.directory.name();
        let fetch = async { read(&client.get(&self.directory.url, MEDIA_TYPE).await?) };
        let result = timeout(LONGEST_FETCH, fetch).await;
        match result.unwrap_or_else(|_| Err(format!("not done within {} s", LONGEST_FETCH.as_secs()))) {
            Ok(found) => self.result = Some(found),
            Err(error) => {
                tracing::warn!(directory, %error, "an agents' directory could not be read");
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.directory.state().record(self.result.take(), self.began);
        self.directory.fetched.send_replace(());
    }
}

/// The keys in an answer and for how many seconds they are fresh, or what is wrong with it.
fn read(answer: &Answer) -> Result<(Vec<Key>, i64), String> {
    if answer.status != StatusCode::OK {
        return Err(format!("the answer's status is {}", answer.status.as_u16()));
    }
    let media_type = answer.headers.get(CONTENT_TYPE).map_or(&b""[..], http::HeaderValue::as_bytes);
    let media_type = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !media_type.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes()) {
        return Err(format!("the answer is not {MEDIA_TYPE}"));
    }
    if !answer.is_whole {
        return Err("the answer is too long, too slow or cut off".to_owned());
    }
    let keys = Key::read_set(&answer.body).ok_or("the answer is no JWK set")?;
    if keys.is_empty() {
        return Err("there is no key that signatures can be verified with".to_owned());
    }
    Ok((keys, lifetime(&answer.headers)))
}

/// `max-age` (RFC 9111 §5.2.2.1), within the bounds. Who forbids to keep it is asked as often as the shortest lifetime allows.
fn lifetime(headers: &HeaderMap) -> i64 {
    let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let mut lifetime = None;
    for directive in lines.flat_map(|line| line.split(',')).map(str::trim) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        let seconds = match name.to_ascii_lowercase().as_str() {
            "no-store" | "no-cache" => 0,
            "max-age" => value.trim_matches('"').parse().unwrap_or(0),
            _ => continue,
        };
        lifetime = Some(lifetime.map_or(seconds, |lifetime: i64| lifetime.min(seconds)));
    }
    lifetime.unwrap_or(USUAL_LIFETIME).clamp(SHORTEST_LIFETIME, LONGEST_LIFETIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";
    const JSON: &str =
        r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}]}"#;

    #[test]
    fn a_first_request_begins_the_only_fetch_and_the_others_wait_for_it() {
        let mut state = State::default();
        decides(&mut state, KNOWN, 0, "Wait", true);
        decides(&mut state, KNOWN, 1, "Wait", false);
        decides(&mut state, "other", 1, "Wait", false);
        state.record(Some(fetched(300)), at(0));
        decides(&mut state, KNOWN, 2, "Use", false);
    }

    #[test]
    fn a_key_that_is_not_there_is_looked_for_once_a_minute() {
        let mut state = State::default();
        state.record(Some(fetched(3600)), at(0));
        decides(&mut state, "other", 59, "Refuse(Key)", false);
        decides(&mut state, "other", 60, "Wait", true);
        state.record(Some(fetched(3600)), at(60));
        decides(&mut state, "other", 119, "Refuse(Key)", false);
        decides(&mut state, KNOWN, 119, "Use", false);
    }

    #[test]
    fn what_is_stale_is_used_while_new_keys_are_fetched_and_not_for_ever() {
        let mut state = State::default();
        state.record(Some(fetched(300)), at(0));
        decides(&mut state, KNOWN, 299, "Use", false);
        decides(&mut state, KNOWN, 300, "Use", true);
        state.record(None, at(300));
        decides(&mut state, KNOWN, 301, "Use", false);
        decides(&mut state, KNOWN, 360, "Use", true);
        state.record(None, at(360));
        decides(&mut state, KNOWN, 300 + LONGEST_STALE - 1, "Use", true);
        decides(&mut state, KNOWN, 300 + LONGEST_STALE, "Wait", false);
        state.record(None, at(300 + LONGEST_STALE));
        decides(&mut state, KNOWN, 301 + LONGEST_STALE, "Refuse(Unavailable)", false);
    }

    #[test]
    fn a_directory_that_fails_is_asked_ever_less_often() {
        let mut state = State::default();
        let mut now = 0;
        for pause in [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600] {
            decides(&mut state, KNOWN, now, "Wait", true);
            state.record(None, at(now));
            decides(&mut state, KNOWN, now + pause - 1, "Refuse(Unavailable)", false);
            now += pause;
        }
    }

    #[test]
    fn an_answer_is_a_whole_directory_or_a_failure() {
        let good = || Answer {
            status: StatusCode::OK,
            headers: [(CONTENT_TYPE, MEDIA_TYPE.parse().unwrap())].into_iter().collect(),
            body: JSON.into(),
            is_whole: true,
        };
        assert!(read(&good()).is_ok_and(|(keys, lifetime)| keys.len() == 1 && lifetime == USUAL_LIFETIME));
        let mut with_parameter = good();
        with_parameter.headers.insert(CONTENT_TYPE, format!("{MEDIA_TYPE}; charset=utf-8").parse().unwrap());
        assert!(read(&with_parameter).is_ok());
        let mut html = good();
        html.headers.insert(CONTENT_TYPE, "text/html".parse().unwrap());
        fails(&html, "is not application/http-message");
        fails(&Answer { status: StatusCode::FOUND, ..good() }, "status is 302");
        fails(&Answer { is_whole: false, ..good() }, "cut off");
        fails(&Answer { body: b"{}".to_vec(), ..good() }, "no JWK set");
        fails(&Answer { body: br#"{"keys":[]}"#.to_vec(), ..good() }, "no key");
    }

    #[test]
    fn lifetimes_stay_within_bounds() {
        for (lines, expected) in [
            (&[][..], USUAL_LIFETIME),
            (&["public"], USUAL_LIFETIME),
            (&["max-age=7200"], 7200),
            (&["public, Max-Age=\"7200\""], 7200),
            (&["max-age=7200", "max-age=3600"], 3600),
            (&["max-age=0"], SHORTEST_LIFETIME),
            (&["max-age=-1"], SHORTEST_LIFETIME),
            (&["max-age=99999999999999999999"], SHORTEST_LIFETIME),
            (&["max-age=31536000"], LONGEST_LIFETIME),
            (&["no-store, max-age=7200"], SHORTEST_LIFETIME),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(CACHE_CONTROL, line.parse().unwrap());
            }
            assert_eq!(lifetime(&headers), expected, "{lines:?}");
        }
    }

    #[test]
    fn an_agent_means_a_directory_by_its_origin() {
        let directory = Directory::new(&Url::parse("https://agent.example.com").unwrap());
        for (text, expected) in [
            ("https://agent.example.com", true),
            ("https://agent.example.com/", true),
            ("https://Agent.Example.com:443", true),
            ("https://agent.example.com/.well-known/http-message-signatures-directory", true),
            ("https://agent.example.com/other", false),
            ("https://agent.example.com/?x", false),
            ("https://agent.example.com:8443", false),
            ("https://other.example.com", false),
            ("http://agent.example.com", false),
            ("https://agent.example.com.", false),
            ("agent.example.com", false),
            ("data:application/json,{}", false),
            ("", false),
        ] {
            assert_eq!(directory.is_meant_by(text), expected, "{text}");
        }
        assert_eq!(directory.name(), "agent.example.com");
    }

    fn fetched(lifetime: i64) -> (Vec<Key>, i64) {
        (Key::read_set(JSON.as_bytes()).unwrap(), lifetime)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn decides(state: &mut State, key_id: &str, now: i64, expected: &str, begins: bool) {
        let (step, found) = state.decide(key_id, at(now));
        let shown = match step {
            Step::Use(_) => "Use".to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!((&*shown, found), (expected, begins), "{key_id} at {now}");
    }

    fn fails(answer: &Answer, part: &str) {
        let fault = read(answer).unwrap_err();
        assert!(fault.contains(part), "{fault}");
    }
}
