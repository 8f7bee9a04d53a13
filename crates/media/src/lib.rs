//! Images, fonts and colors of a website: reads the sizes of images from their headers, scales images down,
//! reads the metrics of fonts, and compares colors. The formats are read and written by libraries.
//!
//! No function keeps state or reads files. [`scale_down`] and [`FontMetrics::read`] check the sizes that a
//! header states before they allocate memory for them.

mod color;
mod font;
mod image_dimensions;
mod scale;
mod svg_size;

pub use color::Color;
pub use font::{FontMetrics, SubstituteMetrics};
pub use image_dimensions::{ImageSize, is_sized_format, read_proportions, read_size};
pub use scale::{ScaleError, scale_down};
