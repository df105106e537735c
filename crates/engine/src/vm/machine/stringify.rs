//! Script values as JSON text, exactly as `JSON.stringify` writes them.
//!
//! Where `JSON.stringify` would drop something silently or fail without saying where (functions, symbols, big integers, cycles, promises),
//! this names the path. Bounded in depth and size, so no value of a script can exhaust the process in here.
use boa_engine::{
    Context, JsBigInt, JsError, JsNativeError, JsObject, JsResult, JsString, JsValue,
    builtins::promise::Promise,
    js_string,
    object::builtins::{JsMap, JsSet},
    property::PropertyKey,
};
use domain::{
    json::js_number,
    limits::{JSON_DEPTH_MAX, RESULT_BYTES_MAX},
};

/// Functions of the language as they were before the script could change them.
#[derive(Clone)]
pub(super) struct Primordials {
    keys: JsObject,
    is_array: JsObject,
    pub(super) parse: JsObject,
}
impl Primordials {
    pub(super) fn take(cx: &mut Context) -> JsResult<Self> {
        let missing = || JsError::from(JsNativeError::error().with_message("a built-in function is missing"));
        let object = cx.intrinsics().constructors().object().constructor();
        let keys = object.get(js_string!("keys"), cx)?.as_callable().ok_or_else(missing)?;
        let array = cx.intrinsics().constructors().array().constructor();
        let is_array = array.get(js_string!("isArray"), cx)?.as_callable().ok_or_else(missing)?;
        let json = cx.intrinsics().objects().json();
        let parse = json.get(js_string!("parse"), cx)?.as_callable().ok_or_else(missing)?;
        Ok(Self { keys, is_array, parse })
    }
}

pub(super) struct Written {
    pub(super) json: String,
    pub(super) warnings: Vec<String>,
}

pub(super) enum Unwritable {
    NotJson {
        path: String,
        what: String,
    },
    /// A getter or `toJSON` of the script threw.
    Script(JsError),
}
impl From<JsError> for Unwritable {
    fn from(e: JsError) -> Self {
        Self::Script(e)
    }
}

/// `undefined` as a whole is written as `null`. `what` names the value in messages.
pub(super) fn stringify(what: &str, value: &JsValue, primordials: &Primordials, cx: &mut Context) -> Result<Written, Unwritable> {
    let mut writer = Writer { out: String::new(), path: what.to_owned(), open: Vec::new(), warnings: Vec::new(), primordials, cx };
    if !writer.value(value.clone(), &js_string!(""))? {
        writer.out.push_str("null");
    }
    Ok(Written { json: writer.out, warnings: writer.warnings })
}

struct Writer<'a> {
    out: String,
    path: String,
    open: Vec<JsObject>,
    warnings: Vec<String>,
    primordials: &'a Primordials,
    cx: &'a mut Context,
}

impl Writer<'_> {
    /// Writes one value; `false` for `undefined`, which writes nothing.
    fn value(&mut self, value: JsValue, key: &JsString) -> Result<bool, Unwritable> {
        let value = self.converted(value, key)?;
        if value.is_undefined() {
            return Ok(false);
        }
        if value.is_null() {
            self.out.push_str("null");
        } else if let Some(b) = value.as_boolean() {
            self.out.push_str(if b { "true" } else { "false" });
        } else if let Some(n) = value.as_number() {
            self.out.push_str(&js_number(n));
        } else if let Some(text) = value.as_string() {
            self.fits(text.len())?;
            quote(&text, &mut self.out);
        } else if value.is_bigint() {
            return Err(self.not_json("a BigInt; write it as a text, like String(n)"));
        } else if value.is_symbol() {
            return Err(self.not_json("a symbol"));
        } else if let Some(object) = value.as_object() {
            self.object(object)?;
        }
        self.fits(0)?;
        Ok(true)
    }

    /// `toJSON` is honoured, and `new Number(1)` is 1.
    fn converted(&mut self, value: JsValue, key: &JsString) -> Result<JsValue, Unwritable> {
        let Some(object) = value.as_object() else { return Ok(value) };
        if object.is_callable() {
            return Err(self.not_json("a function"));
        }
        if object.is::<Promise>() {
            return Err(self.not_json("a promise; is an await missing?"));
        }
        let to_json = object.get(js_string!("toJSON"), self.cx)?;
        let value = match to_json.as_callable() {
            Some(to_json) => to_json.call(&value, &[key.clone().into()], self.cx)?,
            None => value,
        };
        let Some(object) = value.as_object() else { return Ok(value) };
        if object.is::<f64>() {
            return Ok(value.to_number(self.cx)?.into());
        }
        if object.is::<JsString>() {
            return Ok(value.to_string(self.cx)?.into());
        }
        let boolean = object.downcast_ref::<bool>().map(|b| *b);
        if let Some(b) = boolean {
            return Ok(b.into());
        }
        if object.is::<JsBigInt>() {
            return Err(self.not_json("a BigInt; write it as a text, like String(n)"));
        }
        if object.is_callable() {
            return Err(self.not_json("a function"));
        }
        Ok(value)
    }

    fn object(&mut self, object: JsObject) -> Result<(), Unwritable> {
        if self.open.iter().any(|o| JsObject::equals(o, &object)) {
            return Err(self.not_json("part of a cycle: it contains itself"));
        }
        if self.open.len() >= JSON_DEPTH_MAX {
            return Err(self.not_json(&format!("nested deeper than {JSON_DEPTH_MAX} levels")));
        }
        if JsMap::from_object(object.clone()).is_ok() || JsSet::from_object(object.clone()).is_ok() {
            self.warnings.push(format!("{} is a Map or Set, which JSON writes as {{}}; use Object.fromEntries(map) or [...set]", self.path));
        }
        self.open.push(object.clone());
        let is_array = self.primordials.is_array.call(&JsValue::undefined(), &[object.clone().into()], self.cx)?;
        if is_array.to_boolean() {
            self.array(&object)?
        } else {
            self.members(&object)?
        }
        self.open.pop();
        Ok(())
    }

    fn array(&mut self, array: &JsObject) -> Result<(), Unwritable> {
        let length = array.get(js_string!("length"), self.cx)?.to_length(self.cx)?;
        // Every item takes a character and a comma at least.
        self.fits(usize::try_from(length).unwrap_or(usize::MAX).saturating_mul(2))?;
        let here = self.path.len();
        self.out.push('[');
        for i in 0..length {
            if i > 0 {
                self.out.push(',');
            }
            self.path.push_str(&format!("[{i}]"));
            let item = array.get(i, self.cx)?;
            if !self.value(item, &JsString::from(i.to_string()))? {
                self.out.push_str("null");
            }
            self.path.truncate(here);
        }
        self.out.push(']');
        Ok(())
    }

    fn members(&mut self, object: &JsObject) -> Result<(), Unwritable> {
        let keys = self.primordials.keys.call(&JsValue::undefined(), &[object.clone().into()], self.cx)?;
        let keys = keys.to_object(self.cx)?;
        let count = keys.get(js_string!("length"), self.cx)?.to_length(self.cx)?;
        let here = self.path.len();
        let mut is_first = true;
        self.out.push('{');
        for i in 0..count {
            let key = keys.get(i, self.cx)?.to_string(self.cx)?;
            let member = object.get(PropertyKey::from(key.clone()), self.cx)?;
            self.path.push('.');
            self.path.push_str(domain::text::cut_chars(&key.to_std_string_lossy(), 60));
            let before = self.out.len();
            if !is_first {
                self.out.push(',');
            }
            quote(&key, &mut self.out);
            self.out.push(':');
            if self.value(member, &key)? {
                is_first = false;
            } else {
                self.out.truncate(before);
            }
            self.path.truncate(here);
        }
        self.out.push('}');
        Ok(())
    }

    fn fits(&self, more: usize) -> Result<(), Unwritable> {
        if self.out.len().saturating_add(more) <= RESULT_BYTES_MAX {
            return Ok(());
        }
        let mib = RESULT_BYTES_MAX / domain::limits::MIB;
        Err(Unwritable::NotJson { path: crate::vm::cut_path(&self.path), what: format!("where it grows larger than {mib} MiB") })
    }

    fn not_json(&self, what: &str) -> Unwritable {
        Unwritable::NotJson { path: crate::vm::cut_path(&self.path), what: what.to_owned() }
    }
}

/// A text as `JSON.stringify` writes it: half a surrogate pair is written as its escape.
fn quote(text: &JsString, out: &mut String) {
    out.push('"');
    for unit in text.code_points() {
        match unit {
            boa_engine::string::CodePoint::Unicode(c) => match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
                c => out.push(c),
            },
            boa_engine::string::CodePoint::UnpairedSurrogate(unit) => out.push_str(&format!("\\u{unit:04x}")),
        }
    }
    out.push('"');
}
