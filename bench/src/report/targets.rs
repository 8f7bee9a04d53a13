//! How many targets are met, and the missed ones, each with its proven limit.

use std::fmt::Write as _;

use anyhow::Result;

use crate::figures::{Section, Target};

/// The limits of targets: a row `| prefix of the target's name | limit | proof |` for each group.
const LIMITS: &str = include_str!("limits.md");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit<'a> {
    prefix: &'a str,
    bound: &'a str,
    proof: &'a str,
}

impl<'a> Limit<'a> {
    /// The limits in a Markdown table.
    fn parse_all(text: &'a str) -> impl Iterator<Item = Limit<'a>> {
        text.lines().filter_map(|line| {
            let cells: Vec<&str> =
                line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
            let [prefix, bound, proof] = cells[..] else { return None };
            let is_row = !prefix.is_empty() && !prefix.starts_with('-');
            is_row.then_some(Limit { prefix, bound, proof })
        })
    }
}

/// The limit with the longest prefix of a target's name.
fn find_limit<'a>(text: &'a str, name: &str) -> Option<Limit<'a>> {
    Limit::parse_all(text)
        .filter(|limit| name.starts_with(limit.prefix))
        .max_by_key(|limit| limit.prefix.len())
}

fn format_threshold(target: &Target) -> String {
    let sign = if target.at_least { "≥" } else { "≤" };
    format!("{sign} {}", target.unit.format(target.threshold))
}

/// Writes how many targets are met, and a table of the others. A proof that several rows share stands once.
pub fn write_missed(text: &mut String, sections: &[Section]) -> Result<()> {
    write_missed_with(text, sections, LIMITS)
}

fn write_missed_with(text: &mut String, sections: &[Section], limits: &str) -> Result<()> {
    let targets: Vec<&Target> = sections.iter().flat_map(|section| &section.targets).collect();
    let missed: Vec<&Target> = targets.iter().copied().filter(|target| !target.is_met()).collect();
    let met = targets.len() - missed.len();
    writeln!(text, "\n## Missed targets\n\n{met} of {} targets are met.", targets.len())?;
    if missed.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n| missed | target | measured | limit |\n| --- | ---: | ---: | --- |")?;
    let mut proofs: Vec<Limit<'_>> = Vec::new();
    for target in missed {
        let limit = find_limit(limits, &target.name);
        let shown = limit.map_or_else(
            || "not known".to_owned(),
            |limit| {
                let place = proofs.iter().position(|known| known.proof == limit.proof).unwrap_or_else(|| {
                    proofs.push(limit);
                    proofs.len() - 1
                });
                format!("{} ({})", limit.bound, place + 1)
            },
        );
        let (threshold, measured) = (format_threshold(target), target.unit.format(target.measured));
        writeln!(text, "| {} | {threshold} | {measured} | {shown} |", target.name)?;
    }
    text.push('\n');
    for (place, limit) in proofs.iter().enumerate() {
        writeln!(text, "{}. {}", place + 1, limit.proof)?;
    }
    Ok(())
}

/// Writes the table of all targets, and whether they are met.
pub fn write_all(text: &mut String, sections: &[Section]) -> Result<()> {
    text.push_str("\n## Targets\n\n| | target | measured | met |\n| --- | ---: | ---: | --- |\n");
    for target in sections.iter().flat_map(|section| &section.targets) {
        let is_met = if target.is_met() { "yes" } else { "**no**" };
        let (threshold, measured) = (format_threshold(target), target.unit.format(target.measured));
        writeln!(text, "| {} | {threshold} | {measured} | {is_met} |", target.name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| target | limit | proof |\n| --- | --- | --- |\n| HTML | 1.50 × | The kernel. |\n\
                         | HTML, 1 KB | 1.47 × | Own work. |\n";

    fn written(names: &[&str]) -> String {
        let targets = names.iter().map(|name| Target::at_least(*name, 1.6, 1.4)).collect();
        let section = Section { targets, ..Section::default() };
        let mut text = String::new();
        write_missed_with(&mut text, &[section], TABLE).expect("a String accepts all writes");
        text
    }

    #[test]
    fn missed_targets_have_their_limits_and_one_proof_each() {
        let text = written(&["HTML, 1 KB: a", "HTML, 1 KB: b", "HTML, 9 KB: c", "PNG: d"]);
        let (_, table) = text.split_once("| --- |\n").expect("a table");
        assert_eq!(
            table,
            "| HTML, 1 KB: a | ≥ 1.60 × | 1.40 × | 1.47 × (1) |\n| HTML, 1 KB: b | ≥ 1.60 × | 1.40 × | 1.47 × (1) |\n\
             | HTML, 9 KB: c | ≥ 1.60 × | 1.40 × | 1.50 × (2) |\n| PNG: d | ≥ 1.60 × | 1.40 × | not known |\n\n\
             1. Own work.\n2. The kernel.\n"
        );
    }

    #[test]
    fn without_missed_targets_there_is_no_table() {
        let met = Section { targets: vec![Target::at_least("a", 1.0, 1.0)], ..Section::default() };
        let mut text = String::new();
        write_missed_with(&mut text, &[met], TABLE).expect("a String accepts all writes");
        assert_eq!(text, "\n## Missed targets\n\n1 of 1 targets are met.\n");
    }

    #[test]
    fn each_limit_has_a_value_and_one_sentence() {
        let limits: Vec<Limit<'_>> =
            Limit::parse_all(LIMITS).filter(|limit| limit.prefix != "target").collect();
        assert!(limits.len() > 5, "{limits:?}");
        for limit in limits {
            assert!(!limit.bound.is_empty() && limit.proof.ends_with('.'), "{limit:?}");
        }
    }
}
