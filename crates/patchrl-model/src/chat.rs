//! Turns of a conversation, rendered by the model's own Jinja template.
//!
//! Owns the environment that transformers gives such a template: `trim_blocks`, `lstrip_blocks`,
//! loop controls, `raise_exception`, `strftime_now`, a `tojson` that writes as Python does, and
//! the names of the special tokens. A template is data from a stranger: it has no loader, no
//! files and a bound on its work. Does not encode (see `tokenizer`).

use std::fmt;
use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value, context};
use serde::{Deserialize, Serialize};

use crate::{ModelError, Tokenizer};

/// Instructions a template may run; a long conversation needs a few thousand.
const FUEL: u64 = 5_000_000;
const NAME: &str = "chat_template";

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user` or `assistant`; what else a template knows is its own affair.
    pub role: String,
    /// What was said.
    pub content: String,
}

impl Message {
    /// A turn of `role` that says `content`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// A calendar day, for templates that ask for today's date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    /// Such as 2024.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
}

impl Default for Day {
    /// The day that templates with a date fall back to. A fixed one keeps prompts the same from
    /// day to day.
    fn default() -> Self {
        Self { year: 2024, month: 7, day: 26 }
    }
}

/// A compiled chat template.
#[derive(Clone)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// `bos_token` and its like, as the tokenizer names them.
    names: Vec<(&'static str, Option<String>)>,
}

impl ChatTemplate {
    /// Compile the template that came with `tokenizer`.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self, ModelError> {
        let Some(source) = tokenizer.chat_template() else {
            return Err(ModelError::Template("the model comes without one".into()));
        };
        let names = ["bos_token", "eos_token", "pad_token", "unk_token"];
        let mut template = Self::compile(&source)?;
        template.names = names.map(|name| (name, tokenizer.named(name))).into();
        Ok(template)
    }

    fn compile(source: &str) -> Result<Self, ModelError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| fault(&e))?);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_fuel(Some(FUEL));
        environment.set_formatter(write_as_python);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        let mut template = Self { environment, names: Vec::new() };
        template.set_day(Day::default());
        template.environment.add_template_owned(NAME, source.to_owned()).map_err(|e| fault(&e))?;
        Ok(template)
    }

    /// What `strftime_now` says, for the few templates that ask.
    pub fn set_day(&mut self, day: Day) {
        self.environment.add_function("strftime_now", move |format: String| day.format(&format));
    }

    /// The conversation as text. With `add_generation_prompt` it ends where the model's answer
    /// begins.
    pub fn render(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<String, ModelError> {
        let names = self.names.iter().filter_map(|(name, text)| Some((*name, text.as_ref()?)));
        let names: Value = names.collect();
        let messages: Vec<Value> = messages
            .iter()
            .map(|m| {
                Value::from_pairs([("role", m.role.as_str()), ("content", m.content.as_str())])
            })
            .collect();
        let context = context! {
            messages,
            add_generation_prompt,
            tools => Value::from(()),
            documents => Value::from(()),
            ..names
        };
        let template = self.environment.get_template(NAME).map_err(|e| fault(&e))?;
        template.render(context).map_err(|e| fault(&e))
    }

    /// The conversation as tokens. Special tokens come from the template alone: `<|im_end|>`
    /// inside a message stays the characters it is made of and cannot end the turn.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<Vec<u32>, ModelError> {
        let specials = tokenizer.special_texts();
        let suspicious = |m: &Message| specials.iter().any(|s| m.content.contains(s.as_str()));
        if !messages.iter().any(suspicious) {
            let text = self.render(messages, add_generation_prompt)?;
            return Ok(tokenizer.encode_with_special(&text));
        }
        let defused: Vec<Message> = messages
            .iter()
            .map(|m| Message::new(m.role.clone(), defuse(&m.content, &specials)))
            .collect();
        let text = self.render(&defused, add_generation_prompt)?;
        Ok(encode_defused(tokenizer, &text, &specials))
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("names", &self.names).finish_non_exhaustive()
    }
}

/// A private-use character that no special token contains and no template looks for.
pub(crate) const MARK: char = '\u{10FFFD}';

/// Put a mark after the first character of every special token in `text`.
pub(crate) fn defuse(text: &str, specials: &[String]) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        out.push(first);
        if first == MARK || specials.iter().any(|s| rest.starts_with(s.as_str())) {
            out.push(MARK);
        }
        rest = &rest[first.len_utf8()..];
    }
    out
}

/// Tokens of a rendered text whose messages were defused: cut at the template's special tokens,
/// and take the marks out of what lies between them.
pub(crate) fn encode_defused(tokenizer: &Tokenizer, text: &str, specials: &[String]) -> Vec<u32> {
    let mut tokens = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let found = specials.iter().find(|s| rest.starts_with(s.as_str()));
        if let Some((special, id)) = found.and_then(|s| Some((s, tokenizer.id(s)?))) {
            tokens.extend(tokenizer.encode(&plain));
            tokens.push(id);
            plain.clear();
            rest = &rest[special.len()..];
            continue;
        }
        plain.push(first);
        rest = &rest[first.len_utf8()..];
        // The mark follows the character it was put after, which may be a mark of the text's own.
        rest = rest.strip_prefix(MARK).unwrap_or(rest);
    }
    tokens.extend(tokenizer.encode(&plain));
    tokens
}

/// The template's own line and reason, without the source that minijinja would add.
fn fault(error: &Error) -> ModelError {
    ModelError::Template(error.to_string())
}

/// `None`, `True` and `False` are written as Jinja in Python writes them.
fn write_as_python(
    out: &mut minijinja::Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    let text = match value.kind() {
        ValueKind::None => "None",
        ValueKind::Bool if value.is_true() => "True",
        ValueKind::Bool => "False",
        _ => return minijinja::escape_formatter(out, state, value),
    };
    out.write_str(text).map_err(Error::from)
}

/// `json.dumps(value, ensure_ascii=False, indent=indent)`.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn to_json(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    let fault = |e: serde_json::Error| Error::new(ErrorKind::BadSerialization, e.to_string());
    let mut bytes = Vec::new();
    if let Some(indent) = indent.map(|n| " ".repeat(n.min(16))) {
        let pretty = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
        let mut out = serde_json::Serializer::with_formatter(&mut bytes, pretty);
        value.serialize(&mut out).map_err(fault)?;
    } else {
        let mut out = serde_json::Serializer::with_formatter(&mut bytes, PythonSpacing);
        value.serialize(&mut out).map_err(fault)?;
    }
    String::from_utf8(bytes).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))
}

/// One line, with the spaces that Python puts after `,` and `:`.
struct PythonSpacing;

impl serde_json::ser::Formatter for PythonSpacing {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

impl Day {
    /// The date directives of strftime; a clock time is midnight.
    fn format(self, format: &str) -> String {
        const MONTHS: [&str; 12] = [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ];
        let month = MONTHS[usize::from(self.month.clamp(1, 12)) - 1];
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let part = match chars.next() {
                Some('d') => format!("{:02}", self.day),
                Some('m') => format!("{:02}", self.month),
                Some('Y') => format!("{:04}", self.year),
                Some('y') => format!("{:02}", self.year % 100),
                Some('B') => month.to_owned(),
                Some('b') => month[..3].to_owned(),
                Some('H' | 'M' | 'S') => "00".to_owned(),
                Some('%') | None => "%".to_owned(),
                Some(other) => format!("%{other}"),
            };
            out.push_str(&part);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, messages: &[Message]) -> Result<String, ModelError> {
        ChatTemplate::compile(source)?.render(messages, true)
    }

    fn hello() -> Vec<Message> {
        vec![Message::new("user", "  Hi <b>&'\" ü  ")]
    }

    // Expected texts come from jinja2 with the environment that transformers makes.
    #[test]
    fn blocks_are_trimmed_as_transformers_does() {
        let source = "{% for m in messages %}\n  {% if m.role == 'user' %}\nU:{{ m.content.strip() }}\n  {% endif %}\n{% endfor %}\n{% if add_generation_prompt %}\nA:{% endif %}\n";
        assert_eq!(render(source, &hello()).unwrap(), "U:Hi <b>&'\" ü\nA:");
    }

    #[test]
    fn json_is_written_as_python_writes_it() {
        let source = "{{ messages | tojson }}";
        let expected = r#"[{"role": "user", "content": "  Hi <b>&'\" ü  "}]"#;
        assert_eq!(render(source, &hello()).unwrap(), expected);
    }

    #[test]
    fn a_template_can_refuse_and_the_reason_is_shown() {
        let error = render("{{ raise_exception('roles must alternate') }}", &hello()).unwrap_err();
        assert!(error.to_string().contains("roles must alternate"), "{error}");
    }

    #[test]
    fn python_names_and_dates() {
        let source = "{{ tools }} {{ true }} {{ strftime_now('%d %b %Y') }}{% for m in messages %}{% break %}{% endfor %}";
        assert_eq!(render(source, &hello()).unwrap(), "None True 26 Jul 2024");
    }

    #[test]
    fn endless_work_is_cut_off() {
        let source = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}";
        assert!(render(source, &[]).is_err());
    }
}
