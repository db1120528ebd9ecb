//! Bytes to a server and back.
//!
//! Owns the connection, its time limits, the bound on an answer's size, and breaking off. Knows
//! nothing of what the bytes mean.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::{Agent, Proxy};

use super::fault::Trouble;
use super::key::ApiKey;
use super::log::{Exchange, Log};

/// Bytes of an answer, at most. 32,000 tokens with ids and log-probabilities take about 4 MB.
const MOST: u64 = 64 << 20;
/// For the name and the connection.
const CONNECT: Duration = Duration::from_secs(10);

/// A server's address and how it is reached.
pub(crate) struct Wire {
    agent: Agent,
    /// Without `/v1` and without a slash at its end.
    root: String,
    /// The proxy that every connection goes to, without its user and password.
    proxy: Option<String>,
    /// Where the protocol's own paths begin.
    api: String,
    key: Option<ApiKey>,
    log: Option<Log>,
    stopped: AtomicBool,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) location: Option<String>,
}

impl Answer {
    /// The body as JSON; null where it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Wire {
    pub(super) fn new(base_url: &str, key: Option<ApiKey>, log: Option<Log>) -> Self {
        let base = base_url.trim_end_matches('/');
        let root = base.strip_suffix("/v1").unwrap_or(base);
        let path = base.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let api = if path.is_some() { base.to_owned() } else { format!("{base}/v1") };
        // A proxy is for the world outside.
        let proxy = if is_here(root) { None } else { Proxy::try_from_env() };
        let proxy = proxy.filter(|it| root.parse().is_ok_and(|uri| !it.is_no_proxy(&uri)));
        let named = |it: &Proxy| {
            format!("{}://{}:{}", it.uri().scheme_str().unwrap_or("http"), it.host(), it.port())
        };
        let config = Agent::config_builder()
            .user_agent(concat!("patchrl/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections_per_host(64)
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .proxy(proxy.clone());
        Self {
            agent: config.build().into(),
            root: root.to_owned(),
            proxy: proxy.as_ref().map(named),
            api,
            key,
            log,
            stopped: AtomicBool::new(false),
        }
    }

    /// Where the server is, for people.
    pub(crate) fn address(&self) -> &str {
        &self.root
    }

    /// Break off what is under way; nothing is sent afterwards.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.agent.clone().shutdown();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// POST `body` to a path of the protocol, such as `completions`.
    pub(super) fn ask(&self, path: &str, body: &Value, most: Duration) -> Result<Answer, Trouble> {
        self.exchange("POST", &format!("{}/{path}", self.api), Some(body), most)
    }

    /// POST `body` to a path of the server's own, such as `tokenize`.
    pub(crate) fn post(&self, path: &str, body: &Value, most: Duration) -> Result<Answer, Trouble> {
        self.exchange("POST", &format!("{}/{path}", self.root), Some(body), most)
    }

    /// GET a path of the server's own.
    pub(crate) fn get(&self, path: &str, most: Duration) -> Result<Answer, Trouble> {
        self.exchange("GET", &format!("{}/{path}", self.root), None, most)
    }

    /// GET a path of the protocol.
    pub(crate) fn list(&self, path: &str, most: Duration) -> Result<Answer, Trouble> {
        self.exchange("GET", &format!("{}/{path}", self.api), None, most)
    }

    /// A server's text for a person: without the key, on one line, not too long.
    pub(crate) fn quote(&self, text: &str) -> String {
        let text = self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.scrub(text));
        let mut line: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(300)
            .collect::<String>()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        if text.chars().count() > 300 {
            line.push_str(" ...");
        }
        line
    }

    fn exchange(
        &self,
        method: &str,
        url: &str,
        body: Option<&Value>,
        most: Duration,
    ) -> Result<Answer, Trouble> {
        if self.is_stopped() {
            return Err(Trouble::Stopped);
        }
        if let Some(proxy) = self.proxy.as_deref().filter(|it| it.starts_with("socks")) {
            return Err(Trouble::fatal(
                format!("the proxy `{proxy}` is asked by SOCKS, which is not spoken here"),
                self.around_proxy(),
            ));
        }
        let started = Instant::now();
        let answer = self.send(url, body, most).map_err(|error| {
            if self.is_stopped() { Trouble::Stopped } else { self.trouble(&error, most) }
        });
        if let Some(log) = &self.log {
            let why = answer.as_ref().err().map(Trouble::what);
            let answer = match &answer {
                Ok(it) => Ok((it.status, it.body.as_slice())),
                Err(_) => Err(why.as_deref().unwrap_or_default()),
            };
            let took = started.elapsed();
            log.write(&Exchange { method, url, request: body, answer, took }, self.key.as_ref());
        }
        answer
    }

    fn send(&self, url: &str, body: Option<&Value>, most: Duration) -> Result<Answer, ureq::Error> {
        let key = self.key.as_ref().map(ApiKey::header);
        let response = if let Some(body) = body {
            let mut request = self.agent.post(url).header("Content-Type", "application/json");
            if let Some(key) = key {
                request = request.header("Authorization", key);
            }
            let request = request.config().timeout_global(Some(most)).build();
            request.send(body.to_string().as_bytes())?
        } else {
            let mut request = self.agent.get(url);
            if let Some(key) = key {
                request = request.header("Authorization", key);
            }
            request.config().timeout_global(Some(most)).build().call()?
        };
        let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok());
        let retry_after = header("retry-after").and_then(|text| wait_of(text, header("date")));
        let location = header("location").map(str::to_owned);
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        let reader = response.into_body().into_reader();
        reader.take(MOST + 1).read_to_end(&mut bytes).map_err(into_ureq)?;
        if bytes.len() as u64 > MOST {
            return Err(ureq::Error::BodyExceedsLimit(MOST));
        }
        Ok(Answer { status, body: bytes, retry_after, location })
    }

    /// An exchange that did not come to an answer, in words.
    fn trouble(&self, error: &ureq::Error, most: Duration) -> Trouble {
        use ureq::Error;
        let to = &self.root;
        let missed = match &self.proxy {
            // No other name is looked up then, and nothing else connected to.
            Some(proxy) => not_reached(&format!("the proxy `{proxy}` on the way to `{to}`"), error)
                .map(|what| Trouble::Doubtful { what, hint: self.around_proxy() }),
            None => not_reached(&format!("`{to}`"), error).map(Trouble::unreachable),
        };
        if let Some(trouble) = missed {
            return trouble;
        }
        let at = match &self.proxy {
            Some(proxy) => format!("{to}` through the proxy `{proxy}"),
            None => to.clone(),
        };
        match error {
            Error::Timeout(_) => Trouble::again(format!(
                "`{at}` gave no whole answer within {} s; `rollout.request_timeout` is how long \
                 an answer may take",
                most.as_secs()
            )),
            Error::ConnectProxyFailed(why) => self.refused_by_proxy(why),
            Error::BodyExceedsLimit(most) => Trouble::Lost(format!(
                "`{at}` sent an answer of more than {} MiB, which was not read",
                most >> 20
            )),
            Error::Tls(_) | Error::Rustls(_) => Trouble::Doubtful {
                what: format!("no secure connection to `{at}` ({error})"),
                hint: "a server without a certificate is asked by http://, one with its own needs \
                       it in the system's store"
                    .into(),
            },
            other => Trouble::again(format!("the connection to `{at}` broke ({other})")),
        }
    }

    /// `why` ends in the status, where the proxy answered.
    fn refused_by_proxy(&self, why: &str) -> Trouble {
        let status = why.rsplit('/').next().and_then(|it| it.parse::<u16>().ok());
        let said = status.map_or_else(|| self.quote(why), |status| format!("status {status}"));
        let proxy = self.proxy.as_deref().unwrap_or_default();
        let what = format!("the proxy `{proxy}` gives no way to `{}` ({said})", self.root);
        match status {
            Some(403 | 407) => Trouble::fatal(what, self.around_proxy()),
            _ => Trouble::Doubtful { what, hint: self.around_proxy() },
        }
    }

    /// The way out where a proxy is in the way.
    fn around_proxy(&self) -> String {
        format!(
            "name `{}` in `NO_PROXY`, or mend or unset what names the proxy: `ALL_PROXY`, \
             `HTTPS_PROXY` or `HTTP_PROXY`, as `http://user:password@host:port`",
            host_of(&self.root)
        )
    }
}

/// In words, that there is no connection to `who`; nothing where there was one.
fn not_reached(who: &str, error: &ureq::Error) -> Option<String> {
    use std::io::ErrorKind as Kind;
    use ureq::{Error, Timeout};
    match error {
        Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            Some(format!("{who} gave no connection in time"))
        }
        Error::HostNotFound => Some(format!("the name of {who} cannot be resolved")),
        Error::Io(e) => match e.kind() {
            Kind::ConnectionRefused => Some(format!("nothing listens at {who}")),
            Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::AddrNotAvailable => {
                Some(format!("{who} cannot be reached ({e})"))
            }
            // The standard library has no kind for it.
            _ if e.to_string().starts_with("failed to lookup address") => {
                Some(format!("the name of {who} cannot be resolved ({e})"))
            }
            _ => None,
        },
        _ => None,
    }
}

/// `Retry-After` as seconds, or as a date less the answer's own date: the clocks are the server's.
fn wait_of(after: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = after.trim().parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let seconds = seconds_of(after)? - seconds_of(date?)?;
    Some(Duration::from_secs(seconds.max(0) as u64))
}

/// The moment of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`, in seconds. Only the differences
/// of two mean anything.
fn seconds_of(date: &str) -> Option<i64> {
    // A year that begins in March has its leap day at its end.
    const MONTHS: [&str; 12] =
        ["Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb"];
    let words: Vec<&str> = date.trim().split([' ', ':']).collect();
    let [_, day, month, year, hour, minute, second, "GMT"] = words[..] else { return None };
    let number = |text: &str| text.parse::<u16>().ok().map(i64::from);
    let month = MONTHS.iter().position(|it| *it == month)? as i64;
    let year = number(year)? - month / 10;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5;
    let hours = (days + number(day)?) * 24 + number(hour)?;
    Some((hours * 60 + number(minute)?) * 60 + number(second)?)
}

/// The body's reader hides ureq's own error in an I/O error.
fn into_ureq(error: std::io::Error) -> ureq::Error {
    error.into()
}

/// The name of the machine in an address, or its number.
fn host_of(root: &str) -> &str {
    let host = root.split_once("://").map_or(root, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    host.strip_prefix('[').map_or_else(
        || host.split(':').next().unwrap_or_default(),
        |v6| v6.split(']').next().unwrap_or_default(),
    )
}

/// Whether the address is this machine.
fn is_here(root: &str) -> bool {
    let name = host_of(root);
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ApiKey, Wire, is_here, wait_of};

    #[test]
    fn paths_of_the_protocol_and_of_the_server_are_told_apart() {
        for (base, root, api) in [
            ("http://h:8000", "http://h:8000", "http://h:8000/v1"),
            ("http://h:8000/v1/", "http://h:8000", "http://h:8000/v1"),
            ("https://h/api/v1", "https://h/api", "https://h/api/v1"),
            ("https://h/openai", "https://h/openai", "https://h/openai"),
        ] {
            let wire = Wire::new(base, None, None);
            assert_eq!((wire.root.as_str(), wire.api.as_str()), (root, api), "{base}");
        }
    }

    #[test]
    fn this_machine_is_asked_without_a_proxy() {
        for (root, here) in [
            ("http://127.0.0.1:1", true),
            ("http://localhost", true),
            ("http://[::1]:1", true),
            ("http://localhost.example.com", false),
            ("http://10.0.0.1:1", false),
        ] {
            assert_eq!(is_here(root), here, "{root}");
        }
    }

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        let now = Some("Thu, 29 Feb 2024 23:59:50 GMT");
        for (after, now, want) in [
            (" 1.5 ", None, Some(1.5)),
            ("Fri, 01 Mar 2024 00:00:05 GMT", now, Some(15.0)),
            ("Sat, 01 Mar 2025 00:00:00 GMT", now, Some(365.0 * 86_400.0 + 10.0)),
            ("Wed, 28 Feb 2024 23:59:50 GMT", now, Some(0.0)),
            ("Fri, 01 Mar 2024 00:00:05 GMT", None, None),
            ("Fri, 01 Mar 2024 00:00:05 GMT", Some("now"), None),
            ("Fri, 01 Mar 2024 00:00:05 CET", now, None),
            ("Fri, 01 Mars 2024 00:00:05 GMT", now, None),
            ("tomorrow", now, None),
            ("-3", now, None),
            ("inf", now, None),
            ("", now, None),
        ] {
            assert_eq!(wait_of(after, now), want.map(Duration::from_secs_f64), "{after} {now:?}");
        }
    }

    #[test]
    fn what_a_server_says_is_one_short_line_without_the_key() {
        let wire = Wire::new("http://h", ApiKey::new("sk-secret"), None);
        let long = format!("bad key sk-secret\n\u{1b}[31m{}", "x".repeat(900));
        let said = wire.quote(&long);
        assert!(said.starts_with("bad key **** [31mxxx") && said.ends_with(" ..."), "{said}");
        assert!(said.len() < 320);
    }
}
