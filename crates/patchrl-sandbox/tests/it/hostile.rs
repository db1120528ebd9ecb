//! What a hostile command tries, and how it ends.

use std::time::{Duration, Instant};

use patchrl_sandbox::{Bytes, Ending, Tier};

use crate::{Fixture, Test, text};

pub(crate) const TESTS: &[Test] = &[
    ("a_network_connection_fails", network),
    ("a_fork_bomb_is_contained", fork_bomb),
    ("a_ten_gigabyte_allocation_ends", allocation),
    ("memory_files_count", memory_files),
    ("an_endless_print_is_capped", endless_print),
    ("an_endless_sleep_with_runaway_children_ends", endless_sleep),
    ("a_background_process_does_not_survive", background),
    ("a_write_outside_the_workspace_fails", write_outside),
    ("a_kill_of_the_parent_fails", kill_parent),
    ("new_namespaces_mounts_and_tracing_are_refused", escape_calls),
    ("closed_folders_are_removed", closed_folders),
];

fn walled(f: &Fixture) -> bool {
    f.local.tier() != Tier::None
}

fn network(f: &Fixture) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let unix = f.dir.path().join("socket");
    let _listening = std::os::unix::net::UnixListener::bind(&unix).unwrap();
    let code = format!(
        "import socket
bad = 0
def attempt(family, kind, address):
    global bad
    try:
        s = socket.socket(family, kind); s.settimeout(2)
        if kind == socket.SOCK_STREAM: s.connect(address)
        else: s.sendto(b'x', address)
        if address[0] != '127.0.0.1' or kind == socket.SOCK_STREAM: bad += 1; print('reached', address)
    except OSError as e: print(type(e).__name__)
attempt(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', {}))
attempt(socket.AF_INET, socket.SOCK_STREAM, ('192.0.2.1', 80))
attempt(socket.AF_INET, socket.SOCK_DGRAM, ('192.0.2.1', 53))
attempt(socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', {}))
attempt(socket.AF_UNIX, socket.SOCK_STREAM, '{}')
try: socket.socket(40, socket.SOCK_STREAM); bad += 1; print('vsock')
except OSError: pass
socket.socketpair()
raise SystemExit(bad)",
        listener.local_addr().unwrap().port(),
        udp.local_addr().unwrap().port(),
        unix.display()
    );
    let Some(job) = f.python(&code) else { return };
    let output = f.run(&job);
    if walled(f) {
        assert_eq!(output.ending, Ending::Exited(0), "{}", text(&output));
        udp.set_nonblocking(true).unwrap();
        assert!(udp.recv(&mut [0; 8]).is_err(), "a datagram came out");
    }
}

fn fork_bomb(f: &Fixture) {
    let mark = f.dir.path().join("bomb").display().to_string();
    // Burns out by itself, for the day when nothing else stops it.
    let code = "import os, time
end = time.time() + 5
for _ in range(400):
    if time.time() > end: break
    try: os.fork()
    except OSError: time.sleep(0.01)";
    let Some(mut job) = f.python(code) else { return };
    job.argv.push(mark.clone());
    job.limits.wall = Duration::from_secs(2);
    job.limits.processes = 64;
    let start = Instant::now();
    let (output, most) = std::thread::scope(|scope| {
        let run = scope.spawn(|| f.run(&job));
        let mut most = 0;
        while !run.is_finished() {
            most = most.max(alive_with(&mark));
            std::thread::sleep(Duration::from_millis(10));
        }
        (run.join().unwrap(), most)
    });
    let stopped = matches!(output.ending, Ending::TimedOut | Ending::Signaled(9));
    assert!(stopped, "{} {}", output.ending, text(&output));
    assert!((2..200).contains(&most), "{most} processes");
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    assert_eq!(alive_with(&mark), 0);
    f.assert_clean();
    assert_eq!(f.run(&f.shell("echo fine")).ending, Ending::Exited(0));
}

fn allocation(f: &Fixture) {
    let code = "x = bytearray(10 << 30)
for i in range(0, len(x), 4096): x[i] = 1";
    let Some(mut job) = f.python(code) else { return };
    job.limits.memory = Bytes::mib(256);
    let output = f.run(&job);
    let refused = output.ending == Ending::Exited(1) && text(&output).contains("MemoryError");
    assert!(output.ending == Ending::OutOfMemory || refused, "{} {}", output.ending, text(&output));
    assert!(
        output.peak_memory.is_none_or(|peak| peak <= Bytes::mib(400)),
        "{:?}",
        output.peak_memory
    );

    // Many processes with a little each.
    let code = "import os, time
for _ in range(16):
    if os.fork() == 0: x = b'x' * (40 << 20); time.sleep(6); os._exit(0)
for _ in range(16):
    if os.waitstatus_to_exitcode(os.wait()[1]) != 0: raise SystemExit(3)";
    let Some(mut job) = f.python(code) else { return };
    job.limits.memory = Bytes::mib(256);
    let output = f.run(&job);
    // Without a control group the sum is seen by the watcher only.
    let stopped = matches!(output.ending, Ending::OutOfMemory | Ending::Exited(1 | 3));
    assert!(stopped, "{} {}", output.ending, text(&output));
}

fn memory_files(f: &Fixture) {
    let code = "import os
data = bytes(1 << 20)
total = 0
for name in range(40):
    try: fd = os.open('/tmp/f%d' % name, os.O_CREAT | os.O_WRONLY)
    except OSError: fd = os.memfd_create('x')
    for _ in range(64):
        try: total += os.write(fd, data)
        except OSError as e: raise SystemExit('stopped %d %s' % (total >> 20, e))
raise SystemExit('wrote %d' % (total >> 20))";
    if f.local.tier() != Tier::Namespaces {
        return; // files go to the disk, whose reserve is watched
    }
    let Some(mut job) = f.python(code) else { return };
    job.limits.memory = Bytes::mib(256);
    let output = f.run(&job);
    assert!(!text(&output).contains("wrote"), "{} {}", output.ending, text(&output));
}

fn endless_print(f: &Fixture) {
    let mut job = f.shell("while :; do echo 0123456789012345678901234567890123456789; done");
    job.limits.output = Bytes(10_000);
    let start = Instant::now();
    let output = f.run(&job);
    assert_eq!(output.ending, Ending::Signaled(9));
    assert!(output.output_truncated && output.output.len() == 10_000);
    assert!(start.elapsed() < Duration::from_secs(15));
    f.assert_clean();
}

fn endless_sleep(f: &Fixture) {
    let mark = f.dir.path().join("mark");
    let code = "import os, time
for i in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            while True: time.sleep(1)
        os._exit(0)
time.sleep(1000)";
    let Some(mut job) = f.python(code) else { return };
    job.argv.push(mark.display().to_string());
    job.limits.wall = Duration::from_millis(700);
    let output = f.run(&job);
    assert_eq!(output.ending, Ending::TimedOut);
    assert!(output.wall < Duration::from_secs(5), "{:?}", output.wall);
    assert_eq!(alive_with(&mark.display().to_string()), 0);
    f.assert_clean();
}

fn background(f: &Fixture) {
    let mark = f.dir.path().join("mark2").display().to_string();
    let mut job = f.shell("(trap '' HUP TERM; sleep 300; true) & echo started");
    job.argv.push(mark.clone());
    let output = f.run(&job);
    assert_eq!((text(&output).as_str(), output.ending), ("started", Ending::Exited(0)));
    assert_eq!(alive_with(&mark), 0);
}

fn write_outside(f: &Fixture) {
    if !walled(f) {
        return;
    }
    let target = f.dir.path().join("target");
    fs_err::write(&target, "safe").unwrap();
    let base = f.dir.path().join("base");
    let script = format!(
        "for p in /etc/x /usr/x /x /root/x /var/tmp/x /proc/sys/kernel/core_pattern {0} {1}/x {1}/pkg/a.py /dev/shm/../x; do \
         (echo bad > $p) 2>/dev/null && echo wrote $p; done; \
         ln -s {0} pkg/evil; (echo bad > pkg/evil) 2>/dev/null && echo wrote link; \
         ln {0} pkg/hard 2>/dev/null && echo linked; rm -f {0} 2>/dev/null; rm -rf {1} 2>/dev/null; \
         chmod 777 {0} 2>/dev/null; touch -d 2001-01-01 {0} 2>/dev/null; true",
        target.display(),
        base.display()
    );
    let before = fs_err::metadata(&target).unwrap();
    let output = f.run(&f.shell(&script));
    assert_eq!((text(&output).as_str(), output.ending), ("", Ending::Exited(0)));
    assert_eq!(fs_err::read_to_string(&target).unwrap(), "safe");
    let after = fs_err::metadata(&target).unwrap();
    assert_eq!(before.permissions(), after.permissions());
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
    assert_eq!(fs_err::read_to_string(base.join("pkg/a.py")).unwrap(), "A = 1\n");
    assert!(!std::path::Path::new("/etc/x").exists());
}

fn kill_parent(f: &Fixture) {
    if !walled(f) {
        return;
    }
    let me = std::process::id();
    let code = format!(
        "import os, signal
for pid in ({me}, -{me}, os.getppid(), -os.getppid(), 1):
    for sig in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
        try: os.kill(pid, sig)
        except OSError: pass
for path in ('/proc/%d/mem' % os.getppid(), '/proc/{me}/mem', '/proc/1/mem'):
    try: open(path, 'r+b'); print('opened', path)
    except OSError: pass
try: print('read', len(open('/proc/%d/environ' % os.getppid(), 'rb').read(1)))
except OSError: pass
print('still here')
try: os.kill(-1, signal.SIGKILL)
except OSError: pass
print('after all')"
    );
    let Some(job) = f.python(&code) else { return };
    let output = f.run(&job);
    // kill(-1) does not reach its sender, so the command may go on.
    let said = text(&output);
    assert!(said.starts_with("still here"), "{said}");
    assert!(
        matches!(output.ending, Ending::Exited(0) | Ending::Signaled(9)),
        "{} {said}",
        output.ending
    );
    f.assert_clean();
}

fn escape_calls(f: &Fixture) {
    if !walled(f) {
        return;
    }
    let code = "import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
def refused(name, result):
    if result != -1: print(name, 'worked', result)
refused('unshare', c.unshare(0x10000000))
refused('mount', c.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None))
refused('ptrace', c.ptrace(0, 0, 0, 0))
refused('setuid', c.setuid(1))
refused('bpf', c.syscall(321, 0, 0, 0))
refused('io_uring', c.syscall(425, 1, 0))
refused('clone3', c.syscall(435, 0, 0))
refused('x32', c.syscall(0x40000000 + 165, 0, 0, 0, 0, 0))
caps = [l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')]
print(caps if os.environ.get('CAPS') else 'done')";
    let Some(job) = f.python(code) else { return };
    let output = f.run(&job);
    assert_eq!(text(&output), "done");
}

fn closed_folders(f: &Fixture) {
    let output = f.run(&f.shell("mkdir -p a/b && echo x > a/b/c && chmod 000 a/b a"));
    assert_eq!(output.ending, Ending::Exited(0));
    f.assert_clean();
}

/// Processes with this word in their command line, which everybody may read.
pub(crate) fn alive_with(word: &str) -> usize {
    let entries = fs_err::read_dir("/proc").unwrap().flatten();
    let line = |entry: fs_err::DirEntry| fs_err::read(entry.path().join("cmdline"));
    let lines = entries.filter_map(|entry| line(entry).ok());
    lines.filter(|line| line.split(|b| *b == 0).any(|w| w == word.as_bytes())).count()
}
