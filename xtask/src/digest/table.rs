//! A table's digest: its name, its size, a hash of its column names, and one of its values column by column.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use sha2::{Digest as _, Sha256};

use super::words::canonical;

/// Hex digits of a column's hash: 64 bits tell any two columns of two digests apart.
const SHORT: usize = 16;

/// Digest of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Name of the table, in the new words.
    pub name: String,
    /// Number of rows, without the header.
    pub rows: u64,
    /// Name of each column, with a hash of the column's values.
    pub columns: Vec<(String, String)>,
    /// Hash of the columns' names.
    pub header: String,
    /// Hash of the values, in the order of the columns.
    pub values: String,
}

/// Table whose rows are still being added.
pub struct Builder {
    columns: Vec<(String, Sha256)>,
    rows: u64,
}

impl Builder {
    /// Makes a table without rows.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        let columns = columns.into_iter().map(|name| (name.into(), Sha256::new())).collect();
        Self { columns, rows: 0 }
    }

    /// Adds a row of text.
    pub fn row<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) -> Result<()> {
        self.bytes(cells.into_iter().map(canonical))
    }

    /// Adds a row of cells with any bytes.
    pub fn bytes<B: AsRef<[u8]>>(&mut self, cells: impl IntoIterator<Item = B>) -> Result<()> {
        let mut cells = cells.into_iter();
        for (name, hash) in &mut self.columns {
            let cell = cells.next().with_context(|| format!("row {}: no cell for {name}", self.rows + 1))?;
            hash.update((cell.as_ref().len() as u64).to_le_bytes());
            hash.update(cell.as_ref());
        }
        ensure!(cells.next().is_none(), "row {}: more cells than columns", self.rows + 1);
        self.rows += 1;
        Ok(())
    }

    /// Digest of the rows added so far, under a name.
    pub fn finish(self, name: &str) -> Summary {
        let (mut header, mut values) = (Sha256::new(), Sha256::new());
        let mut columns = Vec::new();
        for (name, hash) in self.columns {
            let hash = hex(&hash.finalize());
            header.update(format!("{name}\n"));
            values.update(&hash);
            columns.push((name, hash[..SHORT].to_owned()));
        }
        Summary {
            name: canonical(name),
            rows: self.rows,
            columns,
            header: hex(&header.finalize()),
            values: hex(&values.finalize()),
        }
    }
}

impl Summary {
    /// Digest of a CSV file.
    pub fn of_csv(name: &str, path: &Path) -> Result<Self> {
        let read = || path.display().to_string();
        let mut reader = csv::Reader::from_path(path).with_context(read)?;
        let mut table = Builder::new(reader.headers().with_context(read)?.iter());
        let mut record = csv::StringRecord::new();
        while reader.read_record(&mut record).with_context(read)? {
            table.row(&record).with_context(read)?;
        }
        Ok(table.finish(name))
    }

    /// A line for the table, and one for each column.
    pub fn text(&self) -> String {
        let Self { name, rows, columns, header, values } = self;
        let mut out = format!("{name}\t{rows}\t{}\t{header}\t{values}\n", columns.len());
        for (name, hash) in columns {
            let _ = writeln!(out, "\t{}\t{hash}", name.replace(['\t', '\n'], " "));
        }
        out
    }
}

/// Reads what [`Summary::text`] wrote. Lines that begin with # are comments.
pub fn parse(text: &str) -> Result<Vec<Summary>> {
    let mut tables: Vec<Summary> = Vec::new();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let wrong = || format!("line {}: expected a table or a column of one: {line}", n + 1);
        match (line.split('\t').collect::<Vec<_>>().as_slice(), tables.last_mut()) {
            (["", name, hash], Some(table)) => table.columns.push(((*name).to_owned(), (*hash).to_owned())),
            ([name, rows, _, header, values], _) => tables.push(Summary {
                name: (*name).to_owned(),
                rows: rows.parse().with_context(wrong)?,
                columns: Vec::new(),
                header: (*header).to_owned(),
                values: (*values).to_owned(),
            }),
            _ => anyhow::bail!(wrong()),
        }
    }
    Ok(tables)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[&str], rows: &[&[&str]]) -> Summary {
        let mut table = Builder::new(columns.iter().copied());
        rows.iter().for_each(|row| table.row(row.iter().copied()).unwrap());
        table.finish("t")
    }

    #[test]
    fn a_renamed_column_changes_the_first_hash_alone() {
        let a = table(&["door", "n"], &[&["taq:swallow=off", "1"], &["taq", "2"]]);
        let b = table(&["admission", "n"], &[&["taq:suppress_duplicates=off", "1"], &["taq", "2"]]);
        assert_eq!(a.values, b.values);
        assert_ne!(a.header, b.header);
        let c = table(&["door", "n"], &[&["taq:swallow=off", "1"], &["taq", "2.0"]]);
        assert_eq!(a.header, c.header);
        assert_ne!(a.values, c.values);
        assert_eq!(a.columns[0], c.columns[0]);
    }

    #[test]
    fn cells_do_not_run_together() {
        assert_ne!(table(&["a"], &[&["1"], &["23"]]).values, table(&["a"], &[&["12"], &["3"]]).values);
        assert_ne!(table(&["ab", "c"], &[]).header, table(&["a", "bc"], &[]).header);
    }

    #[test]
    fn text_reads_back() {
        let tables = [table(&["a", "b"], &[&["1", ""]]), table(&[], &[])];
        let text: String = tables.iter().map(Summary::text).collect();
        assert_eq!(parse(&format!("# of 1.0\n{text}")).unwrap(), tables);
        assert!(parse("what\tis this").is_err());
    }

    #[test]
    fn rows_fit_their_columns() {
        assert!(Builder::new(["a"]).row([]).is_err());
        assert!(Builder::new(["a"]).row(["1", "2"]).is_err());
    }
}
