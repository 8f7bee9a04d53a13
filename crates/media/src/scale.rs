//! Scales PNG and JPEG images down. Color profiles are copied. Images larger than the limits below are not
//! decoded.

use std::io::Cursor;

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use jpeg_decoder::PixelFormat;

use crate::image_dimensions::{self, ImageSize};

/// Maximum size of a source file, in bytes.
const MAX_BYTES: usize = 32 << 20;

/// Maximum number of pixels of an image. A PNG of 32 megapixels takes up to 224 MB while it is scaled.
const MAX_PIXELS: u64 = 32_000_000;

/// Maximum number of pixels of a progressive JPEG, whose decoder also keeps the coefficients.
const MAX_PROGRESSIVE_PIXELS: u64 = 16_000_000;

/// The quality of scaled JPEGs, out of 100. Higher values make larger files that hardly look better.
const JPEG_QUALITY: u8 = 80;

/// The reason why an image is not scaled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// The image may be fine, but images of this kind or size are not scaled.
    #[error("{0}")]
    Unsupported(&'static str),
    #[error("the image cannot be decoded: {0}")]
    Damaged(String),
}

/// Scales a JPEG or PNG down to each of the `widths`, and encodes the results in the same format, with eight
/// bits per channel. A JPEG is turned as its Exif data say. The widths must not be larger than the image's
/// width as shown; other widths, and other formats, fail as [`ScaleError::Damaged`]. Images that are too
/// large, and kinds such as animated PNGs and CMYK JPEGs, fail as [`ScaleError::Unsupported`].
pub fn scale_down(source: &[u8], widths: &[u32]) -> Result<Vec<Vec<u8>>, ScaleError> {
    if source.len() > MAX_BYTES {
        return Err(ScaleError::Unsupported("files above 32 MiB are not scaled"));
    }
    match source {
        [0xff, 0xd8, ..] => scale_jpeg(source, widths),
        _ => scale_png(source, widths),
    }
}

/// Fails with `refusal` if the image has more than `max` pixels.
fn check_pixels(size: ImageSize, max: u64, refusal: &'static str) -> Result<(), ScaleError> {
    let is_within = u64::from(size.width) * u64::from(size.height) <= max;
    is_within.then_some(()).ok_or(ScaleError::Unsupported(refusal))
}

const TOO_MANY_PIXELS: &str = "images of more than 32 megapixels are not scaled";

const TOO_MANY_PROGRESSIVE_PIXELS: &str = "progressive JPEGs of more than 16 megapixels are not scaled";

fn damaged(error: impl std::fmt::Display) -> ScaleError {
    ScaleError::Damaged(error.to_string())
}

/// Applies the Exif orientation of a JPEG, and scales it to each width. The decoder already scales it by a
/// fraction, see [`decoder_target`]. Keeps the color profile and drops other metadata. Fails for CMYK, for 16
/// bits, and above [`MAX_PIXELS`] ([`MAX_PROGRESSIVE_PIXELS`] if progressive).
fn scale_jpeg(source: &[u8], widths: &[u32]) -> Result<Vec<Vec<u8>>, ScaleError> {
    let header = image_dimensions::read_jpeg(source).ok_or_else(|| damaged("its header ends early"))?;
    let (max, refusal) = if header.is_progressive {
        (MAX_PROGRESSIVE_PIXELS, TOO_MANY_PROGRESSIVE_PIXELS)
    } else {
        (MAX_PIXELS, TOO_MANY_PIXELS)
    };
    check_pixels(header.stored, max, refusal)?;
    // The orientations from 5 to 8 swap width and height.
    let is_turned = header.orientation >= 5;
    let targets: Vec<ImageSize> = widths.iter().map(|width| header.shown_size().scaled_to(*width)).collect();
    let stored: Vec<ImageSize> =
        targets.iter().map(|size| if is_turned { size.swapped() } else { *size }).collect();
    let mut decoder = jpeg_decoder::Decoder::new(source);
    decoder.read_info().map_err(damaged)?;
    let largest = |side: fn(&ImageSize) -> u32| stored.iter().map(side).max().unwrap_or(1);
    let largest = ImageSize { width: largest(|size| size.width), height: largest(|size| size.height) };
    let (width, height) = decoder_target(header.stored, largest);
    decoder.scale(width, height).map_err(damaged)?;
    let pixels = decoder.decode().map_err(damaged)?;
    let info = decoder.info().ok_or_else(|| damaged("it has no header"))?;
    let (channels, colors) = match info.pixel_format {
        PixelFormat::L8 => (Channels::Gray, jpeg_encoder::ColorType::Luma),
        PixelFormat::RGB24 => (Channels::Rgb, jpeg_encoder::ColorType::Rgb),
        _ => {
            return Err(ScaleError::Unsupported("CMYK JPEGs and JPEGs with 16 bits are not scaled"));
        }
    };
    let unscaled = ImageSize { width: info.width.into(), height: info.height.into() };
    let profile = decoder.icc_profile();
    let pixels = channels.to_rgba(pixels);
    let mut scaled = Vec::with_capacity(widths.len());
    for (size, target) in stored.into_iter().zip(targets) {
        let image = channels.take_from_rgba(resize(&pixels, unscaled, size)?);
        let image = orient(image, size, channels.count(), header.orientation);
        let mut bytes = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, JPEG_QUALITY);
        encoder.set_optimized_huffman_tables(true);
        if let Some(profile) = &profile {
            encoder.add_icc_profile(profile).map_err(damaged)?;
        }
        let side = |side: u32| u16::try_from(side).map_err(damaged);
        encoder.encode(&image, side(target.width)?, side(target.height)?, colors).map_err(damaged)?;
        scaled.push(bytes);
    }
    Ok(scaled)
}

/// The size to request from the JPEG decoder, so that it scales `stored` to a half, a quarter or an eighth
/// (which saves most of the memory and time), but to no side shorter than that of `target`. Only the longer
/// side counts; the other one is the maximum.
fn decoder_target(stored: ImageSize, target: ImageSize) -> (u16, u16) {
    let scaled = |side: u32, eighths: u32| (side * eighths).div_ceil(8);
    let is_enough = |eighths: &u32| {
        scaled(stored.width, *eighths) >= target.width && scaled(stored.height, *eighths) >= target.height
    };
    let eighths = [1, 2, 4].into_iter().find(is_enough).unwrap_or(8);
    // The decoder takes the smallest fraction at which one side is long enough. Rounding makes the fractions
    // of a short side equal, so the longer side decides, and no fraction of the other side is long enough.
    let side = |side: u32| u16::try_from(scaled(side, eighths)).unwrap_or(u16::MAX);
    match stored.width.max(stored.height) {
        0..8 => (u16::MAX, u16::MAX),
        longer if longer == stored.width => (side(longer), u16::MAX),
        longer => (u16::MAX, side(longer)),
    }
}

/// Scales a PNG to each width. Keeps the color profile, and the chunks about gamma and chromaticities; drops
/// other metadata. Fails for animated and HDR images, and above [`MAX_PIXELS`]. The results have 8 bits for
/// each channel and no palette.
fn scale_png(source: &[u8], widths: &[u32]) -> Result<Vec<Vec<u8>>, ScaleError> {
    let mut decoder = png::Decoder::new(Cursor::new(source));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(damaged)?;
    let info = reader.info();
    let size = ImageSize { width: info.width, height: info.height };
    check_pixels(size, MAX_PIXELS, TOO_MANY_PIXELS)?;
    if info.animation_control.is_some() || info.coding_independent_code_points.is_some() {
        return Err(ScaleError::Unsupported("animated and HDR PNGs are not scaled"));
    }
    let mut pixels = vec![0; reader.output_buffer_size().ok_or_else(|| damaged("it is too large"))?];
    let frame = reader.next_frame(&mut pixels).map_err(damaged)?;
    let channels = match frame.color_type {
        png::ColorType::Grayscale => Channels::Gray,
        png::ColorType::GrayscaleAlpha => Channels::GrayAlpha,
        png::ColorType::Rgb => Channels::Rgb,
        png::ColorType::Rgba => Channels::Rgba,
        png::ColorType::Indexed => return Err(damaged("its palette is missing")),
    };
    let pixels = channels.to_rgba(pixels);
    let source = reader.info();
    let scale = |width: &u32| {
        let target = size.scaled_to(*width);
        let mut info = png::Info::with_size(target.width, target.height);
        info.color_type = frame.color_type;
        info.gama_chunk = source.gama_chunk;
        info.chrm_chunk = source.chrm_chunk;
        info.source_gamma = source.source_gamma;
        info.source_chromaticities = source.source_chromaticities;
        info.srgb = source.srgb;
        info.icc_profile.clone_from(&source.icc_profile);
        let image = channels.take_from_rgba(resize(&pixels, size, target)?);
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::with_info(&mut bytes, info).map_err(damaged)?;
        encoder.set_compression(png::Compression::High);
        encoder.write_header().and_then(|mut file| file.write_image_data(&image)).map_err(damaged)?;
        Ok(bytes)
    };
    widths.iter().map(scale).collect()
}

/// The channels of a pixel, one byte each, in the order that the variant's name states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channels {
    Gray,
    GrayAlpha,
    Rgb,
    Rgba,
}

impl Channels {
    fn count(self) -> usize {
        self as usize + 1
    }

    /// Converts pixels to red, green, blue and opacity. All images are scaled in this form, because the
    /// library's code for four kinds of pixels would add 1.6 MB to the binary.
    fn to_rgba(self, pixels: Vec<u8>) -> Vec<u8> {
        if self == Channels::Rgba {
            return pixels;
        }
        let rgba = |pixel: &[u8]| match *pixel {
            [gray] => [gray, gray, gray, 255],
            [gray, alpha] => [gray, gray, gray, alpha],
            [red, green, blue] => [red, green, blue, 255],
            _ => [0; 4],
        };
        pixels.chunks_exact(self.count()).flat_map(rgba).collect()
    }

    /// Reverses [`Channels::to_rgba`], and drops the channels that the image does not have.
    fn take_from_rgba(self, pixels: Vec<u8>) -> Vec<u8> {
        let positions: &[usize] = match self {
            Channels::Gray => &[0],
            Channels::GrayAlpha => &[0, 3],
            Channels::Rgb => &[0, 1, 2],
            Channels::Rgba => return pixels,
        };
        pixels.chunks_exact(4).flat_map(|pixel| positions.iter().map(|at| pixel[*at])).collect()
    }
}

/// Averages the pixels (red, green, blue, opacity) that fall into each pixel of a smaller image. Colors are
/// weighted by their opacity, so that transparent pixels do not darken the edges. Fails if a side would
/// become longer, which is the case if the image has fewer pixels than its header says.
fn resize(pixels: &[u8], from: ImageSize, to: ImageSize) -> Result<Vec<u8>, ScaleError> {
    if to.width > from.width || to.height > from.height {
        return Err(damaged("it is smaller than its header says"));
    }
    let source = ImageRef::new(from.width, from.height, pixels, PixelType::U8x4).map_err(damaged)?;
    let mut target = Image::new(to.width, to.height, PixelType::U8x4);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Box));
    Resizer::new().resize(&source, &mut target, &options).map_err(damaged)?;
    Ok(target.into_vec())
}

/// Rotates and mirrors a stored image as its Exif orientation specifies, so that the result needs no
/// orientation.
fn orient(image: Vec<u8>, stored: ImageSize, channels: usize, orientation: u8) -> Vec<u8> {
    if orientation <= 1 {
        return image;
    }
    let (width, height) = (to_usize(stored.width), to_usize(stored.height));
    let (columns, rows) = if orientation >= 5 { (height, width) } else { (width, height) };
    let mut turned = Vec::with_capacity(image.len());
    for y in 0..rows {
        for x in 0..columns {
            let (column, row) = match orientation {
                2 => (width - 1 - x, y),
                3 => (width - 1 - x, height - 1 - y),
                4 => (x, height - 1 - y),
                5 => (y, x),
                6 => (y, height - 1 - x),
                7 => (width - 1 - y, height - 1 - x),
                _ => (width - 1 - y, x),
            };
            let at = (row * width + column) * channels;
            turned.extend_from_slice(&image[at..at + channels]);
        }
    }
    turned
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A PNG whose pixels are computed from their coordinates.
    fn png(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Vec<u8> {
        let points = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let pixels: Vec<u8> = points.flat_map(|(x, y)| pixel(x, y)).collect();
        encode_png(width, height, png::ColorType::Rgba, &pixels)
    }

    fn encode_png(width: u32, height: u32, color: png::ColorType, pixels: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(color);
        let mut file = encoder.write_header().expect("memory");
        file.write_image_data(pixels).expect("memory");
        file.finish().expect("memory");
        bytes
    }

    fn exif(orientation: u8) -> Vec<u8> {
        let header = b"II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0";
        [&header[..], &[orientation, 0, 0, 0, 0, 0, 0, 0]].concat()
    }

    /// A grey JPEG with an Exif orientation, dark on the left and light on the right.
    fn jpeg(width: u16, height: u16, orientation: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 95);
        encoder.add_exif_metadata(&exif(orientation)).expect("a short segment");
        let row = (0..width).map(|x| if x < width / 2 { 20 } else { 220 });
        let pixels: Vec<u8> = (0..height).flat_map(|_| row.clone()).collect();
        encoder.encode(&pixels, width, height, jpeg_encoder::ColorType::Luma).expect("pixels");
        bytes
    }

    fn pixels_of_png(bytes: &[u8]) -> (ImageSize, Vec<u8>) {
        let mut reader = png::Decoder::new(Cursor::new(bytes)).read_info().expect("a header");
        let size = ImageSize { width: reader.info().width, height: reader.info().height };
        let mut pixels = vec![0; reader.output_buffer_size().expect("a small image")];
        reader.next_frame(&mut pixels).expect("pixels");
        (size, pixels)
    }

    #[test]
    fn pixels_are_averaged() {
        // Black and white stripes, and transparent red ones that must not color the opaque blue ones.
        for (pixel, expected) in [
            (
                (|x, _| if x % 2 == 0 { [0, 0, 0, 255] } else { [255; 4] }) as fn(u32, u32) -> [u8; 4],
                [128, 128, 128, 255],
            ),
            (|_, y| if y % 2 == 0 { [255, 0, 0, 0] } else { [0, 0, 255, 255] }, [0, 0, 255, 128]),
            (|_, _| [7, 8, 9, 255], [7, 8, 9, 255]),
            (|_, _| [7, 8, 9, 0], [0, 0, 0, 0]),
        ] {
            let scaled = scale_down(&png(40, 20, pixel), &[20, 10]).expect("a valid image");
            for (bytes, width) in scaled.iter().zip([20, 10]) {
                let (size, pixels) = pixels_of_png(bytes);
                assert_eq!(size, ImageSize { width, height: width / 2 });
                assert!(pixels.chunks(4).all(|found| found == expected), "{expected:?}: {pixels:?}");
            }
        }
    }

    /// A JPEG of one color. Color is stored at half the resolution, as cameras do.
    fn plain_jpeg(size: ImageSize, orientation: u8, is_grey: bool, is_progressive: bool) -> Vec<u8> {
        use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 95);
        encoder.add_exif_metadata(&exif(orientation)).expect("a short segment");
        encoder.set_progressive(is_progressive);
        encoder.set_sampling_factor(SamplingFactor::F_2_2);
        let (colors, pixel) =
            if is_grey { (ColorType::Luma, &[200][..]) } else { (ColorType::Rgb, &[220, 180, 90][..]) };
        let pixels = pixel.repeat(to_usize(size.width * size.height));
        let short = |side| u16::try_from(side).expect("a short side");
        encoder.encode(&pixels, short(size.width), short(size.height), colors).expect("pixels");
        bytes
    }

    #[test]
    fn a_plain_image_stays_plain_in_every_shape() {
        let is_close = |found: &[u8], expected: &[u8]| {
            found.chunks_exact(expected.len()).all(|found| {
                std::iter::zip(found, expected).all(|(found, expected)| found.abs_diff(*expected) <= 3)
            })
        };
        let shapes = (1..=20).map(|short| (short, [180, 173, 97][to_usize(short) % 3]));
        for (short, long) in shapes.chain([(1, 3_000), (2, 1_700), (15, 1_601)]) {
            let shown = ImageSize { width: long, height: short };
            let widths = [long / 15, long / 2, long * 8 / 15, long - 1];
            let scaled = scale_down(&png(long, short, |_, _| [220, 180, 90, 255]), &widths);
            for (bytes, width) in scaled.expect("a valid PNG").iter().zip(widths) {
                let (size, pixels) = pixels_of_png(bytes);
                assert_eq!(size, shown.scaled_to(width));
                assert!(is_close(&pixels, &[220, 180, 90, 255]), "{short} x {long}, PNG");
            }
            for variant in 0..32 {
                let (orientation, is_grey, is_progressive) =
                    (variant / 4 + 1, variant & 1 == 0, variant & 2 == 0);
                // Flat and wide as shown, then upright.
                for shown in [shown, shown.swapped()] {
                    let stored = if orientation >= 5 { shown.swapped() } else { shown };
                    let source = plain_jpeg(stored, orientation, is_grey, is_progressive);
                    let widths = if shown.width == long { &widths[..] } else { &[1, short - 1][..] };
                    let widths: Vec<u32> =
                        widths.iter().copied().filter(|w| (1..shown.width).contains(w)).collect();
                    let case =
                        format!("{shown:?}, {orientation}, grey: {is_grey}, progressive: {is_progressive}");
                    let scaled = scale_down(&source, &widths).unwrap_or_else(|e| panic!("{case}: {e}"));
                    for (bytes, width) in scaled.iter().zip(widths) {
                        let mut decoder = jpeg_decoder::Decoder::new(&bytes[..]);
                        let pixels = decoder.decode().expect("a JPEG");
                        let info = decoder.info().expect("a header");
                        let size = ImageSize { width: info.width.into(), height: info.height.into() };
                        assert_eq!(size, shown.scaled_to(width), "{case}");
                        let expected = if is_grey { &[200][..] } else { &[220, 180, 90][..] };
                        assert!(is_close(&pixels, expected), "{case}, width {width}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_decoder_scales_to_no_side_shorter_than_the_target() {
        for (stored, target, expected) in [
            ((3_000, 2), (1_600, 1), (3_000, u16::MAX)),
            ((15, 3_000), (8, 1_600), (u16::MAX, 3_000)),
            ((6_000, 4_000), (1_600, 1_067), (3_000, u16::MAX)),
            ((8_000, 8), (1_000, 1), (1_000, u16::MAX)),
            ((8_000, 8), (1_000, 2), (2_000, u16::MAX)),
            ((7, 3), (1, 1), (u16::MAX, u16::MAX)),
        ] {
            let size = |(width, height)| ImageSize { width, height };
            assert_eq!(decoder_target(size(stored), size(target)), expected, "{stored:?} to {target:?}");
        }
    }

    #[test]
    fn sides_that_do_not_divide_evenly_keep_the_average() {
        let scaled = scale_down(&png(101, 37, |x, _| [u8::try_from(2 * x).unwrap_or(0), 0, 0, 255]), &[13]);
        let (size, pixels) = pixels_of_png(&scaled.expect("a valid image")[0]);
        assert_eq!(size, ImageSize { width: 13, height: 5 });
        let reds: Vec<u8> = pixels.chunks(4).map(|pixel| pixel[0]).take(13).collect();
        assert!(reds.is_sorted() && reds[0] < 10 && reds[12] > 190 && reds[6].abs_diff(100) <= 1, "{reds:?}");
    }

    #[test]
    fn a_jpeg_is_turned_as_its_camera_was() {
        for (orientation, dark) in [(1, (0, 0)), (3, (1, 1)), (6, (0, 0)), (8, (0, 1))] {
            let source = jpeg(64, 32, orientation);
            let shown = image_dimensions::read_size(&source).expect("a size");
            let scaled = scale_down(&source, &[shown.width / 2]).expect("a valid image");
            let size = image_dimensions::read_size(&scaled[0]).expect("a size");
            assert_eq!((size.width, size.height), (shown.width / 2, shown.height / 2), "{orientation}");
            let mut decoder = jpeg_decoder::Decoder::new(&*scaled[0]);
            let pixels = decoder.decode().expect("an image");
            let at = |(x, y): (u32, u32)| {
                let (x, y) = (x * (size.width - 1), y * (size.height - 1));
                pixels[to_usize(y * size.width + x)]
            };
            let opposite = (1 - dark.0, 1 - dark.1);
            assert!(at(dark) < 60 && at(opposite) > 180, "{orientation}: {} {}", at(dark), at(opposite));
        }
    }

    #[test]
    fn images_beyond_the_limits_are_refused_unread() {
        let mut bomb = Vec::new();
        let mut file = png::Encoder::new(&mut bomb, 1 << 16, 1 << 16).write_header().expect("memory");
        file.write_chunk(png::chunk::IDAT, &[]).expect("memory");
        // Writing the end would check the number of rows.
        std::mem::forget(file);
        let error = scale_down(&bomb, &[800]).expect_err("four gigapixels");
        assert!(matches!(error, ScaleError::Unsupported(_)), "{error}");
        let error = scale_down(&vec![0xff; MAX_BYTES + 1], &[800]).expect_err("a large file");
        assert!(matches!(error, ScaleError::Unsupported(_)), "{error}");
    }

    #[test]
    fn a_truncated_image_is_an_error() {
        for whole in [png(40, 20, |x, y| [u8::try_from(x * y % 251).unwrap_or(0); 4]), jpeg(64, 32, 6)] {
            for end in (0..whole.len() - 40).step_by(7) {
                // The JPEG decoder fills the missing part with grey, as browsers do.
                let result = scale_down(&whole[..end], &[10]);
                assert!(result.is_err() || whole[0] == 0xff, "cut off at {end} of {}", whole.len());
            }
        }
        assert!(scale_down(b"<svg/>", &[10]).is_err());
    }

    proptest! {
        #[test]
        fn damaged_images_do_no_harm(is_png in any::<bool>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = if is_png { png(20, 10, |x, _| [u8::try_from(x).unwrap_or(0); 4]) } else { jpeg(16, 16, 3) };
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(scaled) = scale_down(&bytes, &[5]) {
                prop_assert_eq!(scaled.len(), 1);
            }
        }
    }
}
