//! An inference server in this process, on a free port, over real HTTP.
//!
//! Owns what is loaded, what was asked and changed, and the faults that are still to come. Speaks
//! as the flavour it has; what that server does not have is a 404 here too.

use std::collections::{BTreeMap, VecDeque};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::Duration;

use patchrl_model::{Message, Model};
use serde_json::{Value, json};

use crate::brain::{Brain, Thought, Wish};
use crate::desk::Desk;
use crate::http::{self, Fault, Request};
use crate::shapes;

/// Whom it speaks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// vLLM 0.33.
    Vllm,
    /// `SGLang` 0.5.23.
    Sglang,
    /// llama.cpp's server.
    LlamaCpp,
    /// The protocol, and nothing beside it.
    Plain,
}

impl Flavour {
    fn owner(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::LlamaCpp => "llamacpp",
            Self::Plain => "me",
        }
    }
}

/// A question that came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Such as `/v1/completions`.
    pub path: String,
    /// The `Authorization` header.
    pub key: Option<String>,
    /// The body as JSON.
    pub body: Value,
}

/// What was done to its weights, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An adapter came, by name.
    Loaded(String),
    /// An adapter left.
    Unloaded(String),
    /// Whole weights came, with their version.
    Updated(String),
    /// The cache of prefixes was emptied.
    Flushed,
    /// Nothing is answered until it goes on.
    Paused,
    /// It goes on.
    Resumed,
    /// An answer by the weights of this name.
    Answered(String),
}

/// The server. It answers until it is dropped.
pub struct FakeServer {
    address: String,
    state: Arc<State>,
}

struct State {
    flavour: Flavour,
    brain: RwLock<Brain>,
    desk: Desk,
    book: Mutex<Book>,
    changed: Condvar,
    key: Option<String>,
}

#[derive(Default)]
struct Book {
    adapters: BTreeMap<String, Option<Arc<Model>>>,
    /// Adapters that may be loaded at a time.
    places: usize,
    version: String,
    paused: bool,
    closed: bool,
    history: Vec<Change>,
    seen: Vec<Seen>,
    faults: BTreeMap<String, VecDeque<Fault>>,
    now: usize,
    most: usize,
    pace: Duration,
}

impl FakeServer {
    /// Serve on a free port.
    pub fn start(flavour: Flavour, brain: Brain) -> Self {
        Self::start_with(flavour, brain, None)
    }

    /// The same for those who know the key.
    pub fn start_with(flavour: Flavour, brain: Brain, key: Option<&str>) -> Self {
        Self::listen("127.0.0.1:0", flavour, brain, key)
    }

    /// The same at an address such as `127.0.0.1:8000`.
    pub fn listen(address: &str, flavour: Flavour, brain: Brain, key: Option<&str>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let book = Book { places: usize::MAX, version: "default".into(), ..Book::default() };
        let state = Arc::new(State {
            flavour,
            brain: RwLock::new(brain),
            desk: Desk::default(),
            book: Mutex::new(book),
            changed: Condvar::new(),
            key: key.map(|key| format!("Bearer {key}")),
        });
        let served = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if served.book.lock().unwrap().closed {
                    break;
                }
                let state = Arc::clone(&served);
                std::thread::spawn(move || state.converse(stream));
            }
        });
        Self { address, state }
    }

    /// Where it listens, with `/v1`.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.address)
    }

    /// The next answers at paths that end in `path` are these.
    pub fn fail(&self, path: &str, faults: impl IntoIterator<Item = Fault>) {
        let mut book = self.state.book.lock().unwrap();
        book.faults.entry(path.to_owned()).or_default().extend(faults);
    }

    /// Each answer takes at least this long.
    pub fn pace(&self, pace: Duration) {
        self.state.book.lock().unwrap().pace = pace;
    }

    /// So many adapters may be loaded at a time; one more is refused.
    pub fn places(&self, places: usize) {
        self.state.book.lock().unwrap().places = places;
    }

    /// Everything that was asked, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.book.lock().unwrap().seen.clone()
    }

    /// Everything that changed, in order.
    pub fn history(&self) -> Vec<Change> {
        self.state.book.lock().unwrap().history.clone()
    }

    /// The adapters that are loaded.
    pub fn loaded(&self) -> Vec<String> {
        self.state.book.lock().unwrap().adapters.keys().cloned().collect()
    }

    /// Answer nothing until [`FakeServer::go_on`], as `/pause` does.
    pub fn hold(&self) {
        self.state.change(Change::Paused);
    }

    /// Answer again.
    pub fn go_on(&self) {
        self.state.change(Change::Resumed);
    }

    /// The most questions that were being answered at a time.
    pub fn most_at_once(&self) -> usize {
        self.state.book.lock().unwrap().most
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        let mut book = self.state.book.lock().unwrap();
        (book.closed, book.paused) = (true, false);
        drop(book);
        self.state.changed.notify_all();
        // So that the listener looks up.
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
    }
}

/// Status and body.
type Said = (u16, Value);

impl State {
    fn converse(&self, mut stream: TcpStream) {
        while let Some(request) = http::read(&stream) {
            let fault = self.note(&request);
            let (status, body) = match &fault {
                Some(Fault::Status(..) | Fault::Close | Fault::Huge(_)) => (200, Value::Null),
                _ => self.route(&request),
            };
            // vLLM answers the loading of adapters in words.
            let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
            if !http::answer(&mut stream, status, &text, fault.as_ref()) {
                break;
            }
            if self.book.lock().unwrap().closed {
                break;
            }
        }
    }

    fn note(&self, request: &Request) -> Option<Fault> {
        let mut book = self.book.lock().unwrap();
        let Request { path, key, body, .. } = request;
        book.seen.push(Seen { path: path.clone(), key: key.clone(), body: body.clone() });
        let due = book.faults.iter_mut().find(|(end, _)| path.ends_with(end.as_str()));
        due.and_then(|(_, faults)| faults.pop_front())
    }

    fn route(&self, request: &Request) -> Said {
        if self.key.is_some() && request.key != self.key {
            return (401, json!({ "error": "Unauthorized" }));
        }
        let (vllm, sglang) = (self.flavour == Flavour::Vllm, self.flavour == Flavour::Sglang);
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/v1/models") => self.models(),
            ("GET", "/health") if self.flavour != Flavour::Plain => (200, json!({})),
            ("POST", "/v1/completions") => self.answered(request, shapes::completion),
            ("POST", "/v1/chat/completions") => self.answered(request, shapes::chat),
            ("POST", "/generate") if sglang => {
                let version = self.book.lock().unwrap().version.clone();
                self.answered(request, |_, _, thought| shapes::generate(thought, &version))
            }
            ("POST", "/tokenize") if self.flavour != Flavour::Plain => self.tokenize(&request.body),
            ("POST", "/v1/load_lora_adapter") if vllm => self.load(&request.body),
            ("POST", "/v1/unload_lora_adapter") if vllm => self.unload(&request.body),
            ("POST", "/load_lora_adapter") if sglang => self.load(&request.body),
            ("POST", "/unload_lora_adapter") if sglang => self.unload(&request.body),
            ("POST", "/update_weights_from_disk") if sglang => self.update(&request.body),
            ("POST", "/reset_prefix_cache") if vllm => self.change(Change::Flushed),
            ("POST", "/flush_cache") if sglang => self.change(Change::Flushed),
            ("POST", "/pause") if vllm => self.change(Change::Paused),
            ("POST", "/resume") if vllm => self.change(Change::Resumed),
            ("POST", "/pause_generation") if sglang => self.change(Change::Paused),
            ("POST", "/continue_generation") if sglang => self.change(Change::Resumed),
            _ => (404, json!({ "detail": "Not Found" })),
        }
    }

    fn models(&self) -> Said {
        let owner = self.flavour.owner();
        let one = |id: &str| json!({ "id": id, "object": "model", "owned_by": owner });
        let book = self.book.lock().unwrap();
        let all: Vec<Value> = std::iter::once("base")
            .chain(book.adapters.keys().map(String::as_str))
            .map(one)
            .collect();
        (200, json!({ "object": "list", "data": all }))
    }

    fn change(&self, change: Change) -> Said {
        let mut book = self.book.lock().unwrap();
        match change {
            Change::Paused => book.paused = true,
            Change::Resumed => book.paused = false,
            _ => {}
        }
        book.history.push(change);
        self.changed.notify_all();
        (200, json!({}))
    }

    /// Draw an answer and put it into the form that was asked for.
    fn answered(
        &self,
        request: &Request,
        form: impl Fn(Flavour, &Value, &Thought) -> Value,
    ) -> Said {
        let body = &request.body;
        let native = request.path == "/generate";
        let name = self.weights_of(body).to_owned();
        let Ok(adapter) = self.enter(&name) else {
            return refused(404, &format!("The model `{name}` does not exist."));
        };
        let said = self.think(body, native, adapter);
        let mut book = self.book.lock().unwrap();
        book.now -= 1;
        book.history.push(Change::Answered(name));
        drop(book);
        match said {
            Ok(thought) => (200, form(self.flavour, body, &thought)),
            Err(why) => refused(400, &why),
        }
    }

    /// `SGLang` reads a model's name only where it says `base:adapter`.
    fn weights_of<'b>(&self, body: &'b Value) -> &'b str {
        let model = body["model"].as_str().unwrap_or("base");
        if self.flavour != Flavour::Sglang {
            return model;
        }
        let adapter = body["lora_path"].as_str();
        adapter.or_else(|| Some(model.split_once(':')?.1)).unwrap_or("base")
    }

    /// Wait until it is not paused, and look the weights up.
    fn enter(&self, name: &str) -> Result<Option<Arc<Model>>, ()> {
        let mut book = self.book.lock().unwrap();
        book.now += 1;
        book.most = book.most.max(book.now);
        let mut book = self.changed.wait_while(book, |book| book.paused).unwrap();
        let adapter = match book.adapters.get(name) {
            Some(adapter) => adapter.clone(),
            None if name == "base" => None,
            None => {
                book.now -= 1;
                return Err(());
            }
        };
        let pace = book.pace;
        drop(book);
        std::thread::sleep(pace);
        Ok(adapter)
    }

    fn think(
        &self,
        body: &Value,
        native: bool,
        adapter: Option<Arc<Model>>,
    ) -> Result<Thought, String> {
        let brain = self.brain.read().unwrap();
        let ids = |value: &Value| -> Vec<u32> {
            value.as_array().into_iter().flatten().map(|id| id.as_u64().unwrap() as u32).collect()
        };
        let turns = |value: &Value| -> Vec<Message> {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let turn = |it: &Value| Message::new(text(&it["role"]), text(&it["content"]));
            value.as_array().into_iter().flatten().map(turn).collect()
        };
        let prompt = match (&body["prompt"], &body["messages"]) {
            _ if native => ids(&body["input_ids"]),
            (Value::String(text), _) => brain.encode(text),
            (Value::Array(_), _) => ids(&body["prompt"]),
            (_, messages) => brain.chat(&turns(messages)),
        };
        let how = if native { &body["sampling_params"] } else { body };
        let most = how[if native { "max_new_tokens" } else { "max_tokens" }].as_u64().unwrap_or(16);
        let room = brain.room();
        if prompt.len() + most as usize > room {
            return Err(format!(
                "This model's maximum context length is {room} tokens. However, you requested \
                 {most} output tokens and your prompt contains {} input tokens.",
                prompt.len()
            ));
        }
        let seed = how[if native { "sampling_seed" } else { "seed" }].as_u64().unwrap_or(0);
        let temperature = how["temperature"].as_f64().unwrap_or(1.0) as f32;
        let wish = Wish { prompt, adapter, temperature, seed, most: most as usize };
        brain.think(&self.desk, wish)
    }

    fn tokenize(&self, body: &Value) -> Said {
        let text = body["prompt"].as_str().or_else(|| body["content"].as_str()).unwrap_or_default();
        let tokens = self.brain.read().unwrap().encode(text);
        (200, json!({ "count": tokens.len(), "tokens": tokens, "max_model_len": 4096 }))
    }

    fn load(&self, body: &Value) -> Said {
        let name = body["lora_name"].as_str().unwrap_or_default().to_owned();
        let path = body["lora_path"].as_str().unwrap_or_default();
        let model = match self.brain.read().unwrap().adapter(Path::new(path)) {
            Ok(model) => model,
            Err(why) => return refused(404, &format!("Loading lora {name} failed: {why}")),
        };
        let mut book = self.book.lock().unwrap();
        if book.adapters.contains_key(&name) {
            return refused(400, &format!("The lora adapter '{name}' has already been loaded."));
        }
        if book.adapters.len() >= book.places {
            return refused(400, "there is no place for another adapter");
        }
        book.adapters.insert(name.clone(), model);
        book.history.push(Change::Loaded(name.clone()));
        match self.flavour {
            Flavour::Sglang => (200, json!({ "success": true, "loaded_adapters": {} })),
            _ => (200, json!(format!("Success: LoRA adapter '{name}' added successfully."))),
        }
    }

    fn unload(&self, body: &Value) -> Said {
        let name = body["lora_name"].as_str().unwrap_or_default().to_owned();
        let mut book = self.book.lock().unwrap();
        if book.adapters.remove(&name).is_none() {
            return refused(404, &format!("The lora adapter '{name}' cannot be found."));
        }
        book.history.push(Change::Unloaded(name.clone()));
        match self.flavour {
            Flavour::Sglang => (200, json!({ "success": true, "loaded_adapters": {} })),
            _ => (200, json!(format!("Success: LoRA adapter '{name}' removed successfully."))),
        }
    }

    fn update(&self, body: &Value) -> Said {
        let path = body["model_path"].as_str().unwrap_or_default();
        if let Err(why) = self.brain.write().unwrap().replace(Path::new(path)) {
            return (400, json!({ "success": false, "message": why }));
        }
        let version = body["weight_version"].as_str().unwrap_or("default").to_owned();
        let mut book = self.book.lock().unwrap();
        book.version.clone_from(&version);
        book.history.push(Change::Updated(version));
        (200, json!({ "success": true, "message": "Succeeded to update model weights." }))
    }
}

fn refused(status: u16, message: &str) -> Said {
    (status, json!({ "error": { "message": message, "type": "BadRequestError", "code": status } }))
}
