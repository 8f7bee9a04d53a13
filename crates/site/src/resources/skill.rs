//! The site's agent skill (agentskills.io) and the index that lists it (Agent Skills Discovery 0.2.0).

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::wording::{self, list};
use crate::PagesOptions;
use crate::front_matter::split;
use frontdesk_forms::Form;
use frontdesk_forms::text::cut;

pub(super) const INDEX_PATH: &str = "/.well-known/agent-skills/index.json";

/// The path of the skill. The name of its folder must be the skill's name.
pub(super) const SKILL_PATH: &str = "/.well-known/agent-skills/website-guide/SKILL.md";

const NAME: &str = "website-guide";

/// Maximum length of a skill's description in characters (agentskills.io, "Specification").
const MAX_DESCRIPTION: usize = 1_024;

/// The skill's description, cut to [`MAX_DESCRIPTION`].
fn description(options: &PagesOptions) -> String {
    let website = wording::website(options);
    let action = |form: &'static Form| match form.name {
        "waitlist" => "join its waitlist".to_owned(),
        "contact" => "send a message to its team".to_owned(),
        _ => format!("send its form “{}”", form.title),
    };
    let mut actions = vec![format!("Read {website} as Markdown")];
    actions.extend(options.form_set.iter().map(action));
    let conjunction = if actions.len() > 2 { ", or " } else { " or " };
    let actions = list(&actions, conjunction);
    let (subject, operator) = match wording::operator_name(options) {
        "" => ("this website", "its operator"),
        name => (name, name),
    };
    let requests = if options.form_set.iter().len() == 0 {
        String::new()
    } else {
        format!(" and for requests to {operator}")
    };
    let about = options.description.trim();
    let text = format!("{actions}. Use this for questions about {subject}{requests}. {about}");
    cut(text.trim_end(), MAX_DESCRIPTION).to_owned()
}

/// Builds `SKILL.md`: `guide`, the text of `agents.md`, with the front matter of a skill.
pub(super) fn build_skill(guide: &str, options: &PagesOptions) -> String {
    // A JSON string is also a valid YAML string.
    let description = Value::from(description(options));
    format!("---\nname: {NAME}\ndescription: {description}\n---\n\n{guide}")
}

/// Builds the index of skills. `skill` is the content of the served `SKILL.md`. Name and description are
/// those of its front matter, or else those of the generated skill.
pub(super) fn build_index(skill: &[u8], options: &PagesOptions) -> String {
    let digest = digest(&SHA256, skill);
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let text = str::from_utf8(skill).ok().map(|text| text.strip_prefix('\u{feff}').unwrap_or(text));
    let matter = text.and_then(|text| Some(split(SKILL_PATH, text).ok()?.2));
    let find = |key| Some(matter.as_ref()?.get(key)?.as_str()?.trim()).filter(|text| !text.is_empty());
    let skill = json!({
        "name": find("name").unwrap_or(NAME),
        "type": "skill-md",
        "description": find("description").map_or_else(|| description(options), str::to_owned),
        "url": SKILL_PATH,
        "digest": format!("sha256:{digest}"),
    });
    let schema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json";
    format!("{:#}\n", json!({ "$schema": schema, "skills": [skill] }))
}
