//! What Redis is asked and what it answers: the script, under which keys it counts, and without whose address.

use redis::{Cmd, ErrorKind, RedisResult, Value};

use crate::limits::ledger::{Entry, Rule};
use crate::limits::{MAX_QUOTA, Source};

/// Counts one request. It needs a server that runs scripts with effects of their own: Redis 5 or Valkey.
pub const SCRIPT: &str = include_str!("take.lua");

/// What all keys begin with.
pub(super) const PREFIX: &str = "frontdesk:";

/// What a key for hashes is derived for, as `blake3::derive_key` wants it.
const CONTEXT: &str = "frontdesk 2026-11-21 sources and networks whose requests are counted in Redis";

/// Whether a request is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// It is, if it is allowed.
    Charge,
    /// It is not.
    Look,
}

/// Names what is counted. All servers with the same secret ([`HashSecret`](super::HashSecret)) use the same names, and nobody else can
/// tell from one whose it is.
pub(super) struct Keys {
    secret: [u8; 32],
}

/// Without the secret.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// What the script is to be called with.
#[derive(Debug)]
pub(super) struct Request {
    keys: [String; 2],
    wanted: Wanted,
    quotas: [[u32; 2]; 2],
}

impl Keys {
    pub(super) fn new(secret: &str) -> Keys {
        Keys { secret: blake3::derive_key(CONTEXT, secret.as_bytes()) }
    }

    pub(super) fn request(&self, wanted: Wanted, source: Source, rule: &Rule) -> Request {
        let quotas = rule.quotas();
        let [of_source, of_network] = quotas;
        let keys = [
            self.hashed("source", source.as_bytes(), of_source),
            self.hashed("network", source.network_as_bytes(), of_network),
        ];
        Request { keys, wanted, quotas }
    }

    /// The quotas are part of each name: ticks of one rule mean nothing to another.
    fn hashed(&self, layer: &str, address: &[u8], quotas: [u32; 2]) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(layer.as_bytes());
        for quota in quotas {
            hasher.update(&quota.to_le_bytes());
        }
        hasher.update(address);
        let hex = hasher.finalize().to_hex();
        format!("{PREFIX}{layer}:{}", &hex[..32])
    }
}

impl Request {
    /// One that counts nothing that anybody needs, and is forgotten within milliseconds: whether keys may be read and written.
    pub(super) fn probe() -> Request {
        let keys = ["source", "network"].map(|layer| format!("{PREFIX}probe:{layer}"));
        Request { keys, wanted: Wanted::Charge, quotas: [[MAX_QUOTA; 2]; 2] }
    }

    /// By the hash of a script that was loaded.
    pub(super) fn by_hash(&self, hash: &str) -> Cmd {
        self.call("EVALSHA", hash)
    }

    /// With the script itself, which is loaded thereby.
    pub(super) fn in_full(&self) -> Cmd {
        self.call("EVAL", SCRIPT)
    }

    fn call(&self, command: &str, script: &str) -> Cmd {
        let mut call = Cmd::with_capacity(10, 256);
        call.arg(command).arg(script).arg(self.keys.len());
        for key in &self.keys {
            call.arg(key);
        }
        call.arg(u8::from(self.wanted == Wanted::Charge));
        for quota in self.quotas.as_flattened() {
            call.arg(quota);
        }
        call
    }
}

/// What the script has answered.
pub(super) fn entry(answer: &Value) -> RedisResult<Entry> {
    let read = || {
        let Value::Array(items) = answer else { return None };
        let number = |item: &Value| match item {
            Value::Int(number) => u32::try_from(*number).ok(),
            _ => None,
        };
        let [allowed, a, b, c, d] = items.as_slice() else { return None };
        let debts = [number(a)?, number(b)?, number(c)?, number(d)?];
        Some(Entry { is_allowed: number(allowed)? == 1, debts })
    };
    read().ok_or_else(|| (ErrorKind::UnexpectedReturnType, "no answer of the script").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Options, Quota};

    const SOURCE: Source = Source::V4([192, 0, 2, 1]);

    #[test]
    fn keys_are_told_apart_by_whom_they_count_by_secret_and_by_quota() {
        let rule = |per_minute| {
            let source = Quota { per_minute, per_hour: 300 };
            Rule::new(&Options { source, ..Options::default() })
        };
        let keys = |secret: &str, source, per_minute| {
            Keys::new(secret).request(Wanted::Charge, source, &rule(per_minute)).keys
        };
        let base = keys("secret", SOURCE, 30);
        assert_eq!(base, keys("secret", SOURCE, 30));
        let check = |other: [String; 2], same: [bool; 2]| {
            assert_eq!(std::array::from_fn(|at| base[at] == other[at]), same, "{other:?}");
        };
        check(keys("secret", Source::V4([192, 0, 2, 2]), 30), [false, true]);
        check(keys("secret", Source::V4([192, 0, 3, 1]), 30), [false, false]);
        check(keys("other", SOURCE, 30), [false, false]);
        check(keys("secret", SOURCE, 31), [false, true]);
    }

    #[test]
    fn nothing_of_an_address_is_in_a_request() {
        let request = Keys::new("secret").request(Wanted::Look, SOURCE, &Rule::new(&Options::default()));
        let packed = request.by_hash("0123").get_packed_command();
        let text = String::from_utf8(packed).expect("it is all text");
        assert!(
            text.contains("frontdesk:source:") && !text.contains("192") && !text.contains("c00002"),
            "{text}"
        );
    }

    #[test]
    fn an_answer_has_five_numbers() {
        let answer = |numbers: &[i64]| Value::Array(numbers.iter().map(|n| Value::Int(*n)).collect());
        let expected = Entry { is_allowed: true, debts: [5, 6, 7, 8] };
        assert_eq!(entry(&answer(&[1, 5, 6, 7, 8])).unwrap(), expected);
        for wrong in [answer(&[1, 5, 6, 7]), answer(&[1, 5, 6, 7, -8]), Value::Nil, Value::Okay] {
            assert!(entry(&wrong).is_err(), "{wrong:?}");
        }
    }
}
