//! Tables as CSV: a header, a row a line, numbers in the shortest form that reads back as the same number.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use narrows_sim::Data;

/// A file under construction.
pub(crate) struct Writer(csv::Writer<BufWriter<File>>);

impl Writer {
    pub(crate) fn create<'a>(
        path: &Path,
        header: impl IntoIterator<Item = &'a str>,
    ) -> std::io::Result<Self> {
        let mut writer = csv::Writer::from_writer(BufWriter::new(File::create(path)?));
        writer.write_record(header)?;
        Ok(Self(writer))
    }

    /// Writes one row.
    pub(crate) fn row<'a>(&mut self, fields: impl IntoIterator<Item = &'a str>) -> std::io::Result<()> {
        Ok(self.0.write_record(fields)?)
    }

    /// Rows of columns, all of one length.
    pub(crate) fn append(&mut self, columns: &[Data]) -> std::io::Result<()> {
        let rows = columns.first().map_or(0, crate::parquet::rows);
        for at in 0..rows {
            for column in columns {
                match column {
                    Data::U64(v) => self.0.write_field(v[at].to_string())?,
                    Data::F64(v) => self.0.write_field(number(v[at]))?,
                    Data::Text(v) => self.0.write_field(&v[at])?,
                }
            }
            self.0.write_record(None::<&[u8]>)?;
        }
        Ok(())
    }

    pub(crate) fn close(self) -> std::io::Result<()> {
        let mut file = self.0.into_inner().map_err(csv::IntoInnerError::into_error)?;
        file.flush()
    }
}

/// A measure; nothing where there is none.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() {
        String::new()
    } else if size == 0.0 {
        "0".into()
    } else if (1e-6..1e16).contains(&size) || size.is_infinite() {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}

/// Reads a value written by [`number`].
pub(crate) fn read_number(text: &str) -> Option<f64> {
    if text.is_empty() { Some(f64::NAN) } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_read_back() {
        let texts: Vec<String> =
            [0.1, -0.0, 3.0, 1e300, 1.5e-7, f64::NAN, f64::INFINITY, 600_000.0].map(number).to_vec();
        assert_eq!(texts, ["0.1", "0", "3", "1e300", "1.5e-7", "", "inf", "600000"]);
        for value in [0.1 + 0.2, 1.0 / 3.0, f64::MIN_POSITIVE, f64::MAX, 123_456_789.123] {
            assert_eq!(read_number(&number(value)), Some(value));
        }
        assert!(read_number("").is_some_and(f64::is_nan));
    }
}
