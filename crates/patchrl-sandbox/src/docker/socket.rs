//! Where the engine listens, and a connection that reads only so much from it.
//!
//! One request has one connection, so the bound on a connection is a bound on
//! an answer. Knows nothing of containers.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bollard::BollardRequest;
use hyper::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::{Bytes, SandboxError};

/// A place where an engine may listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Unix(PathBuf),
    Tcp(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(host) => write!(f, "tcp://{host}"),
        }
    }
}

impl Address {
    /// `unix://PATH`, `tcp://HOST:PORT` or a path.
    pub(super) fn parse(text: &str) -> Result<Self, SandboxError> {
        let unknown =
            |why: &str| SandboxError::EngineMissing { tried: text.to_owned(), why: why.to_owned() };
        match text.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(("tcp" | "http", host)) if !host.is_empty() => {
                Ok(Self::Tcp(host.trim_end_matches('/').to_owned()))
            }
            None if text.starts_with('/') => Ok(Self::Unix(text.into())),
            _ => Err(unknown("only unix:// and tcp:// addresses are spoken here")),
        }
    }

    /// The sockets of a Docker and of a Podman that were installed the usual way.
    pub(super) fn usual() -> Vec<Self> {
        let uid = nix::unistd::getuid();
        ["/var/run/docker.sock".to_owned(), "/run/podman/podman.sock".to_owned()]
            .into_iter()
            .chain([
                format!("/run/user/{uid}/docker.sock"),
                format!("/run/user/{uid}/podman/podman.sock"),
            ])
            .map(|path| Self::Unix(path.into()))
            .collect()
    }

    /// Whether the engine's files can be on this machine.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Whether anything is there, as far as files tell.
    pub(super) fn exists(&self) -> bool {
        match self {
            Self::Unix(path) => path.exists(),
            Self::Tcp(_) => true,
        }
    }

    /// A client that breaks off an answer of more than `most` bytes, or one that
    /// does not begin within `patience`.
    pub(super) fn client(
        &self,
        most: Bytes,
        patience: Duration,
    ) -> Result<bollard::Docker, bollard::errors::Error> {
        let connector = Connector { address: self.clone(), most };
        let mut builder = Client::builder(TokioExecutor::new());
        // No connection is used twice: the bound is for one answer.
        let client = builder.pool_max_idle_per_host(0).build(connector);
        let transport = move |request: BollardRequest| {
            let answer = client.request(request);
            async move { Ok(answer.await?) }
        };
        // The connector looks at its own address, not at this one.
        let host = Some("http://engine");
        let patience = patience.as_secs().max(1);
        bollard::Docker::connect_with_custom_transport(
            transport,
            host,
            patience,
            bollard::API_DEFAULT_VERSION,
        )
    }
}

#[derive(Clone)]
struct Connector {
    address: Address,
    most: Bytes,
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Bounded>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { address, most } = self.clone();
        Box::pin(async move {
            let stream: Box<dyn Stream> = match &address {
                Address::Unix(path) => Box::new(connect_unix(path).await?),
                Address::Tcp(host) => Box::new(TcpStream::connect(host).await?),
            };
            Ok(TokioIo::new(Bounded { stream, left: most.0 }))
        })
    }
}

/// The error names the socket, which the system's own does not.
async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path)
        .await
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that fails once more than `left` bytes came.
struct Bounded {
    stream: Box<dyn Stream>,
    left: u64,
}

impl Connection for Bounded {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let came = (buf.filled().len() - before) as u64;
        match self.left.checked_sub(came) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Err(io::Error::other("the answer is too long"))),
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_docker_host_writes_them() {
        for (text, address) in [
            ("unix:///run/x.sock", Some(Address::Unix("/run/x.sock".into()))),
            ("/run/x.sock", Some(Address::Unix("/run/x.sock".into()))),
            ("tcp://10.0.0.1:2375/", Some(Address::Tcp("10.0.0.1:2375".into()))),
            ("ssh://host", None),
            ("unix://x.sock", None),
            ("", None),
        ] {
            assert_eq!(Address::parse(text).ok(), address, "{text}");
        }
    }

    #[tokio::test]
    async fn a_long_answer_is_broken_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine.sock");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        tokio::spawn(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while stream.write_all(&[b'['; 1024]).await.is_ok() {}
        });
        let client = Address::Unix(path).client(Bytes(10_000), Duration::from_secs(5)).unwrap();
        assert!(client.version().await.is_err());
    }
}
