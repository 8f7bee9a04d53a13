//! Writes the HTML of code blocks and formulas, without inline styles and scripts.

pub mod code_block;
pub mod highlight;
pub mod math;
