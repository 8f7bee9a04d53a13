//! Images, fonts and colors of a website: reads the sizes of images from their headers, scales images down,
//! reads the metrics of fonts, compares colors, and knows the media types of files. The formats are read and
//! written by libraries.
//!
//! No function reads files, and only [`media_type()`] keeps state: a memo of names. [`scale_down`] and
//! [`FontMetrics::read`] check the sizes that a header states before they allocate memory for them.

mod color;
mod font;
mod media_type;
mod scale;
mod size;
mod svg;

pub use color::Color;
pub use font::{FontMetrics, SubstituteMetrics};
pub use media_type::{media_type, media_type_of};
pub use scale::{ScaleError, scale_down};
pub use size::{ImageSize, is_sized_format, read_proportions, read_size};
