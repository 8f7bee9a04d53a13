//! Writes the Prometheus text format, version 0.0.4: metric families with HELP, TYPE and samples.

use std::fmt::Display;
use std::time::Duration;

pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metric families, one per line: name, type and help.
const FAMILIES: &str = include_str!("families.txt");

#[derive(Debug, Default)]
pub(super) struct Exposition {
    pub(super) text: String,
}

impl Exposition {
    /// Starts a family from [`FAMILIES`]. The caller then adds its samples. A debug build panics if the name
    /// is not declared; a release build writes the family without type and help.
    pub(super) fn family(&mut self, name: &'static str) -> Family<'_> {
        let declared = FAMILIES.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        debug_assert!(declared.is_some(), "families.txt does not declare {name}");
        let (kind, help) = declared.and_then(|declared| declared.split_once(' ')).unwrap_or_default();
        self.text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Family { text: &mut self.text, name }
    }

    /// Writes a family with a single sample that has no labels.
    pub(super) fn single(&mut self, name: &'static str, value: impl Display) {
        self.family(name).sample(&[], value);
    }
}

pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.suffixed("", labels, value)
    }

    /// Writes a histogram of durations in seconds. `counts` has a count for each of `bounds` (microseconds)
    /// and one for durations above all of them; `took` is the sum of all durations in nanoseconds.
    pub(super) fn histogram(
        &mut self,
        label: Option<(&str, &str)>,
        bounds: &[u64],
        counts: &[u64],
        took: u64,
    ) {
        let mut sum = 0;
        let bounds = bounds.iter().map(|bound| Duration::from_micros(*bound).as_secs_f64());
        let bounds = bounds.map(|bound| bound.to_string()).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(counts) {
            sum += count;
            let labels: Vec<_> = label.into_iter().chain([("le", &*bound)]).collect();
            self.suffixed("_bucket", &labels, sum);
        }
        let seconds = format!("{}.{:09}", took / 1_000_000_000, took % 1_000_000_000);
        self.suffixed("_sum", label.as_slice(), seconds).suffixed("_count", label.as_slice(), sum);
    }

    /// Writes one sample. Appends `suffix`, such as `_bucket`, to the family's name. Escapes label values.
    fn suffixed(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.text.push_str(&format!("{}{suffix}", self.name));
        for (number, (name, value)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            self.text.push_str(&format!("{before}{name}=\"{value}\""));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.text.push_str(&format!("{end} {value}\n"));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut out = Exposition::default();
        out.single("process_open_fds", 1.5);
        out.family("frontdesk_deliveries").sample(&[("channel", "a\"} 1\nb\\"), ("state", "x")], 7);
        assert_eq!(
            out.text,
            "# HELP process_open_fds Open file descriptors.\n# TYPE process_open_fds gauge\nprocess_open_fds 1.5\n\
             # HELP frontdesk_deliveries Unfinished deliveries, by channel and state.\n\
             # TYPE frontdesk_deliveries gauge\n\
             frontdesk_deliveries{channel=\"a\\\"} 1\\nb\\\\\",state=\"x\"} 7\n"
        );
    }

    #[test]
    fn families_have_a_name_a_known_type_and_a_sentence() {
        for line in FAMILIES.lines() {
            let (name, declared) = line.split_once(' ').expect("a name");
            let (kind, help) = declared.split_once(' ').expect("a type");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(
                matches!(kind, "counter" | "gauge" | "histogram") && help.ends_with(['.', ')']),
                "{line}"
            );
        }
    }
}
