//! The script that counts requests in Redis: its hashed keys, its arguments and its reply.

use redis::{Cmd, ErrorKind, RedisResult, Value};

use crate::gcra::MAX_QUOTA;
use crate::rule::{LimitRule, ScriptReply};
use crate::source::Source;

/// The script that decides about one request, and counts it if it is allowed. It requires script effects
/// replication: Redis 5 or later, or Valkey.
pub const SCRIPT: &str = include_str!("gcra.lua");

pub(super) const PREFIX: &str = "frontdesk:";

/// The context for `blake3::derive_key`. Changing it resets all shared quotas.
const CONTEXT: &str = "frontdesk 2026-11-21 sources and networks whose requests are counted in Redis";

/// Whether the script counts the request against the quotas or only reports their status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Charge,
    Report,
}

/// Derives names of Redis keys from sources. Without the secret, the names do not reveal the sources.
pub(super) struct Keys {
    secret: [u8; 32],
}

#[derive(Debug)]
pub(super) struct Request {
    keys: [String; 2],
    operation: Operation,
    quotas: [[u32; 2]; 2],
}

impl Keys {
    pub(super) fn new(secret: &str) -> Keys {
        Keys { secret: blake3::derive_key(CONTEXT, secret.as_bytes()) }
    }

    /// Builds the request for a source and its network. The name of each key contains a hash of the source or
    /// network and of its quotas.
    pub(super) fn build_request(&self, operation: Operation, source: Source, rule: &LimitRule) -> Request {
        let quotas = rule.quotas();
        let [of_source, of_network] = quotas;
        let keys = [
            self.key_name("source", source.as_bytes(), of_source),
            self.key_name("network", source.network_as_bytes(), of_network),
        ];
        Request { keys, operation, quotas }
    }

    /// The name of a key: a keyed hash of an address and its quotas, because tick counts under different
    /// quotas cannot be compared.
    fn key_name(&self, layer: &str, address: &[u8], quotas: [u32; 2]) -> String {
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
    /// A request that tests whether keys can be read and written. Its keys expire after a few milliseconds.
    pub(super) fn probe() -> Request {
        let keys = ["source", "network"].map(|layer| format!("{PREFIX}probe:{layer}"));
        Request { keys, operation: Operation::Charge, quotas: [[MAX_QUOTA; 2]; 2] }
    }

    /// Builds a command that runs the script by its hash (`EVALSHA`), or from its source (`EVAL`), which also
    /// loads the script.
    pub(super) fn to_command(&self, command: &str, script: &str) -> Cmd {
        let mut call = Cmd::with_capacity(10, 256);
        call.arg(command).arg(script).arg(self.keys.len());
        for key in &self.keys {
            call.arg(key);
        }
        call.arg(u8::from(self.operation == Operation::Charge));
        for quota in self.quotas.as_flattened() {
            call.arg(quota);
        }
        call
    }
}

/// Parses the array that `gcra.lua` returns. Fails if the reply is anything else.
pub(super) fn parse_reply(answer: &Value) -> RedisResult<ScriptReply> {
    let read = || {
        let Value::Array(items) = answer else { return None };
        let number = |item: &Value| match item {
            Value::Int(number) => u32::try_from(*number).ok(),
            _ => None,
        };
        let [allowed, a, b, c, d] = items.as_slice() else { return None };
        let debts = [number(a)?, number(b)?, number(c)?, number(d)?];
        Some(ScriptReply { is_allowed: number(allowed)? == 1, debts })
    };
    read().ok_or_else(|| (ErrorKind::UnexpectedReturnType, "not a reply from the script").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LimitOptions, Quota};

    const SOURCE: Source = Source::V4([192, 0, 2, 1]);

    #[test]
    fn keys_differ_by_source_secret_and_quota() {
        let rule = |per_minute| {
            let source = Quota { per_minute, per_hour: 300 };
            LimitRule::new(&LimitOptions { source, ..LimitOptions::default() })
        };
        let keys = |secret: &str, source, per_minute| {
            Keys::new(secret).build_request(Operation::Charge, source, &rule(per_minute)).keys
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
    fn a_request_contains_no_part_of_an_address() {
        let request = Keys::new("secret").build_request(
            Operation::Report,
            SOURCE,
            &LimitRule::new(&LimitOptions::default()),
        );
        let packed = request.to_command("EVALSHA", "0123").get_packed_command();
        let text = String::from_utf8(packed).expect("the command is UTF-8");
        assert!(
            text.contains("frontdesk:source:") && !text.contains("192") && !text.contains("c00002"),
            "{text}"
        );
    }

    #[test]
    fn a_reply_has_five_numbers() {
        let answer = |numbers: &[i64]| Value::Array(numbers.iter().map(|n| Value::Int(*n)).collect());
        let expected = ScriptReply { is_allowed: true, debts: [5, 6, 7, 8] };
        assert_eq!(parse_reply(&answer(&[1, 5, 6, 7, 8])).unwrap(), expected);
        for wrong in [answer(&[1, 5, 6, 7]), answer(&[1, 5, 6, 7, -8]), Value::Nil, Value::Okay] {
            assert!(parse_reply(&wrong).is_err(), "{wrong:?}");
        }
    }
}
