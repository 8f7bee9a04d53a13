//! Colors: sRGB notation, contrast as WCAG defines it, and lightness in the OKLab color space.

use std::fmt;

/// An opaque sRGB color, written `#rrggbb` or `#rgb`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Color(pub [u8; 3]);

const WHITE: Color = Color([0xff; 3]);
const BLACK: Color = Color([0; 3]);

/// The number of steps into which [`Color::with_contrast`] divides the range of lightness that it searches.
const STEPS: u16 = 400;

impl Color {
    /// Parses `#rrggbb`, or `#rgb`, which repeats each digit (`#abc` is `#aabbcc`). `None` for other
    /// notations.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: Option<Vec<u8>> =
            text.strip_prefix('#')?.chars().map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
        let digits = digits?;
        match digits.len() {
            3 => Some(Self([0, 1, 2].map(|channel| 0x11 * digits[channel]))),
            6 => Some(Self([0, 2, 4].map(|channel| 16 * digits[channel] + digits[channel + 1]))),
            _ => None,
        }
    }

    /// The channels in linear light, from 0 to 1.
    fn linear(self) -> [f64; 3] {
        self.0.map(|channel| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// Relative luminance (WCAG 2.2).
    fn luminance(self) -> f64 {
        let [red, green, blue] = self.linear();
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// The contrast ratio (WCAG 2.2) of two colors, from 1 to 21.
    fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// The lowest contrast with any of the backgrounds; infinite if there are none.
    pub fn least_contrast(self, backgrounds: &[Self]) -> f64 {
        backgrounds.iter().map(|background| self.contrast(*background)).fold(f64::INFINITY, f64::min)
    }

    /// The color of text on this color: white if it is readable, otherwise black. One of them always has
    /// a contrast of at least 4.58:1.
    #[must_use]
    pub fn text_color(self) -> Self {
        if self.contrast(WHITE) >= 4.5 { WHITE } else { BLACK }
    }

    /// The color of the same hue whose lightness is closest to this color's, and whose contrast with all
    /// `backgrounds` is at least `ratio`: this color itself, or a darker one for light backgrounds and a
    /// lighter one for dark backgrounds. The backgrounds must be all light or all dark. If there is no such
    /// color, the result is black for light backgrounds, and otherwise white.
    #[must_use]
    pub fn with_contrast(self, backgrounds: &[Self], ratio: f64) -> Self {
        if self.least_contrast(backgrounds) >= ratio {
            return self;
        }
        let is_light = backgrounds.iter().all(|background| background.luminance() > 0.18);
        let [lightness, a, b] = self.to_oklab();
        let (end, extreme) = if is_light { (0.0, BLACK) } else { (1.0, WHITE) };
        (1..STEPS)
            .map(|step| lightness + (end - lightness) * f64::from(step) / f64::from(STEPS))
            .map(|lightness| Self::from_oklab(lightness, a, b))
            .find(|color| color.least_contrast(backgrounds) >= ratio)
            .unwrap_or(extreme)
    }

    /// The coordinates in OKLab: lightness from 0 to 1, and the axes a (green to red) and b (blue to yellow).
    fn to_oklab(self) -> [f64; 3] {
        let cones = product(&TO_CONES, self.linear()).map(f64::cbrt);
        product(&CONES_TO_LAB, cones)
    }

    /// The color with this lightness and hue, with as much of the chroma as sRGB can show.
    fn from_oklab(lightness: f64, a: f64, b: f64) -> Self {
        let linear = |share: f64| {
            let cones = product(&LAB_TO_CONES, [lightness, a * share, b * share]).map(|cone| cone.powi(3));
            product(&FROM_CONES, cones)
        };
        let is_shown = |channel: &f64| (-1e-4..=1.0 + 1e-4).contains(channel);
        let shares = (0..=50_u8).rev().map(|share| linear(f64::from(share) / 50.0));
        let shown = shares.into_iter().find(|channels| channels.iter().all(is_shown));
        Self(shown.unwrap_or([lightness; 3]).map(|value| {
            let value =
                if value <= 0.003_130_8 { value * 12.92 } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the cast saturates at 0 and 255"
            )]
            let channel = (value * 255.0).round() as u8;
            channel
        }))
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

type Matrix = [[f64; 3]; 3];

fn product(matrix: &Matrix, vector: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
}

// The matrices of OKLab, by Björn Ottosson (https://bottosson.github.io/posts/oklab/).
const TO_CONES: Matrix = [
    [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
    [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
    [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
];
const CONES_TO_LAB: Matrix = [
    [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
    [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
    [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
];
const LAB_TO_CONES: Matrix = [
    [1.0, 0.396_337_777_4, 0.215_803_757_3],
    [1.0, -0.105_561_345_8, -0.063_854_172_8],
    [1.0, -0.089_484_177_5, -1.291_485_548_0],
];
const FROM_CONES: Matrix = [
    [4.076_741_662_1, -3.307_711_591_3, 0.230_969_929_2],
    [-1.268_438_004_6, 2.609_757_401_1, -0.341_319_396_5],
    [-0.004_196_086_3, -0.703_418_614_7, 1.707_614_701_0],
];

#[cfg(test)]
mod tests {
    use super::*;

    fn color(text: &str) -> Color {
        Color::parse(text).expect("a color")
    }

    #[test]
    fn a_color_has_six_or_three_hexadecimal_digits() {
        assert_eq!(Color::parse("#00694B"), Some(Color([0, 0x69, 0x4b])));
        assert_eq!(Color::parse("#06B"), Some(Color([0, 0x66, 0xbb])));
        assert_eq!(color("#00694b").to_string(), "#00694b");
        for text in ["", "#", "00694b", "#06", "#06b7", "#00694b0", "#00694g", "#+0694b", "red", "#äää"] {
            assert_eq!(Color::parse(text), None, "{text}");
        }
    }

    #[test]
    fn contrast_is_that_of_wcag() {
        // Values from the WebAIM contrast checker, which truncates them.
        for (a, b, ratio) in [
            ("#000000", "#ffffff", 21.0),
            ("#777777", "#ffffff", 4.47),
            ("#767676", "#ffffff", 4.54),
            ("#ff0000", "#ffffff", 3.99),
            ("#0000ff", "#ffffff", 8.59),
            ("#123456", "#123456", 1.0),
        ] {
            let found = color(a).contrast(color(b));
            assert!((found - ratio).abs() < 0.01, "{a} {b}: {found}");
        }
    }

    #[test]
    fn text_on_any_color_is_readable() {
        for red in (0..=255).step_by(15) {
            for green in (0..=255).step_by(15) {
                for blue in (0..=255).step_by(15) {
                    let background = Color([red, green, blue]);
                    let ratio = background.contrast(background.text_color());
                    assert!(ratio >= 4.5, "{background}: {ratio}");
                }
            }
        }
    }

    #[test]
    fn oklab_and_back_is_the_same_color() {
        for text in ["#000000", "#ffffff", "#00694b", "#ff0000", "#1d4ed8", "#808080"] {
            let [lightness, a, b] = color(text).to_oklab();
            assert_eq!(Color::from_oklab(lightness, a, b).to_string(), text);
        }
    }

    #[test]
    fn only_the_lightness_of_a_weak_color_changes() {
        let (white, black) = ([WHITE], [BLACK]);
        let yellow = color("#ffcc00").with_contrast(&white, 4.5);
        assert!((4.5..4.7).contains(&yellow.contrast(WHITE)), "{yellow}");
        assert!(yellow.0[0] > yellow.0[1] && yellow.0[1] > yellow.0[2], "still yellow: {yellow}");
        let blue = color("#0000ff").with_contrast(&black, 4.5);
        assert!((4.5..4.7).contains(&blue.contrast(BLACK)), "{blue}");
        assert!(blue.0[2] > blue.0[0], "still blue: {blue}");
        assert_eq!(color("#00694b").with_contrast(&white, 4.5), color("#00694b"));
        assert_eq!(color("#00694b").with_contrast(&white, 22.0), BLACK);
    }
}
