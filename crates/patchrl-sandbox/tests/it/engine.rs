//! A real engine to test with: its plain HTTP, and small images made here.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use patchrl_sandbox::{ContainerJob, Docker, DockerSettings, ImageName};
use serde_json::Value;

/// What a name of an image or a container of these tests begins with.
const TAG: &str = "patchrl-test";

/// An engine at a socket, asked without the code under test.
#[derive(Clone)]
pub(crate) struct Engine {
    pub(crate) socket: PathBuf,
}

impl Engine {
    /// The engine of `PATCHRL_TEST_DOCKER` with the tests' images, or why there is none.
    pub(crate) fn find() -> Result<Self, String> {
        let socket = std::env::var_os("PATCHRL_TEST_DOCKER")
            .ok_or("PATCHRL_TEST_DOCKER does not name an engine's socket")?;
        let engine = Self { socket: socket.into() };
        engine.ask("GET", "/_ping", &[]).map_err(|e| format!("no engine answers: {e}"))?;
        // What another run of these tests left would be taken for a fault of this one.
        engine.docker().reap(&mut patchrl_sandbox::Reaped::default()).unwrap();
        let box_ = fs_err::read("/bin/busybox").map_err(|e| format!("no static busybox: {e}"))?;
        engine.import("box", &["VOLUME /data"], &box_image(&box_));
        engine.import("bare", &[], &tar(&[("file", Some(b"no shell here\n"))]));
        Ok(engine)
    }

    pub(crate) fn docker(&self) -> Docker {
        Docker::connect(&self.settings()).expect("the engine answers")
    }

    pub(crate) fn settings(&self) -> DockerSettings {
        DockerSettings {
            host: Some(self.socket.display().to_string()),
            run: TAG.to_owned(),
            starts_per_second: 100.0,
            tell: patchrl_sandbox::Tell::new(|notice| println!("  notice: {notice}")),
            min_free: patchrl_sandbox::Bytes::mib(1),
            ..DockerSettings::default()
        }
    }

    /// Names of containers of ours, running or not.
    pub(crate) fn containers(&self) -> Vec<String> {
        let filter = "/containers/json?all=1&filters=%7B%22label%22%3A%5B%22patchrl.owner%22%5D%7D";
        let found = self.json(filter);
        let name = |c: &Value| c["Names"][0].as_str().unwrap().trim_matches('/').to_owned();
        found.as_array().unwrap().iter().map(name).collect()
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, &[]).unwrap();
        assert_eq!(status, 200, "{path}");
        serde_json::from_slice(&body).unwrap()
    }

    /// HTTP 1.0, so that an answer ends with its connection.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> std::io::Result<(u16, Vec<u8>)> {
        let mut stream = UnixStream::connect(&self.socket)?;
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.0\r\nHost: x\r\nContent-Length: {length}\r\n\r\n")?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let split = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(0);
        let head = String::from_utf8_lossy(&answer[..split]).into_owned();
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        Ok((status, answer.split_off((split + 4).min(answer.len()))))
    }

    fn import(&self, tag: &str, changes: &[&str], tar: &[u8]) {
        let changes: String =
            changes.iter().map(|c| format!("&changes={}", c.replace(' ', "%20"))).collect();
        let path = format!("/images/create?fromSrc=-&repo={TAG}:{tag}{changes}");
        let (status, said) = self.ask("POST", &path, tar).unwrap();
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&said));
    }
}

/// The image with a shell and a small tree.
pub(crate) fn image() -> ImageName {
    ImageName::parse("patchrl-test:box").unwrap()
}

/// A job for twenty seconds in the small tree.
pub(crate) fn job<const N: usize>(argv: [&str; N]) -> ContainerJob {
    let mut job = ContainerJob::new(image(), "/testbed", argv);
    job.limits.wall = std::time::Duration::from_secs(20);
    job
}

pub(crate) fn shell(script: &str) -> ContainerJob {
    job(["/bin/sh", "-c", script])
}

fn box_image(busybox: &[u8]) -> Vec<u8> {
    let mut files: Vec<(&str, Option<&[u8]>)> = vec![
        ("bin/busybox", Some(busybox)),
        ("etc/passwd", Some(b"root:x:0:0::/root:/bin/sh\nbee:x:77:77::/tmp:/bin/sh\n")),
        ("testbed/a.txt", Some(b"a\n")),
        ("testbed/pkg/b.txt", Some(b"b\n")),
        ("data/kept.txt", Some(b"of the image\n")),
        ("tmp/", None),
    ];
    let links: Vec<String> = [
        "sh", "sleep", "cat", "echo", "ls", "rm", "rmdir", "mkdir", "ln", "kill", "setsid", "true",
        "nc", "dd", "head", "yes", "seq", "id", "stat", "mkfifo", "grep", "find", "chmod",
    ]
    .map(|name| format!("bin/{name}"))
    .into();
    files.extend(links.iter().map(|link| (link.as_str(), Some(&b"-> busybox"[..]))));
    tar(&files)
}

/// Files as a tar archive; `-> x` is a link, and a name with a slash at its end a folder.
pub(crate) fn tar(files: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        let content = content.unwrap_or_default();
        header.set_mode(0o755);
        header.set_mtime(1_000_000_000);
        header.set_size(0);
        if let Some(target) = content.strip_prefix(b"-> ") {
            header.set_entry_type(tar::EntryType::Symlink);
            tar.append_link(&mut header, name, std::str::from_utf8(target).unwrap()).unwrap();
        } else if name.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(0o1777);
            tar.append_data(&mut header, name, std::io::empty()).unwrap();
        } else {
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, name, content).unwrap();
        }
    }
    tar.into_inner().unwrap()
}
