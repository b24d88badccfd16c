//! Turns SVG and cells into PNG.

#[cfg(feature = "png")]
mod letters;

#[cfg(feature = "png")]
pub(super) use letters::to_png;

/// Says why there is no PNG.
#[cfg(not(feature = "png"))]
pub(super) fn to_png(_svg: &str) -> Result<Vec<u8>, String> {
    Err("this program was built without PNG; the SVG opens in every browser".into())
}

/// Opaque RGBA cells as PNG, one pixel each; `None` if there are none or the sizes disagree.
pub(super) fn png_of_pixels(columns: usize, rows: usize, rgba: &[u8]) -> Option<Vec<u8>> {
    encode(u32::try_from(columns).ok()?, u32::try_from(rows).ok()?, rgba, png::Compression::Balanced).ok()
}

fn encode(
    width: u32,
    height: u32,
    rgba: &[u8],
    compression: png::Compression,
) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(compression);
    encoder.write_header()?.write_image_data(rgba)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_become_a_png() {
        let png = png_of_pixels(2, 1, &[1, 2, 3, 255, 4, 5, 6, 255]).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        assert!(png_of_pixels(0, 1, &[]).is_none());
        assert!(png_of_pixels(2, 2, &[0; 4]).is_none());
    }
}
