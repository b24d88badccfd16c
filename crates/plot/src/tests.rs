//! Pictures of nothing, of one value and of nonsense.

use super::*;

fn degenerate() -> Vec<Picture> {
    let series = |name: &str, times: &[f64], goodput: &[&[f32]]| DisciplineSeries {
        name: name.into(),
        object_times_s: times.to_vec(),
        stalls_s: times.to_vec(),
        stalls_of_parts: Vec::new(),
        goodput_kbps: goodput.iter().map(|row| row.to_vec()).collect(),
    };
    let picture = |series: Vec<DisciplineSeries>| Picture { title: "t".into(), series, ..Picture::default() };
    let nonsense = [f64::NAN, f64::INFINITY, -1.0, f64::NEG_INFINITY];
    vec![
        Picture::default(),
        picture(vec![series("empty", &[], &[])]),
        picture(vec![series("rows without seconds", &[], &[&[], &[]])]),
        picture(vec![series("one", &[1.5], &[&[3.0]])]),
        picture(vec![series("zeros", &[0.0; 5], &[&[0.0; 9], &[0.0; 9]])]),
        picture(vec![series("nonsense", &nonsense, &[&[f32::NAN, f32::INFINITY, -2.0]])]),
        picture(vec![series("tiny", &[1e-300, 1e300], &[&[1e-30, 3e38]])]),
        picture(vec![series("ragged", &[2.0, 3.0], &[&[1.0; 700], &[], &[2.0; 3]])]),
        picture((0..12).map(|i| series(&format!("d{i} <&>\""), &[f64::from(i)], &[&[1.0, 0.0]])).collect()),
        picture(vec![series("crowd", &[1.0], &vec![&[1.0f32, 0.0][..]; 3000])]),
    ]
}

#[test]
fn whatever_comes_is_drawn_and_named() {
    for picture in degenerate() {
        let svg = to_svg(&picture);
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for word in ["NaN", "inf"] {
            assert!(!svg.contains(word), "{word} in {:?}", picture.series.first().map(|s| &s.name));
        }
        for series in &picture.series {
            let name = series.name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let name = name.replace('"', "&quot;");
            assert!(svg.contains(&name), "{name}");
        }
    }
}

#[test]
fn stalls_of_each_part_have_a_panel_of_their_own_in_every_width() {
    let part = |name: &str, stalls: &[f64]| PartStalls { name: name.into(), stalls_s: stalls.to_vec() };
    let series = DisciplineSeries {
        name: "TAQ (taq)".into(),
        object_times_s: vec![1.0, 2.0],
        stalls_s: vec![0.5, 8.0],
        stalls_of_parts: vec![part("TLS", &[0.5]), part("QUIC", &[8.0])],
        goodput_kbps: vec![vec![3.0; 9]; 4],
    };
    let band = |name: &str| RowBand { name: name.into(), rows: 2 };
    let picture = Picture {
        title: "who stalls".into(),
        series: vec![series],
        bands: vec![band("TLS"), band("QUIC")],
        ..Picture::default()
    };
    let all = [to_svg(&picture), to_svg_untitled(&picture), to_svg_narrow(&picture)];
    for svg in &all {
        for words in [
            "Longest stall in each object over TLS",
            "Longest stall in each object over QUIC",
            "TLS stalled &gt; 5 s: 0, &gt; 20 s: 0",
            "QUIC stalled &gt; 5 s: 100 %, &gt; 20 s: 0",
            ">QUIC users<",
        ] {
            assert!(svg.contains(words), "{words} in {svg}");
        }
        assert!(!svg.contains(">Object time<"), "{svg}");
    }
    assert_eq!(all.map(|svg| svg.contains("who stalls")), [true, false, false]);
}

#[test]
fn files_are_written_or_the_remedy_is_told() {
    let dir = std::env::temp_dir().join(format!("narrows-plot-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (svg, png) = (dir.join("a.svg"), dir.join("a.png"));
    // A picture takes a while to draw, so every third is: those in which the most can go wrong.
    for picture in degenerate().into_iter().step_by(3) {
        let _ = std::fs::remove_file(&png);
        let drawn = draw(&picture, &svg, &png).unwrap();
        assert_eq!(std::fs::read_to_string(&svg).unwrap(), to_svg(&picture));
        match drawn.png_missing {
            None => assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG")),
            Some(why) => assert!(why.contains("apt-get install"), "{why}"),
        }
    }
    let why = draw(&Picture::default(), &dir.join("none/a.svg"), &png).unwrap_err();
    assert!(format!("{why:#}").contains("none/a.svg"), "{why:#}");
    std::fs::remove_dir_all(dir).unwrap();
}
