//! Limits that several servers share through Redis: they equal those of a single server, and a slow or
//! unavailable Redis does not stop requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use frontdesk_limits::rate_limiter::{self, Fallback, RateLimiter, SCRIPT};
use frontdesk_limits::rule::{LimitRule, ScriptReply};
use frontdesk_limits::{
    Admission, Layer, LimitDecision, LimitOptions, LocalLimiter, Quota, QuotaStatuses, Source,
};
use serde_json::json;

use crate::support::channel_site::until;
use crate::support::port::Port;
use crate::support::redis::{PASSWORD, Redis};
use crate::support::tls::Authority;
use crate::support::{PATIENCE, TestServer, frontdesk, small_site};

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn a_source_may_send_its_quota_and_gets_rate_limit_headers() {
    check(&limits(quota(4, 8), quota(40, 80)), |take, look| {
        let first = take(source("192.0.2.1"));
        assert_eq!(first.admission, Admission::Allowed);
        let statuses = first.statuses.expect("it is limited");
        let said = statuses.map(|s| (s.name, s.quota, s.window_seconds, s.remaining));
        assert_eq!(
            said,
            [
                ("minute", 4, 60, 3),
                ("hour", 8, 3600, 7),
                ("network-minute", 40, 60, 39),
                ("network-hour", 80, 3600, 79),
            ]
        );
        // A source regains one request every fifteen seconds.
        assert!((5..=15).contains(&statuses[0].effective_window_seconds), "{statuses:?}");
        assert!((400..=450).contains(&statuses[1].effective_window_seconds), "{statuses:?}");
        for _ in 0..3 {
            assert!(is_allowed(take(source("192.0.2.1"))));
        }
        for _ in 0..3 {
            let refused = take(source("192.0.2.1"));
            assert_refused(refused, Layer::Source, 15);
            // Refused requests cost nothing.
            assert_eq!(remaining(refused.statuses), [0, 4, 36, 76]);
        }
        assert_eq!(remaining(look(source("192.0.2.1"))), [0, 4, 36, 76]);
    });
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn the_hourly_quota_applies_beside_the_minutely_one() {
    check(&limits(quota(12, 4), quota(40, 80)), |take, _| {
        for _ in 0..4 {
            assert!(is_allowed(take(source("192.0.2.1"))));
        }
        assert_refused(take(source("192.0.2.1")), Layer::Source, 900);
    });
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn a_refusal_by_the_network_quota_does_not_charge_the_source() {
    check(&limits(quota(2, 4), quota(3, 30)), |take, look| {
        for neighbors in [
            ["192.0.2.1", "192.0.2.2", "198.51.100.1"],
            ["2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:2:1::1"],
        ] {
            let [first, second, stranger] = neighbors.map(source);
            assert!(is_allowed(take(first)) && is_allowed(take(first)));
            assert!(is_allowed(take(second)));
            assert_refused(take(second), Layer::Network, 20);
            assert_eq!(remaining(look(second)), [1, 3, 0, 27]);
            assert_refused(take(first), Layer::Source, 30);
            assert!(is_allowed(take(stranger)));
        }
    });
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn a_quota_status_query_consumes_no_quota() {
    check(&limits(quota(4, 8), quota(40, 80)), |take, look| {
        for _ in 0..20 {
            assert_eq!(remaining(look(source("192.0.2.1"))), [4, 8, 40, 80]);
        }
        let taken = take(source("192.0.2.1")).statuses;
        assert_eq!(remaining(taken), remaining(look(source("192.0.2.1"))));
    });
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn over_a_simulated_day_the_script_decides_as_a_limiter_does() {
    let redis = Redis::start();
    let mut script = Script::of(&redis);
    let mut random = 1u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % below
    };
    let mut refused = [0; 2];
    for (number, (a, b, c, d)) in
        [(3, 20, 5, 40), (30, 300, 300, 3000), (7, 99_991, 1_000_000, 1_000_000)].into_iter().enumerate()
    {
        let options = limits(quota(a, b), quota(c, d));
        let (limiter, start, rule) = (LocalLimiter::new(&options), Instant::now(), LimitRule::new(&options));
        let mut now = Duration::ZERO;
        for _ in 0..4_000 {
            now += Duration::from_micros(draw(4_000_000));
            let host = draw(3);
            let keys = [format!("{number}:{host}"), format!("{number}:all")];
            let entry = script.at(Duration::from_secs(1_800_000_123) + now, &keys, &rule);
            let theirs = rule.decide(entry).expect("the rule leads there");
            let ours =
                limiter.check(Source::V4([192, 0, 2, u8::try_from(host).expect("small")]), start + now);
            assert_alike(ours, theirs);
            if let Admission::Refused { by, .. } = ours.admission {
                refused[usize::from(by == Layer::Network)] += 1;
            }
        }
    }
    assert!(refused.iter().all(|count| *count > 100), "{refused:?}");
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn a_clock_set_back_neither_resets_quotas_nor_locks_sources_out() {
    let redis = Redis::start();
    let mut script = Script::of(&redis);
    let rule = LimitRule::new(&limits(quota(4, 8), quota(40, 80)));
    let keys = ["a", "b"].map(str::to_owned);
    let noon = Duration::from_hours(500_000);
    let before = |seconds| noon.saturating_sub(Duration::from_secs(seconds));
    let mut is_allowed = |at| script.at(at, &keys, &rule).is_allowed;
    assert_eq!([noon; 5].map(&mut is_allowed), [true, true, true, true, false]);
    assert!(!is_allowed(before(5)));
    assert!(!is_allowed(noon + Duration::from_secs(14)));
    assert!(is_allowed(noon + Duration::from_secs(16)));
    assert!(is_allowed(before(3600)));
    assert!(is_allowed(before(86_400)));
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn three_servers_let_through_the_quota_of_one() {
    let redis = Redis::start();
    // A source regains one request every ninety seconds.
    let options = limits(quota(1000, 40), quota(1000, 80));
    let allowed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let gate = Arc::new(shared(&redis, &options));
            for _ in 0..2 {
                let (gate, allowed) = (gate.clone(), &allowed);
                scope.spawn(move || {
                    for _ in 0..60 {
                        if is_allowed(take(&gate, source("192.0.2.1"))) {
                            allowed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    assert_eq!(gate.metrics().expect("it is shared").fallbacks, [0; 3]);
                });
            }
        }
    });
    assert_eq!(allowed.into_inner(), 40);
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn without_redis_a_server_uses_local_limits_and_reconnects_by_itself() {
    let mut redis = Redis::start();
    let options = limits(quota(1000, 20), quota(1000, 80));
    let gate = shared(&redis, &options);
    assert_eq!((0..12).filter(|_| is_allowed(take(&gate, source("192.0.2.1")))).count(), 12);
    redis.kill();
    // Eight of the twenty are left: the local quota counted the earlier requests too.
    assert_eq!((0..20).filter(|_| is_allowed(take(&gate, source("192.0.2.1")))).count(), 8);
    let figures = gate.metrics().expect("it is shared");
    assert!(!figures.is_connected);
    assert_eq!(figures.fallbacks.iter().sum::<u64>(), 20);
    assert!(figures.fallbacks[Fallback::Failed as usize] <= 1, "{figures:?}");
    let tally = gate.local.counts();
    assert_eq!((tally.allowed, tally.refused_by_source), (20, 12));

    redis.restart();
    until(|| gate.metrics().filter(|figures| figures.is_connected)).expect("it comes back");
    // Redis has lost all counts and starts again from zero.
    assert_eq!((0..30).filter(|_| is_allowed(take(&gate, source("192.0.2.1")))).count(), 20);
    assert_eq!(gate.metrics().expect("it is shared").fallbacks, figures.fallbacks);
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn a_silent_redis_delays_three_requests_at_most() {
    let redis = Redis::start();
    let options = limits(quota(1000, 400), quota(1000, 800));
    let gate = shared_for(&redis, &options, Duration::from_secs(2));
    assert!(is_allowed(take(&gate, source("192.0.2.1"))));
    redis.pause();
    let mut longest = Duration::ZERO;
    for _ in 0..100 {
        let began = Instant::now();
        assert!(is_allowed(take(&gate, source("192.0.2.1"))));
        longest = longest.max(began.elapsed());
    }
    println!("the longest wait for a Redis that does not answer was {longest:?}");
    let figures = gate.metrics().expect("it is shared");
    assert!(figures.fallbacks[Fallback::Slow as usize] <= 3, "{figures:?}");
    assert_eq!(figures.fallbacks.iter().sum::<u64>(), 100);
    assert!(!figures.is_connected);
    // After the pause, requests use Redis again, so the number of fallbacks does not change.
    redis.resume();
    until(|| gate.metrics().filter(|figures| figures.is_connected)).expect("it comes back");
    assert!(is_allowed(take(&gate, source("192.0.2.1"))));
    assert_eq!(gate.metrics().expect("it is shared").fallbacks, figures.fallbacks);
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn a_lost_idle_connection_is_noticed() {
    let mut redis = Redis::start();
    let gate = shared(&redis, &limits(quota(4, 8), quota(40, 80)));
    redis.kill();
    until(|| gate.metrics().filter(|figures| !figures.is_connected)).expect("it is found out");
    assert_eq!(gate.metrics().expect("it is shared").fallbacks, [0; 3]);
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn a_busy_worker_opens_its_own_connection_and_replaces_broken_ones() {
    let redis = Redis::start();
    let options = limits(quota(1_000_000, 1_000_000), quota(1_000_000, 1_000_000));
    let (gate, runtime) = (shared(&redis, &options), runtime());
    let ask = || {
        runtime.block_on(async {
            for _ in 0..20 {
                gate.check(source("192.0.2.1"), Instant::now()).await;
            }
        });
    };
    // All connections except the one that requests the list.
    let connections = || {
        let list: String = redis.ask(&["CLIENT", "LIST", "TYPE", "normal"]);
        let field = |line: &str, name: &str| {
            let value = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            value.expect("the list has the field").to_owned()
        };
        let mut ids: Vec<u64> = list
            .lines()
            .filter(|line| field(line, "cmd") != "client|list")
            .map(|line| field(line, "id").parse().expect("a number"))
            .collect();
        ids.sort_unstable();
        ids
    };
    let two = until(|| {
        ask();
        Some(connections()).filter(|ids| ids.len() == 2)
    });
    let [_, own] = two.expect("one is opened").try_into().expect("two");
    let _: u64 = redis.ask(&["CLIENT", "KILL", "ID", &own.to_string()]);
    ask();
    let figures = gate.metrics().expect("it is shared");
    assert_eq!((figures.is_connected, figures.fallbacks), (true, [0; 3]));
    assert!(!connections().contains(&own));
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn a_script_that_was_thrown_away_is_loaded_again() {
    let redis = Redis::start();
    let gate = shared(&redis, &limits(quota(4, 8), quota(40, 80)));
    for left in (0..3).rev() {
        let _: () = redis.ask(&["SCRIPT", "FLUSH"]);
        assert_eq!(remaining(take(&gate, source("192.0.2.1")).statuses)[0], left + 1);
    }
    assert_eq!(gate.metrics().expect("it is shared").fallbacks, [0; 3]);
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn a_redis_that_accepts_no_writes_counts_as_unavailable() {
    let redis = Redis::start();
    let gate = shared(&redis, &limits(quota(4, 8), quota(40, 80)));
    let _: () = redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(is_allowed(take(&gate, source("192.0.2.1"))));
    until(|| gate.metrics().filter(|figures| !figures.is_connected)).expect("it is not used");
    let options = redis_options(&redis.url(), PATIENCE);
    until(|| rate_limiter::test_connection(&options).unwrap_err().contains("(OOM)").then_some(()))
        .expect("the reason");
    let _: () = redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    until(|| gate.metrics().filter(|figures| figures.is_connected)).expect("it is used again");
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn redis_errors_are_explained() {
    let redis = Redis::start();
    let _: () = redis.ask(&["ACL", "SETUSER", "reader", "on", ">x", "~frontdesk:*", "+@read", "+script"]);
    let _: () = redis.ask(&[
        "ACL",
        "SETUSER",
        "frontdesk",
        "on",
        ">x",
        "~frontdesk:*",
        "-@all",
        "+eval",
        "+evalsha",
        "+script|load",
        "+time",
        "+mget",
        "+set",
    ]);
    let test_connection =
        |url: &str| rate_limiter::test_connection(&redis_options(url, Duration::from_millis(500)));
    let check = |url: &str, expected: &str| {
        let mut said = String::new();
        until(|| {
            said = test_connection(url).unwrap_err();
            assert!(!said.contains(PASSWORD), "{said}");
            said.contains(expected).then_some(())
        })
        .unwrap_or_else(|| panic!("{said}"));
    };
    // Each attempt times out after a second, which is sometimes too short on a busy machine.
    until(|| test_connection(&redis.url()).ok()).expect("it is as it should be");
    // The documented permissions are sufficient.
    until(|| test_connection(&redis.url_for("frontdesk", "x")).ok()).expect("it may do what is needed");
    check(&redis.url_for("", "wrong"), "different user or password");
    check(&format!("redis://127.0.0.1:{}", redis.port()), "different user or password");
    check(&format!("{}/99", redis.url()), "no database with the number");
    check(&redis.url_for("reader", "x"), "the user lacks permissions");
    check(&format!("redis://:x@{}", Port::reserve().address()), "the connection failed");
    let follower =
        Redis::with(&["--requirepass", PASSWORD, "--replicaof", "127.0.0.1", &redis.port().to_string()]);
    check(&follower.url(), "it is a read-only replica");
    let node = Redis::with(&["--requirepass", PASSWORD, "--cluster-enabled", "yes"]);
    check(&node.url(), "it is part of a cluster");
    redis.pause();
    check(&redis.url(), "it does not respond in time");
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn limits_are_shared_over_tls_with_an_authority_that_is_trusted() {
    let authority = Authority::new();
    let redis = Redis::with_tls(&authority);
    let options = rate_limiter::RedisOptions::parse(&redis.tls_url()).expect("an address");
    until(|| {
        let said = rate_limiter::test_connection(&options).unwrap_err();
        (said.contains("the connection failed") && said.contains("certificate")).then_some(())
    })
    .expect("it is not trusted");
    let ca = std::fs::read(authority.file()).expect("it is there");
    let mut trusting = redis_options(&redis.tls_url(), PATIENCE);
    trusting.ca = Some(ca);
    until(|| rate_limiter::test_connection(&trusting).ok()).expect("it is trusted");
    let gate = RateLimiter::new(&limits(quota(4, 8), quota(40, 80)), Some(&trusting));
    until(|| gate.metrics().filter(|figures| figures.is_connected)).expect("it is there");
    assert_eq!((0..6).filter(|_| is_allowed(take(&gate, source("192.0.2.1")))).count(), 4);
    assert_eq!(gate.metrics().expect("it is shared").fallbacks, [0; 3]);
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn redis_stores_no_address_and_forgets_recovered_sources() {
    let redis = Redis::start();
    let gate = shared(&redis, &limits(quota(4, 8), quota(40, 80)));
    take(&gate, source("192.0.2.1"));
    take(&gate, source("2001:db8:1:2::1"));
    let keys: Vec<String> = redis.ask(&["KEYS", "*"]);
    let of = |layer: &str| keys.iter().filter(|key| key.starts_with(&format!("frontdesk:{layer}:"))).count();
    // The keys of the first probes expire within milliseconds; some may remain.
    assert_eq!((of("source"), of("network"), keys.len() - of("probe")), (2, 2, 4), "{keys:?}");
    for key in keys.iter().filter(|key| !key.starts_with("frontdesk:probe:")) {
        assert!(!key.contains("192") && !key.contains("2001") && !key.contains("c0000201"), "{key}");
        let rest: i64 = redis.ask(&["PTTL", key]);
        // The used share of the hourly quotas: an eighth for sources, an eightieth for networks, and two
        // eight-hundredths for other keys.
        let expected = match key.split(':').nth(1) {
            Some("source") => 400_000..=450_001,
            Some("network") => 15_000..=45_001,
            _ => 1..=9_001,
        };
        assert!(expected.contains(&rest), "{key} {rest}");
    }
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn without_a_password_a_shared_secret_hides_addresses() {
    let redis = Redis::with(&[]);
    let url = format!("redis://127.0.0.1:{}", redis.port());
    let limits = limits(quota(4, 8), quota(40, 80));
    let gate = |secret: Option<&str>| {
        let mut options = redis_options(&url, PATIENCE);
        options.secret = secret.map(str::to_owned);
        let gate = RateLimiter::new(&limits, Some(&options));
        until(|| gate.metrics().filter(|figures| figures.is_connected)).expect("it is there");
        gate
    };
    let source_keys = || -> Vec<String> {
        let client = ::redis::Client::open(&*url).expect("an address");
        let mut connection = client.get_connection().expect("it listens");
        ::redis::cmd("KEYS").arg("frontdesk:source:*").query(&mut connection).expect("a list")
    };
    // Servers with the same secret share the quota of an address. Servers with another secret or none count
    // separately.
    let gates =
        [Some("the first secret"), Some("the first secret"), Some("the other secret"), None].map(gate);
    let allowed = |gate: &RateLimiter| (0..6).filter(|_| is_allowed(take(gate, source("192.0.2.1")))).count();
    assert_eq!(gates.each_ref().map(allowed), [4, 0, 4, 4]);
    assert_eq!(source_keys().len(), 3, "{:?}", source_keys());
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn sources_that_are_hashed_without_a_secret_are_a_warning_and_a_finding() {
    let redis = Redis::with(&[]);
    let url = format!("redis://127.0.0.1:{}", redis.port());
    let secret = "correct horse battery";
    let server = |secret: &str| {
        let environment =
            [("FRONTDESK_LIMITS__SHARED_URL", &*url), ("FRONTDESK_LIMITS__SHARED_SECRET", secret)];
        TestServer::with(&small_site(), &environment)
    };
    let run = |command: &str, secret: &str| {
        let output = frontdesk()
            .arg(command)
            .arg(small_site())
            .env("FRONTDESK_LIMITS__SHARED_URL", &url)
            .env("FRONTDESK_LIMITS__SHARED_SECRET", secret)
            .output()
            .expect("it runs");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
    };
    let (unkeyed, keyed) = (server(""), server(secret));
    unkeyed.expect(0);
    keyed.expect(0);
    let warning = "set `limits.shared_secret` to the same value on all servers";
    until(|| unkeyed.log().contains(warning).then_some(())).unwrap_or_else(|| panic!("{}", unkeyed.log()));
    until(|| keyed.log().contains("limits are shared").then_some(())).expect("they are shared");
    assert!(!keyed.log().contains("shared_secret"), "{}", keyed.log());
    let check = run("check", "");
    assert!(check.contains("`limits.shared_secret` is not set"), "{check}");
    assert!(!run("check", secret).contains("shared_secret"));
    let doctor = run("doctor", "");
    assert!(doctor.contains("fix   limits.shared_secret: sources are hashed without a secret"), "{doctor}");
    let doctor = run("doctor", secret);
    assert!(
        doctor.contains("ok    limits.shared_secret: sources are hashed with `limits.shared_secret`"),
        "{doctor}"
    );
    for said in [keyed.log(), run("check", secret), run("config", secret), doctor] {
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn disabled_limits_never_query_redis() {
    let redis = Redis::start();
    let options = LimitOptions { enabled: false, ..limits(quota(1, 1), quota(1, 1)) };
    let gate = shared(&redis, &options);
    assert_eq!(gate.metrics(), None);
    assert_eq!(take(&gate, source("192.0.2.1")).statuses, None);
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn three_running_servers_share_a_quota_and_its_headers() {
    let mut redis = Redis::start();
    let url = redis.url();
    let environment = [
        ("FRONTDESK_LIMITS__SHARED_URL", url.as_str()),
        ("FRONTDESK_LIMITS__SHARED_TIMEOUT", "1m"),
        ("FRONTDESK_LIMITS__PER_MINUTE", "100"),
        ("FRONTDESK_LIMITS__PER_HOUR", "9"),
    ];
    let mut desks = [(); 3].map(|()| TestServer::with(&small_site(), &environment));
    desks.iter().for_each(TestServer::expect_anything);
    let figure = |server: &TestServer, name: &str| {
        let text = server.ops("/metrics").text().to_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    for server in &desks {
        until(|| (figure(server, "frontdesk_limits_shared") == "1").then_some(())).expect("they are shared");
    }
    let body = |n: usize| json!({ "email": format!("ada{n}@example.com") });
    let statuses: Vec<u16> = (0..18).map(|n| desks[n % 3].post("/api/waitlist", &body(n)).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 9, "{statuses:?}");
    assert!(statuses[9..].iter().all(|status| *status == 429), "{statuses:?}");
    let looked = desks[2].get("/api/waitlist", &[]);
    assert!(
        looked.header("ratelimit").expect("the response has the header").contains("\"hour\";r=0;"),
        "{looked:?}"
    );
    for server in &desks {
        assert_eq!(figure(server, "frontdesk_limits_shared"), "1");
        assert_eq!(figure(server, "frontdesk_limits_fallbacks_total{reason=\"failed\"}"), "0");
        let count: u64 =
            figure(server, "frontdesk_limits_round_trip_seconds_count").parse().expect("a number");
        assert!(count >= 6, "{count}");
    }
    redis.kill();
    // The server has counted its own three requests, so it allows six more when it is alone.
    let statuses: Vec<u16> = (0..9).map(|n| desks[0].post("/api/waitlist", &body(100 + n)).status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 429, 429, 429]);
    assert_eq!(figure(&desks[0], "frontdesk_limits_shared"), "0");
    redis.restart();
    until(|| (figure(&desks[0], "frontdesk_limits_shared") == "1").then_some(())).expect("it comes back");
    let log = until(|| Some(desks[0].log()).filter(|log| log.matches("limits are shared").count() == 2));
    let log = log.unwrap_or_else(|| desks[0].log());
    assert_eq!(log.matches("limits are shared").count(), 2, "{log}");
    assert!(log.contains("using this server's own limits"), "{log}");
    assert!(!log.contains("sesame"), "{log}");
    // An open connection to Redis does not prevent the shutdown.
    assert_eq!(desks[0].terminate().0, Some(0));
}

#[test]
#[ignore = "needs redis-server: scripts/test limits"]
fn a_wrong_password_is_a_warning_at_the_start_and_a_finding_of_the_doctor() {
    let redis = Redis::start();
    let url = redis.url_for("", "wrong");
    let server = TestServer::with(&small_site(), &[("FRONTDESK_LIMITS__SHARED_URL", &url)]);
    let warning = "different user or password from the one in `limits.shared_url`";
    until(|| server.log().contains(warning).then_some(())).unwrap_or_else(|| panic!("{}", server.log()));
    assert_eq!(server.post("/api/waitlist", &json!({ "email": "ada@example.com" })).status, 200);
    server.expect(1);
    let doctor = |url: &str| {
        let output = frontdesk()
            .arg("doctor")
            .arg(server.site())
            .arg("--data-dir")
            .arg(server.data_dir())
            .env("FRONTDESK_LIMITS__SHARED_URL", url)
            .output()
            .expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let is_told = || {
        let said = doctor(&url);
        let is_wrong = said.contains("fix   limits.shared_url: 127.0.0.1:");
        (is_wrong && said.contains("different user or password")).then_some(())
    };
    until(is_told).unwrap_or_else(|| panic!("{}", doctor(&url)));
    let is_fine = || doctor(&redis.url()).contains("ok    limits.shared_url: 127.0.0.1:").then_some(());
    until(is_fine).unwrap_or_else(|| panic!("{}", doctor(&redis.url())));
}

/// The Lua script, with the test's clock instead of the server's.
struct Script {
    text: String,
    connection: redis::Connection,
}

impl Script {
    fn of(redis: &Redis) -> Self {
        let timed = SCRIPT.replace("call('TIME')", "{ ARGV[6], ARGV[7] }");
        // Keys would expire by the server's clock, some of them within milliseconds.
        let text = timed.replace(", 'PX', ceil(rest) + 1)", ")");
        assert!(timed != SCRIPT && text != timed);
        let client = redis::Client::open(redis.url()).expect("an address");
        Self { text, connection: client.get_connection().expect("it listens") }
    }

    /// Charges a request.
    fn at(&mut self, now: Duration, keys: &[String; 2], rule: &LimitRule) -> ScriptReply {
        let mut call = redis::cmd("EVAL");
        call.arg(&self.text).arg(2).arg(keys).arg(1);
        for quota in rule.quotas().as_flattened() {
            call.arg(quota);
        }
        call.arg(now.as_secs()).arg(now.subsec_micros());
        let answer: [u32; 5] = call.query(&mut self.connection).expect("it counts");
        let [allowed, debts @ ..] = answer;
        let entry = ScriptReply { is_allowed: allowed == 1, debts };
        assert!(rule.decide(entry).is_some(), "the rule leads there: {entry:?}");
        entry
    }
}

type Take<'a> = &'a dyn Fn(Source) -> LimitDecision;
type Look<'a> = &'a dyn Fn(Source) -> Option<QuotaStatuses>;

/// Checks a property both for a single server and for one that shares its limits.
fn check(options: &LimitOptions, promise: impl Fn(Take<'_>, Look<'_>)) {
    let alone = LocalLimiter::new(options);
    promise(&|source| alone.check(source, Instant::now()), &|source| alone.status(source, Instant::now()));
    let redis = Redis::start();
    let (gate, runtime) = (shared(&redis, options), runtime());
    promise(&|source| runtime.block_on(gate.check(source, Instant::now())), &|source| {
        runtime.block_on(gate.status(source, Instant::now()))
    });
    let figures = gate.metrics().expect("it is shared");
    assert_eq!((figures.is_connected, figures.fallbacks), (true, [0; 3]), "Redis has decided everything");
}

/// A limiter with a long timeout, because test machines are busy.
fn shared(redis: &Redis, limits: &LimitOptions) -> RateLimiter {
    shared_for(redis, limits, PATIENCE)
}

/// Options for this Redis server, with a timeout for requests.
fn redis_options(url: &str, timeout: Duration) -> rate_limiter::RedisOptions {
    let mut options = rate_limiter::RedisOptions::parse(url).expect("an address");
    options.timeout = timeout;
    options
}

/// Like [`shared`], with this timeout.
fn shared_for(redis: &Redis, limits: &LimitOptions, patience: Duration) -> RateLimiter {
    let gate = RateLimiter::new(limits, Some(&redis_options(&redis.url(), patience)));
    if limits.enabled {
        until(|| gate.metrics().filter(|figures| figures.is_connected)).expect("it is there");
    }
    gate
}

fn take(gate: &RateLimiter, source: Source) -> LimitDecision {
    runtime().block_on(gate.check(source, Instant::now()))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn is_allowed(decision: LimitDecision) -> bool {
    matches!(decision.admission, Admission::Allowed)
}

fn assert_refused(decision: LimitDecision, by: Layer, interval: u64) {
    let Admission::Refused { by: who, retry_after } = decision.admission else { panic!("{decision:?}") };
    let interval = Duration::from_secs(interval);
    assert_eq!(who, by);
    assert!(retry_after <= interval + Duration::from_millis(1), "{retry_after:?}");
    assert!(retry_after > interval.saturating_sub(Duration::from_secs(10)), "{retry_after:?}");
}

/// Asserts equality except for rounding differences of a tick.
fn assert_alike(ours: LimitDecision, theirs: LimitDecision) {
    match (ours.admission, theirs.admission) {
        (
            Admission::Refused { by, retry_after },
            Admission::Refused { by: their_by, retry_after: their_retry_after },
        ) => {
            assert_eq!(by, their_by);
            assert!(
                retry_after.abs_diff(their_retry_after) < Duration::from_millis(1),
                "{ours:?} {theirs:?}"
            );
        }
        (ours, theirs) => assert_eq!(ours, theirs),
    }
    assert_eq!(remaining(ours.statuses), remaining(theirs.statuses));
    let windows = |decision: LimitDecision| {
        decision.statuses.expect("it is limited").map(|status| status.effective_window_seconds)
    };
    for (ours, theirs) in windows(ours).into_iter().zip(windows(theirs)) {
        assert!(ours.abs_diff(theirs) <= 1, "{ours} {theirs}");
    }
}

fn remaining(statuses: Option<QuotaStatuses>) -> [u32; 4] {
    statuses.expect("it is limited").map(|standing| standing.remaining)
}

fn limits(source: Quota, network: Quota) -> LimitOptions {
    LimitOptions { source, network, ..LimitOptions::default() }
}

fn quota(per_minute: u32, per_hour: u32) -> Quota {
    Quota { per_minute, per_hour }
}

fn source(address: &str) -> Source {
    Source::from(address.parse::<std::net::IpAddr>().expect("an address"))
}
