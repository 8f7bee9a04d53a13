//! All rules: a module for each group, and in it a file for each rule. The first line of such a file states
//! what is true of a correct site.

mod basics;
mod caches;
mod files;
#[cfg(test)]
pub(crate) mod fixtures;
mod forms;
mod links;
mod negotiation;
mod parity;

use crate::rule::Rule;

/// The rules of each group, in the order of the report.
const GROUPS: [&[&Rule]; 7] = [
    caches::RULES,
    negotiation::RULES,
    parity::RULES,
    links::RULES,
    files::RULES,
    forms::RULES,
    basics::RULES,
];

/// All rules, in the order of the report.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    GROUPS.into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_described_and_has_its_own_name() {
        let mut names = std::collections::HashSet::new();
        for rule in rules() {
            assert!(names.insert(rule.id), "{} is there twice", rule.id);
            let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
            assert!(rule.id.bytes().all(is_plain), "{}", rule.id);
            for text in [rule.checks, rule.matters, rule.hurts] {
                assert!(text.ends_with('.') && !text.contains("  "), "{}: {text}", rule.id);
            }
            let fix = rule.fixes.first().unwrap_or_else(|| panic!("{} has no fix", rule.id));
            assert_eq!(fix.platform, crate::rule::Platform::Any, "{}", rule.id);
        }
    }
}
