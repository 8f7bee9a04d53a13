//! What goes to PostgreSQL and comes back, in its binary format.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::store::sql::{Cell, Value};

type Failure = Box<dyn Error + Sync + Send>;

/// As whatever type the statement asks for: a whole number of any width, 16 bytes or an id, a text or JSON.
impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        match *self {
            Value::Null => return Ok(IsNull::Yes),
            Value::Integer(number) => match *ty {
                Type::INT2 => out.put_i16(number.try_into()?),
                Type::INT4 => out.put_i32(number.try_into()?),
                Type::INT8 => out.put_i64(number),
                _ => return Err(format!("a number is no {ty}").into()),
            },
            Value::Blob(bytes) => match *ty {
                Type::BYTEA | Type::UUID => out.put_slice(bytes),
                _ => return Err(format!("bytes are no {ty}").into()),
            },
            // It has no NUL in a text.
            Value::Text(text) if text.contains('\0') => {
                out.put_slice(text.replace('\0', "\u{fffd}").as_bytes());
            }
            Value::Text(text) => out.put_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        // It is looked at with the value.
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Cell, Failure> {
        Ok(match *ty {
            Type::BOOL => Cell::Integer(i64::from(bool::from_sql(ty, raw)?)),
            Type::INT2 => Cell::Integer(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Cell::Integer(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Cell::Integer(i64::from_sql(ty, raw)?),
            Type::BYTEA | Type::UUID => Cell::Blob(raw.to_vec()),
            Type::TEXT | Type::VARCHAR | Type::NAME | Type::JSON | Type::UNKNOWN => {
                Cell::Text(str::from_utf8(raw)?.to_owned())
            }
            // What says nothing, as a function without a result.
            Type::VOID => Cell::Null,
            _ => return Err(format!("a {ty} is nothing that we ask for").into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Cell, Failure> {
        Ok(Cell::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
