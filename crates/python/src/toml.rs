//! Tables of TOML as dicts of Python, and back.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString};
use toml::{Table, Value};

use crate::error;

/// The dict of a TOML text. `file` is named in errors.
#[pyfunction]
#[pyo3(signature = (text, file=None))]
pub(crate) fn from_toml<'py>(
    py: Python<'py>,
    text: &str,
    file: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    match toml::from_str::<Table>(text) {
        Ok(table) => dict(py, &table),
        Err(why) => {
            let at = why.span().and_then(|s| text.get(..s.start)).map_or(1, |t| t.matches('\n').count() + 1);
            let message = why.message().lines().collect::<Vec<_>>().join(", ");
            Err(error::refuse(py, "", &format!("line {at} is no TOML: {message}"), file))
        }
    }
}

/// The text of a dict, keys in order.
#[pyfunction]
pub(crate) fn to_toml(table: &Bound<'_, PyDict>) -> PyResult<String> {
    let value = value(table.as_any(), "")?;
    toml::to_string(&value)
        .map_err(|e| error::refuse(table.py(), "", &format!("cannot be written as TOML: {e}"), None))
}

/// The text of a value as it stands after a key.
#[pyfunction]
#[pyo3(signature = (value, key=""))]
pub(crate) fn toml_value(value: &Bound<'_, PyAny>, key: &str) -> PyResult<String> {
    Ok(self::value(value, key)?.to_string())
}

fn dict<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let made = PyDict::new(py);
    for (key, value) in table {
        made.set_item(key, object(py, value)?)?;
    }
    Ok(made)
}

fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::String(s) => PyString::new(py, s).into_any(),
        Value::Integer(n) => n.into_pyobject(py)?.into_any(),
        Value::Float(x) => PyFloat::new(py, *x).into_any(),
        Value::Boolean(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::Datetime(t) => PyString::new(py, &t.to_string()).into_any(),
        Value::Array(list) => {
            let made = PyList::empty(py);
            for v in list {
                made.append(object(py, v)?)?;
            }
            made.into_any()
        }
        Value::Table(t) => dict(py, t)?.into_any(),
    })
}

/// `what` stands at the dotted `key`.
fn value(what: &Bound<'_, PyAny>, key: &str) -> PyResult<Value> {
    let below = |part: &str| if key.is_empty() { part.to_owned() } else { format!("{key}.{part}") };
    if let Ok(flag) = what.cast::<PyBool>() {
        return Ok(Value::Boolean(flag.is_true()));
    }
    if let Ok(text) = what.cast::<PyString>() {
        return Ok(Value::String(text.to_string()));
    }
    if let Ok(map) = what.cast::<PyMapping>() {
        let mut table = Table::new();
        for pair in map.items()?.iter() {
            let (name, v): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
            let Ok(name) = name.extract::<String>() else {
                let problem = format!("has the key {}: expected text", name.repr()?);
                return Err(error::refuse(what.py(), key, &problem, None));
            };
            let inner = value(&v, &below(&name))?;
            table.insert(name, inner);
        }
        return Ok(Value::Table(table));
    }
    if let Ok(list) = what.cast::<PySequence>() {
        let all = (0..list.len()?).map(|i| value(&list.get_item(i)?, &below(&i.to_string())));
        return Ok(Value::Array(all.collect::<PyResult<_>>()?));
    }
    // Numbers of numpy are no subclasses of Python's, but turn into them; a float does not turn into a whole number.
    if what.cast::<PyInt>().is_ok() || what.hasattr("__index__")? {
        return match what.extract::<i64>() {
            Ok(n) => Ok(Value::Integer(n)),
            Err(_) => Err(refused(what, key, "a whole number from -2^63 to 2^63 - 1")),
        };
    }
    match what.extract::<f64>() {
        Ok(x) => Ok(Value::Float(x)),
        Err(_) => Err(refused(what, key, "text, a number, true or false, a list, or a table")),
    }
}

fn refused(what: &Bound<'_, PyAny>, key: &str, expected: &str) -> PyErr {
    let shown = what.repr().map_or_else(|_| "a value".to_owned(), |r| r.to_string());
    let kind = what.get_type().name().map_or_else(|_| "object".to_owned(), |n| n.to_string());
    error::refuse(what.py(), key, &format!("= {shown} of type {kind}: expected {expected}"), None)
}
