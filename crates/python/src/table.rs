//! Results as Arrow tables (Arrow C data interface, PyCapsule form), and as numpy arrays without Arrow.
//!
//! Whole numbers are `uint64`, measures `float64` with a null where there is none (a NaN stands below it), words
//! `large_string`, which pandas holds as it is and polars looks at in place. The numbers a run left behind are handed
//! on where they lie: pyarrow, polars and numpy see the same bytes.

use std::sync::Arc;

use arrow_array::builder::LargeStringBuilder;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array as _, ArrayRef, Float64Array, LargeStringArray, RecordBatch, RecordBatchIterator, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use narrows_settings::one_of;
use narrows_sim::Data;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyIterator, PyList, PySlice, PyTuple};

/// A table by columns.
#[pyclass(frozen, module = "narrows")]
#[derive(Debug)]
pub(crate) struct Table {
    /// Name of the table among the results.
    #[pyo3(get)]
    name: String,
    batch: RecordBatch,
}

fn arrow(why: ArrowError) -> PyErr {
    PyRuntimeError::new_err(why.to_string())
}

/// Measures: the numbers as they are, and which of them are none.
fn measures(values: Vec<f64>) -> Float64Array {
    let valid = values.iter().any(|x| x.is_nan()).then(|| values.iter().map(|x| !x.is_nan()).collect());
    Float64Array::new(values.into(), valid)
}

fn words(values: &[String]) -> LargeStringArray {
    let mut builder = LargeStringBuilder::with_capacity(values.len(), values.iter().map(String::len).sum());
    values.iter().for_each(|v| builder.append_value(v));
    builder.finish()
}

impl TryFrom<narrows_sim::Table> for Table {
    type Error = PyErr;

    fn try_from(table: narrows_sim::Table) -> PyResult<Self> {
        let columns = table.columns.into_iter().map(|column| {
            let (array, nullable): (ArrayRef, _) = match column.data {
                Data::U64(v) => (Arc::new(UInt64Array::from(v)), false),
                Data::F64(v) => (Arc::new(measures(v)), true),
                Data::Text(v) => (Arc::new(words(&v)), false),
            };
            (Field::new(column.name, array.data_type().clone(), nullable), array)
        });
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.unzip();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(arrow)?;
        Ok(Self { name: table.name, batch })
    }
}

impl Table {
    fn unknown(&self, name: &str) -> PyErr {
        let known = self.columns();
        let expected = one_of(name, known.iter().map(String::as_str));
        PyKeyError::new_err(format!("{name}: no such column: expected {expected}"))
    }

    fn of(&self, batch: RecordBatch) -> Self {
        Self { name: self.name.clone(), batch }
    }

    fn column_as_python<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let column = self.column(name)?;
        if matches!(column.0.data_type(), DataType::UInt64 | DataType::Float64) {
            py.import("numpy")?.call_method1("asarray", (column,))
        } else {
            Ok(column.to_list(py)?.into_any())
        }
    }

    fn of_columns(&self, names: &[String]) -> PyResult<Self> {
        let schema = self.batch.schema();
        let places = names.iter().map(|name| schema.index_of(name).map_err(|_| self.unknown(name)));
        Ok(self.of(self.batch.project(&places.collect::<PyResult<Vec<_>>>()?).map_err(arrow)?))
    }

    fn of_rows(&self, rows: &Bound<'_, PySlice>) -> PyResult<Self> {
        let length =
            isize::try_from(self.batch.num_rows()).map_err(|_| PyIndexError::new_err("too many rows"))?;
        let place = rows.indices(length)?;
        if place.step != 1 {
            let told =
                format!("a slice with step {}: expected rows one after another, as table[10:20]", place.step);
            return Err(PyValueError::new_err(told));
        }
        Ok(self.of(self.batch.slice(place.start.unsigned_abs(), place.slicelength)))
    }
}

#[pymethods]
impl Table {
    /// Names of the columns, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|f| f.name().clone()).collect()
    }

    /// Names of the columns, so that `dict(table)` has the columns by name.
    fn keys(&self) -> Vec<String> {
        self.columns()
    }

    /// Row by row, as named tuples.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let how = PyDict::new(py);
        how.set_item("rename", true)?;
        let row = py.import("collections")?.getattr("namedtuple")?;
        let keyword = py.import("keyword")?.getattr("iskeyword")?;
        // A keyword cannot be an attribute: the column `class` is the attribute `class_`, and a field by its own name.
        let attribute =
            |name: String| Ok(if keyword.call1((&name,))?.is_truthy()? { format!("{name}_") } else { name });
        let attributes = self.columns().into_iter().map(attribute).collect::<PyResult<Vec<_>>>()?;
        let row = row.call(("Row", attributes), Some(&how))?;
        row.setattr("_fields", PyTuple::new(py, self.columns())?)?;
        let make = row.getattr("_make")?;
        let columns = self.batch.columns().iter().map(|array| Column(array.clone()).to_list(py));
        let columns = PyTuple::new(py, columns.collect::<PyResult<Vec<_>>>()?)?;
        let builtins = py.import("builtins")?;
        let rows = builtins.getattr("zip")?.call1(columns)?;
        builtins.getattr("map")?.call1((make, rows))?.try_iter()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.batch.column_by_name(name).is_some()
    }

    /// Numbers of rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.batch.num_rows(), self.batch.num_columns())
    }

    /// The first rows, as a table upon the same memory.
    #[pyo3(signature = (rows=5))]
    fn head(&self, rows: usize) -> Self {
        self.of(self.batch.slice(0, rows.min(self.batch.num_rows())))
    }

    /// The last rows, as a table upon the same memory.
    #[pyo3(signature = (rows=5))]
    fn tail(&self, rows: usize) -> Self {
        let rows = rows.min(self.batch.num_rows());
        self.of(self.batch.slice(self.batch.num_rows() - rows, rows))
    }

    /// A column: numbers as a numpy array, read-only, that looks at the table's memory; words as a list. Of a list of
    /// names: a table of those columns, and of a slice one of those rows, upon the same memory.
    fn __getitem__<'py>(&self, py: Python<'py>, what: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(name) = what.extract::<String>() {
            return self.column_as_python(py, &name);
        }
        let table = if let Ok(rows) = what.cast::<PySlice>() {
            self.of_rows(rows)?
        } else if let Ok(names) = what.extract::<Vec<String>>() {
            self.of_columns(&names)?
        } else {
            let told = format!(
                "table[{}]: expected a column's name, a list of names, or a slice of rows, as table[:5]",
                what.repr()?
            );
            return Err(PyTypeError::new_err(told));
        };
        Ok(Bound::new(py, table)?.into_any())
    }

    /// A column, which `numpy.asarray` takes without copying.
    fn column(&self, name: &str) -> PyResult<Column> {
        match self.batch.column_by_name(name) {
            Some(array) => Ok(Column(array.clone())),
            None => Err(self.unknown(name)),
        }
    }

    /// A pandas DataFrame; numbers are not copied.
    ///
    /// Raises:
    ///     ImportError: pandas is missing.
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let columns = PyDict::new(py);
        for name in self.columns() {
            columns.set_item(&name, self.column_as_python(py, &name)?)?;
        }
        let how = PyDict::new(py);
        how.set_item("copy", false)?;
        py.import("pandas")?.getattr("DataFrame")?.call((columns,), Some(&how))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer that has one form only pass over what was asked for.
        let _ = requested_schema;
        let batches = [Ok(self.batch.clone())];
        let stream =
            FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new(batches, self.batch.schema())));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(arrow)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Takes the table apart for pickling: its name and, for each column, name and values; numbers as bytes.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Taken<'py>> {
        let py = slf.py();
        let table = slf.get();
        let columns = table.batch.columns().iter().zip(table.columns());
        let parts = columns.map(|(array, name)| match array.data_type() {
            DataType::UInt64 | DataType::Float64 => {
                let kind = if *array.data_type() == DataType::UInt64 { "u64" } else { "f64" };
                let data = array.to_data();
                let bytes = &data.buffers()[0].as_slice()[..8 * array.len()];
                Ok((name, kind, PyBytes::new(py, bytes).into_any()))
            }
            _ => Ok((name, "text", Column(array.clone()).to_list(py)?.into_any())),
        });
        let make = slf.get_type().getattr("from_parts")?;
        Ok((make, (table.name.clone(), parts.collect::<PyResult<_>>()?)))
    }

    /// Builds a table from the parts that `__reduce__` gave.
    #[staticmethod]
    fn from_parts(name: String, columns: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let columns = columns.into_iter().map(|(name, kind, values)| {
            let data = match kind.as_str() {
                "u64" => Data::U64(eights(&values)?.map(u64::from_ne_bytes).collect()),
                "f64" => Data::F64(eights(&values)?.map(f64::from_ne_bytes).collect()),
                _ => Data::Text(values.extract()?),
            };
            Ok(narrows_sim::Column { name, data })
        });
        narrows_sim::Table { name, columns: columns.collect::<PyResult<_>>()? }.try_into()
    }

    fn __repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("narrows.views")?.call_method1("table_text", (slf,))
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("narrows.views")?.call_method1("table_html", (slf,))
    }
}

/// Name, kind and values of a column.
type Parts<'py> = (String, &'static str, Bound<'py, PyAny>);
/// Function that builds a table again, and its arguments.
type Taken<'py> = (Bound<'py, PyAny>, (String, Vec<Parts<'py>>));

fn eights<'a>(bytes: &'a Bound<'_, PyAny>) -> PyResult<impl Iterator<Item = [u8; 8]> + 'a> {
    let bytes = bytes.cast::<PyBytes>()?.as_bytes();
    Ok(bytes.as_chunks::<8>().0.iter().copied())
}

/// A column of a table.
#[pyclass(frozen, module = "narrows")]
#[derive(Debug)]
pub(crate) struct Column(ArrayRef);

impl Column {
    /// Creates a column of measures.
    pub(crate) fn of(values: Vec<f64>) -> Self {
        Self(Arc::new(Float64Array::from(values)))
    }
}

#[pymethods]
impl Column {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The numbers where they lie, for numpy; read-only. Words have none.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let data = self.0.to_data();
        let typestr = match self.0.data_type() {
            DataType::UInt64 => "u8",
            DataType::Float64 => "f8",
            _ => return Err(pyo3::exceptions::PyAttributeError::new_err("words have no array interface")),
        };
        let order = if cfg!(target_endian = "little") { "<" } else { ">" };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", format!("{order}{typestr}"))?;
        interface.set_item("shape", (self.0.len(),))?;
        interface.set_item("data", (data.buffers()[0].as_ptr() as usize, true))?;
        Ok(interface)
    }

    /// The values as Python has them; None where there is no value.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        if let Some(numbers) = self.0.as_any().downcast_ref::<UInt64Array>() {
            PyList::new(py, numbers.values().iter())
        } else if let Some(numbers) = self.0.as_any().downcast_ref::<Float64Array>() {
            PyList::new(py, numbers.iter())
        } else if let Some(words) = self.0.as_any().downcast_ref::<LargeStringArray>() {
            PyList::new(py, words.iter())
        } else {
            Err(PyRuntimeError::new_err("a column of a kind no table has"))
        }
    }
}
