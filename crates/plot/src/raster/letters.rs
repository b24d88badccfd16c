//! A whole drawing, its letters included.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, Query, Source, Weight};
use resvg::usvg::{Options, Tree};

use super::encode;
use crate::canvas::FONT;

/// Pixels to a unit of the page: the smallest letters stay sharp. What a page takes to draw goes with their number.
const SCALE: f32 = 1.5;

/// The drawing as PNG.
///
/// # Errors
/// Why not, and the remedy.
pub(crate) fn to_png(svg: &str) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.fontdb_mut().load_system_fonts();
    if options.fontdb_mut().is_empty() {
        return Err("no fonts found, so no PNG; apt-get install fonts-dejavu-core".into());
    }
    read_font(options.fontdb_mut());
    let tree = Tree::from_str(svg, &options).map_err(|e| format!("the drawing cannot be read back: {e}"))?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or("the drawing has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("the drawing is too large for memory")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    // Pages are opaque, so alpha needs no division; plain areas become small by any method, so by the quickest one.
    let png = encode(size.width(), size.height(), pixels.data(), png::Compression::Fastest);
    png.map_err(|e| format!("the PNG cannot be made: {e}"))
}

/// Reads the font of pages into memory: one that is a file is mapped anew for each text, which takes longer than to
/// draw that.
fn read_font(fonts: &mut Database) {
    for weight in [Weight::NORMAL, Weight::BOLD] {
        let families = [Family::Name(FONT)];
        let found = fonts.query(&Query { families: &families, weight, ..Query::default() });
        let Some(face) = found.and_then(|id| fonts.face(id)) else { continue };
        if let (id, Source::File(path)) = (face.id, &face.source)
            && let Ok(bytes) = std::fs::read(path)
        {
            fonts.remove_face(id);
            fonts.load_font_data(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use resvg::usvg::fontdb::{FaceInfo, Stretch, Style};

    use super::*;

    #[test]
    fn the_font_of_pages_lies_in_memory() {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        let before = fonts.len();
        read_font(&mut fonts);
        let mapped = |face: &&FaceInfo| {
            matches!(face.source, Source::File(_))
                && face.families.iter().any(|(name, _)| name == FONT)
                && [Weight::NORMAL, Weight::BOLD].contains(&face.weight)
                && (face.style, face.stretch) == (Style::Normal, Stretch::Normal)
        };
        assert_eq!(fonts.faces().filter(mapped).count(), 0);
        assert_eq!(fonts.len(), before, "none is lost");
    }
}
