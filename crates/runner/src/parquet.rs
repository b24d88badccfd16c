//! Tables in Parquet (Apache Parquet format 2): a column of ours is a column there, with its type.
//!
//! Whole numbers are unsigned 64-bit integers, measures are doubles with a null where there is none, words are UTF-8
//! strings. Written without Arrow, column by column, compressed with Snappy, which every reader knows.

use std::fs::File;
use std::io::{BufWriter, Read as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use narrows_sim::{Column, Data};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

/// Rows kept back until they are written together: small enough for memory, large enough to compress.
const GROUP: usize = 1 << 17;

/// Rows below which a table is short.
const SHORT: u64 = 1000;

/// Bytes below which a file is small.
const SMALL: u64 = 1 << 20;

/// Bytes that are written together: most tables of a run are shorter.
const BUFFER: usize = 1 << 16;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    U64,
    F64,
    Text,
}

impl ColumnType {
    pub(crate) fn of(data: &Data) -> Self {
        match data {
            Data::U64(_) => Self::U64,
            Data::F64(_) => Self::F64,
            Data::Text(_) => Self::Text,
        }
    }

    pub(crate) fn empty(self) -> Data {
        match self {
            Self::U64 => Data::U64(Vec::new()),
            Self::F64 => Data::F64(Vec::new()),
            Self::Text => Data::Text(Vec::new()),
        }
    }

    /// Narrowest type that holds all `words`, which are settings of a scenario.
    pub(crate) fn of_words(words: &[String]) -> Self {
        let all = |fits: &dyn Fn(&String) -> bool| words.iter().all(fits);
        // A number that would not be written as it was read stays a word.
        if all(&|w| w.parse::<u64>().is_ok_and(|n| n.to_string() == *w)) {
            Self::U64
        } else if all(&|w| w.parse::<f64>().is_ok_and(f64::is_finite)) {
            Self::F64
        } else {
            Self::Text
        }
    }

    /// A kind that can hold values of both.
    pub(crate) fn wider(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Text, _) | (_, Self::Text) => Self::Text,
            _ => Self::F64,
        }
    }

    /// Values as values of this kind; where that cannot be, what says that there is none.
    pub(crate) fn convert(self, data: Data) -> Data {
        match (self, data) {
            (Self::F64, Data::U64(v)) => Data::F64(v.into_iter().map(|x| x as f64).collect()),
            (Self::Text, Data::U64(v)) => Data::Text(v.into_iter().map(|x| x.to_string()).collect()),
            (Self::Text, Data::F64(v)) => Data::Text(v.into_iter().map(crate::csv::number).collect()),
            (kind, data) if kind == Self::of(&data) => data,
            (kind, data) => kind.nothing(rows(&data)),
        }
    }

    /// Column of `rows` missing values; whole numbers have no such value and are zero.
    pub(crate) fn nothing(self, rows: usize) -> Data {
        match self {
            Self::U64 => Data::U64(vec![0; rows]),
            Self::F64 => Data::F64(vec![f64::NAN; rows]),
            Self::Text => Data::Text(vec![String::new(); rows]),
        }
    }

    /// Column of `rows` times the same word of [`ColumnType::of_words`].
    pub(crate) fn repeat(self, word: &str, rows: usize) -> Data {
        match self {
            Self::U64 => Data::U64(vec![word.parse().unwrap_or_default(); rows]),
            Self::F64 => Data::F64(vec![word.parse().unwrap_or(f64::NAN); rows]),
            Self::Text => Data::Text(vec![word.to_owned(); rows]),
        }
    }

    fn field(self, name: &str) -> Result<Type> {
        let (physical, logical, repetition) = match self {
            Self::U64 => (Physical::INT64, Some(LogicalType::integer(64, false)), Repetition::REQUIRED),
            Self::F64 => (Physical::DOUBLE, None, Repetition::OPTIONAL),
            Self::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        };
        Type::primitive_type_builder(name, physical)
            .with_logical_type(logical)
            .with_repetition(repetition)
            .build()
    }
}

/// Number of values of a column.
pub(crate) fn rows(data: &Data) -> usize {
    match data {
        Data::U64(v) => v.len(),
        Data::F64(v) => v.len(),
        Data::Text(v) => v.len(),
    }
}

/// Writes when its buffer is full, and not when it is asked to after each column.
struct Unhurried(BufWriter<File>);

impl std::io::Write for Unhurried {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A file under construction; rows may come in pieces.
pub(crate) struct Writer {
    file: SerializedFileWriter<Unhurried>,
    waiting: Vec<Data>,
}

impl Writer {
    /// Begins a file of `rows` rows and writes `about` into the file's footer.
    pub(crate) fn create(
        path: &Path,
        columns: &[(String, ColumnType)],
        about: &[(&str, &str)],
        rows: u64,
    ) -> Result<Self> {
        let fields = columns.iter().map(|(name, kind)| kind.field(name).map(Arc::new));
        let schema =
            Type::group_type_builder("narrows").with_fields(fields.collect::<Result<_>>()?).build()?;
        let about = about.iter().map(|(k, v)| KeyValue::new((*k).to_owned(), (*v).to_owned())).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            // In a short table no dictionary is worth its pages.
            .set_dictionary_enabled(rows > SHORT)
            .set_key_value_metadata(Some(about))
            .build();
        let file = Unhurried(BufWriter::with_capacity(BUFFER, File::create(path)?));
        Ok(Self {
            file: SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?,
            waiting: columns.iter().map(|(_, kind)| kind.empty()).collect(),
        })
    }

    /// Adds rows: as many columns as there are, of their types, all of one length.
    pub(crate) fn append(&mut self, columns: Vec<Data>) -> Result<()> {
        if columns.len() != self.waiting.len() {
            return Err(ParquetError::General("rows with other columns than the file".into()));
        }
        for (to, from) in self.waiting.iter_mut().zip(columns) {
            match (to, from) {
                (Data::U64(to), Data::U64(from)) => to.extend(from),
                (Data::F64(to), Data::F64(from)) => to.extend(from),
                (Data::Text(to), Data::Text(from)) => to.extend(from),
                _ => return Err(ParquetError::General("a column of another type than the file's".into())),
            }
        }
        if self.waiting.first().is_some_and(|c| rows(c) >= GROUP) { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for data in &mut self.waiting {
            let kind = ColumnType::of(data);
            write_column(&mut group, &std::mem::replace(data, kind.empty()))?;
        }
        group.close().map(drop)
    }

    /// Writes the file's end.
    pub(crate) fn close(mut self) -> Result<()> {
        if self.waiting.first().is_some_and(|c| rows(c) > 0) {
            self.flush()?;
        }
        let file = self.file.into_inner()?;
        file.0.into_inner().map_err(|e| e.into_error())?;
        Ok(())
    }
}

fn write_column<W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    data: &Data,
) -> Result<()> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the file has".into()));
    };
    match data {
        Data::U64(v) => {
            let v: Vec<i64> = v.iter().map(|x| x.cast_signed()).collect();
            column.typed::<Int64Type>().write_batch(&v, None, None)?;
        }
        Data::F64(v) => {
            let there: Vec<i16> = v.iter().map(|x| i16::from(!x.is_nan())).collect();
            let v: Vec<f64> = v.iter().copied().filter(|x| !x.is_nan()).collect();
            column.typed::<DoubleType>().write_batch(&v, Some(&there), None)?;
        }
        Data::Text(v) => {
            let v: Vec<ByteArray> = v.iter().map(|x| ByteArray::from(x.as_str())).collect();
            column.typed::<ByteArrayType>().write_batch(&v, None, None)?;
        }
    }
    column.close()
}

/// Reader of one file.
pub(crate) struct Reader(Box<dyn FileReader>);

impl Reader {
    /// A small file is read at once: from a file each column would take four system calls of its own.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() > SMALL {
            return Ok(Self(Box::new(SerializedFileReader::new(file)?)));
        }
        let mut whole = Vec::new();
        file.read_to_end(&mut whole)?;
        Ok(Self(Box::new(SerializedFileReader::new(Bytes::from(whole))?)))
    }

    /// Names and types of the file's columns.
    pub(crate) fn columns(&self) -> Result<Vec<(String, ColumnType)>> {
        let schema = self.0.metadata().file_metadata().schema_descr();
        let kind = |physical| match physical {
            Physical::INT64 => Ok(ColumnType::U64),
            Physical::DOUBLE => Ok(ColumnType::F64),
            Physical::BYTE_ARRAY => Ok(ColumnType::Text),
            other => Err(ParquetError::General(format!("a column of type {other}, which is not ours"))),
        };
        schema.columns().iter().map(|c| Ok((c.name().to_owned(), kind(c.physical_type())?))).collect()
    }

    /// Reads all columns.
    pub(crate) fn read(&self) -> Result<Vec<Column>> {
        let mut columns: Vec<Column> =
            self.columns()?.into_iter().map(|(name, kind)| Column { name, data: kind.empty() }).collect();
        for at in 0..self.0.num_row_groups() {
            let group = self.0.get_row_group(at)?;
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            for (number, column) in columns.iter_mut().enumerate() {
                read_column(group.get_column_reader(number)?, rows, &mut column.data)?;
            }
        }
        Ok(columns)
    }
}

fn read_column(reader: ColumnReader, rows: usize, data: &mut Data) -> Result<()> {
    let got = match (reader, data) {
        (ColumnReader::Int64ColumnReader(mut reader), Data::U64(to)) => {
            let mut values = Vec::with_capacity(rows);
            let (got, ..) = reader.read_records(rows, None, None, &mut values)?;
            to.extend(values.into_iter().map(i64::cast_unsigned));
            got
        }
        (ColumnReader::DoubleColumnReader(mut reader), Data::F64(to)) => {
            let (mut values, mut there) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
            let (got, ..) = reader.read_records(rows, Some(&mut there), None, &mut values)?;
            let mut values = values.into_iter();
            to.extend(
                there.into_iter().map(|t| if t == 0 { None } else { values.next() }.unwrap_or(f64::NAN)),
            );
            got
        }
        (ColumnReader::ByteArrayColumnReader(mut reader), Data::Text(to)) => {
            let mut values: Vec<ByteArray> = Vec::with_capacity(rows);
            let (got, ..) = reader.read_records(rows, None, None, &mut values)?;
            for value in values {
                to.push(value.as_utf8()?.to_owned());
            }
            got
        }
        _ => return Err(ParquetError::General("a column of another type than its schema says".into())),
    };
    if got == rows { Ok(()) } else { Err(ParquetError::EOF(format!("{got} rows where {rows} should be"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let path = std::env::temp_dir().join(format!("narrows-parquet-{}", std::process::id()));
        let columns = [
            ("n".to_owned(), ColumnType::U64),
            ("x_s".to_owned(), ColumnType::F64),
            ("who".to_owned(), ColumnType::Text),
        ];
        let piece = |from: u64| {
            let n: Vec<u64> = (from..from + GROUP as u64).collect();
            let x = n.iter().map(|n| if n % 3 == 0 { f64::NAN } else { *n as f64 / 7.0 }).collect();
            let who = n.iter().map(|n| format!("ü{}", n % 5)).collect();
            vec![Data::U64(n), Data::F64(x), Data::Text(who)]
        };
        let mut writer = Writer::create(&path, &columns, &[("seed", "1")], 2 * GROUP as u64).unwrap();
        writer.append(piece(u64::MAX - 2 * GROUP as u64)).unwrap();
        writer.append(piece(5)).unwrap();
        writer
            .append(vec![Data::U64(vec![1]), Data::F64(vec![f64::INFINITY]), Data::Text(vec![String::new()])])
            .unwrap();
        assert!(writer.append(vec![Data::U64(vec![1])]).is_err());
        writer.close().unwrap();

        let read = Reader::open(&path).unwrap().read().unwrap();
        let names: Vec<&str> = read.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["n", "x_s", "who"]);
        let (Data::U64(n), Data::F64(x), Data::Text(who)) = (&read[0].data, &read[1].data, &read[2].data)
        else {
            panic!("types");
        };
        assert_eq!((n.len(), x.len(), who.len()), (2 * GROUP + 1, 2 * GROUP + 1, 2 * GROUP + 1));
        assert_eq!((n[0], n[GROUP], n[2 * GROUP]), (u64::MAX - 2 * GROUP as u64, 5, 1));
        assert!((x[GROUP] - 5.0 / 7.0).abs() < 1e-15 && x[GROUP + 1].is_nan() && x[2 * GROUP].is_infinite());
        assert_eq!((who[GROUP].as_str(), who[2 * GROUP].as_str()), ("ü0", ""));
        std::fs::remove_file(path).unwrap();
    }
}
