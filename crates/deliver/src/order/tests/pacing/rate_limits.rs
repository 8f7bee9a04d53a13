//! Floods at receivers that limit the rate, and content that a receiver defers alongside content that it
//! accepts.

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

/// Accepts `per_minute` messages a minute with a burst, as a token bucket. Refuses others with 429 and, if
/// `asks`, with the time until it accepts the next one, in whole seconds.
fn token_bucket(per_minute: u32, burst: u32, asks: bool) -> impl FnMut(&Claimed, Duration) -> Outcome {
    let step = MINUTE / per_minute;
    let mut used_until = Duration::ZERO;
    move |_, elapsed| {
        let next = used_until.max(elapsed) + step;
        let Some(wait) = next.checked_sub(elapsed + step * burst).filter(|wait| !wait.is_zero()) else {
            used_until = next;
            return Outcome::delivered("200");
        };
        let wait = Duration::from_secs(wait.as_secs() + 1);
        Outcome::failed(Cause::Deferred, "429").with_retry_after(asks.then_some(wait))
    }
}

/// Chat services limit requests per second or minute, and answer excess requests with 429 and a short
/// Retry-After. For an hour, one or a hundred networks send somewhat more than the limit.
#[test]
fn a_flood_above_a_receivers_rate_limit_delays_visitors_by_minutes() {
    for (limit, burst, asks, networks, flood, most) in
        [(30, 5, true, 1, 40, 120), (60, 1, true, 100, 70, 120), (10, 1, false, 100, 40, 2_400)]
    {
        let mut channel = Channel::new();
        let mut receive = token_bucket(limit, burst, asks);
        let mut visitors = Vec::new();
        for minute in 0..100 {
            if minute < 60 {
                let send =
                    |n| channel.message((minute * flood + n) % networks, &format!("hostile {minute} {n}"));
                channel.accept_all(&(0..flood).map(send).collect::<Vec<_>>());
            }
            channel.run(MINUTE * minute + SECOND * 20, SECOND / 4, &mut receive);
            if (5..60).contains(&minute) {
                visitors.push((channel.visitor(minute), channel.elapsed));
            }
            channel.run(MINUTE * (minute + 1), SECOND / 4, &mut receive);
        }
        let longest = channel.waits(&visitors).into_iter().max();
        assert!(longest.is_some_and(|wait| wait < most), "{limit} a minute: {longest:?}");
    }
}

/// A receiver defers some content, such as a link that a filter has to look up, and accepts the rest at once.
/// Sixty networks send one submission to each form, one in `every` of them with such content. Forty others
/// send theirs one after the other.
#[test]
fn deferred_content_between_accepted_content_delays_others_by_minutes() {
    for (asked, every, drip, most) in
        [(Some(3600), 2, 60, 300), (Some(3600), 3, 15, 300), (Some(60), 3, 5, 1_800), (None, 2, 10, 300)]
    {
        let mut channel = Channel::new();
        let mut receive = |claimed: &Claimed, _: Duration| {
            let fields = ["message", "email"].map(|name| claimed.submission.get(name).unwrap_or_default());
            if fields.iter().any(|text| text.starts_with("poison")) {
                let asked = asked.map(Duration::from_secs);
                return Outcome::failed(Cause::Deferred, "451 4.7.1").with_retry_after(asked);
            }
            Outcome::delivered("250")
        };
        let both = |channel: &Channel, network: u32| {
            let kind = if network.is_multiple_of(every) { "poison" } else { "honest" };
            let message = channel.message(network, &format!("{kind} message of {network}"));
            let request = waitlist(&format!("{kind}{network}@example.com"));
            [Arrival { source: message.source, received_at: message.received_at, ..request }, message]
        };
        let sent: Vec<Arrival> = (0..60).flat_map(|network| both(&channel, network)).collect();
        channel.accept_all(&sent);
        channel.run(MINUTE * 2, SECOND, &mut receive);
        let visitor = channel.visitor(0);
        let visitors = [(visitor, channel.elapsed)];
        let mut later = (60..100).flat_map(|network| [(network, 0), (network, 1)]);
        while !channel.delivered.contains_key(&visitor) && channel.elapsed < DAY {
            if let Some((network, form)) = later.next() {
                let arrival = both(&channel, network)[form].clone();
                channel.accept_new(&arrival);
            }
            channel.run(channel.elapsed + SECOND * drip, SECOND, &mut receive);
        }
        let waits = channel.waits(&visitors);
        assert!(waits[0] < most, "Retry-After {asked:?}, one in {every}, every {drip} s: {waits:?}");
    }
}
