//! Containers of a real engine: what a job can and cannot do, and what is left of it.

use std::collections::BTreeMap;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use patchrl_sandbox::{
    Bytes, ContainerJob, Docker, Ending, FileWrite, ImageName, ImageState, Output, Reaped,
    SandboxError,
};

use crate::engine::{Engine, image, job, shell};
use crate::hostile::alive_with;
use crate::life::wait_for;
use crate::text;

type Test = (&'static str, fn(&Engine));

pub(crate) const TESTS: &[Test] = &[
    ("codes_come_back", codes),
    ("output_is_in_order_and_capped", output),
    ("the_deadline_ends_everything", deadline),
    ("a_child_that_stays_does_not_keep_the_job", child_that_stays),
    ("memory_has_a_limit", memory),
    ("processes_have_a_limit", processes),
    ("files_have_a_limit", file_size),
    ("there_is_no_network", network),
    ("there_are_few_rights", rights),
    ("files_go_in_and_out", files),
    ("a_job_finds_the_files_of_the_one_before", session),
    ("a_reset_gives_the_image_back", reset),
    ("a_job_that_would_end_its_container_has_an_ending", suicide),
    ("a_container_that_was_killed_is_nobody_s_verdict", killed),
    ("the_files_of_an_image_are_copied_out", copied_out),
    ("a_hidden_folder_is_empty_for_jobs", hidden),
    ("a_job_that_cannot_start_is_an_error", cannot_start),
    ("nothing_is_left", nothing_left),
    ("a_killed_owner_leaves_what_reap_finds", killed_owner),
    ("two_workers_do_twenty_jobs", twenty),
    ("an_engine_that_goes_away_is_no_verdict", engine_gone),
    ("images_in_use_stay", images),
    ("images_are_pulled_from_a_registry_with_moods", crate::registry::pulls),
];

const VICTIM: &str = "PATCHRL_TEST_DOCKER_VICTIM";

/// Be the program that is killed while it has containers.
pub(crate) fn victim() -> Option<ExitCode> {
    let socket = std::env::var_os(VICTIM)?;
    let docker = Engine { socket: socket.into() }.docker();
    let mut busy = docker.warm(&shell("")).unwrap();
    let _idle = docker.fresh(&shell("")).unwrap();
    let _ = busy.run(&shell("sleep 30"));
    Some(ExitCode::SUCCESS)
}

fn run(engine: &Engine, job: &ContainerJob) -> Output {
    engine.docker().run(job).expect("the container runs")
}

fn codes(engine: &Engine) {
    let docker = engine.docker();
    let ending = |script| docker.run(&shell(script)).unwrap().ending;
    assert_eq!(ending("true"), Ending::Exited(0));
    assert_eq!(ending("exit 3"), Ending::Exited(3));
    assert_eq!(ending("kill -SEGV $$"), Ending::Exited(139));
    let output = docker.run(&job(["no-such-program"])).unwrap();
    assert_eq!(output.ending, Ending::Exited(127));
    assert!(text(&output).contains("no-such-program"));
    let script = "echo $X; echo $PATCHRL_OUT; id -u; echo \"$0\"; echo 1 > $PATCHRL_OUT/f";
    let mut job = job(["/bin/sh", "-c", script, "a b'\""]);
    job.collect = vec!["f".into()];
    job.env.insert("X".into(), "x y".into());
    job.user = Some("bee".into());
    let output = docker.run(&job).unwrap();
    assert_eq!(text(&output), "x y\n/patchrl-out\n77\na b'\"");
    assert_eq!(output.collected["f"], b"1\n");
}

fn output(engine: &Engine) {
    let script = "for i in $(seq 300); do echo out $i; echo err $i >&2; done";
    let expected: Vec<String> = (1..=300).map(|i| format!("out {i}\nerr {i}")).collect();
    assert_eq!(text(&run(engine, &shell(script))), expected.join("\n"));
    let mut some = shell("head -c 5000 /dev/zero; exit 4");
    some.limits.output = Bytes(1000);
    let some = run(engine, &some);
    assert_eq!((some.ending, some.output.len()), (Ending::Exited(4), 1000));
    assert!(some.output_truncated);
    let mut much = shell("yes");
    much.limits.output = Bytes(1000);
    let much = run(engine, &much);
    assert_eq!((much.ending, much.output.len()), (Ending::Signaled(9), 1000));
}

fn deadline(engine: &Engine) {
    let word = format!("61{}", std::process::id());
    let mut job = shell(&format!(
        "setsid sleep {word} & (setsid sh -c 'sleep {word}; true' &) ; echo here; sleep {word}"
    ));
    job.limits.wall = Duration::from_secs(2);
    let start = Instant::now();
    let output = run(engine, &job);
    assert_eq!((output.ending, text(&output).as_str()), (Ending::TimedOut, "here"));
    assert_eq!(alive_with(&word), 0);
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    assert!(output.wall >= Duration::from_secs(2));
}

fn child_that_stays(engine: &Engine) {
    let word = format!("62{}", std::process::id());
    let docker = engine.docker();
    for script in [
        "setsid sleep WORD & echo hi; exit 3",
        "(setsid sleep WORD >/dev/null 2>&1 &); echo hi; exit 3",
    ] {
        let output = docker.run(&shell(&script.replace("WORD", &word))).unwrap();
        assert_eq!((output.ending, text(&output).as_str()), (Ending::Exited(3), "hi"));
        assert_eq!(alive_with(&word), 0);
        assert!(output.wall < Duration::from_secs(6), "{:?}", output.wall);
    }
}

fn memory(engine: &Engine) {
    let docker = engine.docker();
    let mut job = shell("x=aaaaaaaa; while :; do x=$x$x; done");
    job.limits.memory = Bytes::mib(48);
    let mut container = docker.fresh(&job).unwrap();
    assert_eq!(container.run(&job).unwrap().ending, Ending::OutOfMemory);
    // The container's word for it must not stick.
    job.argv[2] = "exit 5".into();
    assert_eq!(container.run(&job).unwrap().ending, Ending::Exited(5));
    // Files in memory count.
    job.argv[2] = "dd if=/dev/zero of=/dev/shm/x bs=1M count=60".into();
    assert_eq!(container.run(&job).unwrap().ending, Ending::OutOfMemory);
}

fn processes(engine: &Engine) {
    let mut job = shell("for i in $(seq 40); do sleep 3 & done; echo all");
    job.limits.processes = 20;
    let output = run(engine, &job);
    assert!(text(&output).contains("can't fork"), "{}", text(&output));
    job.limits.processes = 60;
    assert!(text(&run(engine, &job)).contains("all"));
}

fn file_size(engine: &Engine) {
    let mut job = shell("dd if=/dev/zero of=f bs=1M count=4; echo $?");
    job.limits.file_size = Bytes::mib(2);
    assert!(text(&run(engine, &job)).ends_with("153"), "killed by SIGXFSZ");
}

fn network(engine: &Engine) {
    let output = run(engine, &shell("cat /proc/net/dev; nc -w 2 1.1.1.1 80 < /dev/null"));
    assert!(!output.success());
    let text = text(&output);
    let interfaces: Vec<&str> =
        text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    assert_eq!(interfaces[..1], ["lo"], "{text}");
    assert!(text.contains("unreachable"), "{text}");
    assert!(!text.contains("eth"), "{text}");
}

fn rights(engine: &Engine) {
    let output =
        run(engine, &shell("grep -E 'Cap(Eff|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status"));
    // chown 0, dac_override 1, fowner 3, fsetid 4, kill 5, setgid 6, setuid 7.
    let text = text(&output).replace('\t', " ");
    assert_eq!(text.matches("00000000000000fb").count(), 2, "{text}");
    assert!(text.contains("NoNewPrivs: 1") && text.contains("Seccomp: 2"), "{text}");
    let container = engine.docker().fresh(&shell("")).unwrap();
    let seen = engine.json(&format!("/containers/{}/json", container.name()));
    assert_eq!(seen["HostConfig"]["Privileged"], false);
    assert_eq!(seen["HostConfig"]["Binds"], serde_json::Value::Null);
    assert_eq!(seen["HostConfig"]["MemorySwap"], seen["HostConfig"]["Memory"]);
}

fn files(engine: &Engine) {
    let long = format!("deep/{}/x", "d".repeat(120));
    let link = FileWrite { mode: 0o777, bytes: b"a.txt".to_vec(), symlink: true };
    let tool = FileWrite { mode: 0o755, bytes: b"#!/bin/sh\necho tool\n".to_vec(), symlink: false };
    let mut job = shell(
        "ls pkg; cat a.txt new/n link; ./tool; stat -c %a tool a.txt; cat deep/*/x
         mkdir -p $PATCHRL_OUT/r; echo yes > $PATCHRL_OUT/r/report
         ln -s /etc/passwd $PATCHRL_OUT/sym; mkfifo $PATCHRL_OUT/fifo
         dd if=/dev/zero of=$PATCHRL_OUT/big bs=1M count=5 2>/dev/null",
    );
    job.writes = BTreeMap::from([
        ("a.txt".to_owned(), Some(FileWrite::regular("A\n"))),
        ("new/n".to_owned(), Some(FileWrite::regular("N\n"))),
        ("link".to_owned(), Some(link)),
        ("tool".to_owned(), Some(tool)),
        (long, Some(FileWrite::regular("long\n"))),
        ("pkg/b.txt".to_owned(), None),
        ("pkg/never/there".to_owned(), None),
    ]);
    job.collect = ["r/report", "sym", "fifo", "big", "missing", "r"].map(str::to_owned).into();
    let output = run(engine, &job);
    let said = text(&output);
    // The folder that became empty is gone, as git has it.
    assert!(said.contains("pkg: No such file"), "{said}");
    assert!(said.ends_with("A\nN\nA\ntool\n755\n644\nlong"), "{said}");
    assert_eq!(output.collected, BTreeMap::from([("r/report".to_owned(), b"yes\n".to_vec())]));
    // A file may become a folder.
    job.writes = BTreeMap::from([
        ("a.txt".to_owned(), None),
        ("a.txt/inner".to_owned(), Some(FileWrite::regular("i\n"))),
    ]);
    job.argv[2] = "cat a.txt/inner".into();
    assert_eq!(text(&run(engine, &job)), "i");
}

fn session(engine: &Engine) {
    let docker = engine.docker();
    let word = format!("63{}", std::process::id());
    let mut container = docker.fresh(&shell("")).unwrap();
    let first = format!("echo mine > note; (setsid sleep {word} &); echo $PPID");
    assert!(container.run(&shell(&first)).unwrap().success());
    assert_eq!(alive_with(&word), 0);
    let mut second = shell("cat note f; stat -c %Y f");
    second.writes.insert("f".into(), Some(FileWrite::regular("1")));
    let one = text(&container.run(&second).unwrap());
    second.writes.insert("f".into(), Some(FileWrite::regular("2")));
    let two = text(&container.run(&second).unwrap());
    assert!(one.starts_with("mine\n1") && two.starts_with("mine\n2"), "{one} {two}");
    // Python and make look at whole seconds.
    assert_ne!(one[6..], two[6..]);
}

fn reset(engine: &Engine) {
    let docker = engine.docker();
    let look = shell("find /testbed /dev/shm /tmp /data -type f | sort; cat a.txt /data/kept.txt");
    let word = format!("64{}", std::process::id());
    let spoil = format!(
        "echo evil > a.txt; rm -r pkg; echo evil > c.txt; echo evil > /dev/shm/s; echo evil > /tmp/t
         echo evil > /data/kept.txt; echo 'evil' > /bin/cat; chmod 0 /bin; setsid sleep {word} & true"
    );
    let mut container = docker.warm(&look).unwrap();
    let clean = text(&container.run(&look).unwrap());
    assert!(clean.contains("/testbed/pkg/b.txt") && clean.ends_with("of the image"), "{clean}");
    for _ in 0..3 {
        container.reset().unwrap();
        container.run(&shell(&spoil)).unwrap();
        assert_eq!(alive_with(&word), 0);
        let spoilt = container.name().to_owned();
        container.reset().unwrap();
        assert_ne!(container.name(), spoilt);
        // The engine's own word for it: nothing but what we put there.
        let changes = engine.json(&format!("/containers/{}/changes", container.name()));
        let changed = changes.as_array().unwrap().iter().map(|c| c["Path"].as_str().unwrap());
        let ours = |path: &&str| !["/patchrl-out", "/sbin", "/sbin/docker-init"].contains(path);
        assert_eq!(changed.filter(ours).collect::<Vec<_>>(), Vec::<&str>::new());
        assert_eq!(text(&container.run(&look).unwrap()), clean);
    }
}

fn suicide(engine: &Engine) {
    let docker = engine.docker();
    let mut container = docker.warm(&shell("")).unwrap();
    for script in [
        "kill -9 -1; exit 3",
        "kill -TERM 1; kill -KILL 1; exit 3",
        "echo 'exit 7' > /proc/1/fd/0; kill -9 $PPID 7 8 9; exit 3",
    ] {
        let output = container.run(&shell(script)).unwrap();
        assert!(matches!(output.ending, Ending::Exited(1..)), "{script}: {}", output.ending);
        container.reset().unwrap();
    }
    assert!(container.run(&shell("true")).unwrap().success());
}

fn killed(engine: &Engine) {
    let docker = engine.docker();
    let mut container = docker.warm(&shell("")).unwrap();
    let name = container.name().to_owned();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(700));
            engine.ask("POST", &format!("/containers/{name}/kill"), &[]).unwrap();
        });
        container.run(&shell("sleep 5")).unwrap_err()
    });
    assert!(error.is_worth_retrying(), "{error}");
    container.reset().unwrap();
    assert!(container.run(&shell("true")).unwrap().success());
}

fn copied_out(engine: &Engine) {
    let docker = engine.docker();
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    docker.export(&image(), "/testbed", &tree).unwrap();
    assert_eq!(fs_err::read(tree.join("a.txt")).unwrap(), b"a\n");
    assert_eq!(fs_err::read(tree.join("pkg/b.txt")).unwrap(), b"b\n");
    assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    assert!(!docker.image_id(&image()).unwrap().is_empty());
    let nowhere = folder.path().join("none");
    let error = docker.export(&image(), "/nope", &nowhere).unwrap_err();
    assert!(error.to_string().contains("`/nope`"), "{error}");
    assert!(!nowhere.exists());
}

fn cannot_start(engine: &Engine) {
    let docker = engine.docker();
    let bad = |change: fn(&mut ContainerJob)| {
        let mut job = shell("true");
        change(&mut job);
        docker.run(&job).unwrap_err()
    };
    let image = |name| ImageName::parse(name).unwrap();
    assert!(matches!(bad(|job| job.workdir = "/nope".into()), SandboxError::BadJob(_)));
    assert!(matches!(bad(|job| job.user = Some("nobody-here".into())), SandboxError::BadJob(_)));
    let error = bad(|job| {
        job.workdir = "/nope".into();
        job.writes.insert("f".into(), Some(FileWrite::regular("x")));
    });
    assert!(matches!(&error, SandboxError::BadJob(why) if why.contains("/nope")), "{error}");
    for path in ["../x", "/x", "a/../../x"] {
        let mut job = shell("true");
        job.writes.insert(path.into(), None);
        assert!(matches!(docker.run(&job), Err(SandboxError::BadJob(_))), "{path}");
    }
    let mut job = shell("true");
    job.image = image("patchrl-test:no-such");
    assert!(matches!(docker.run(&job), Err(SandboxError::ImageMissing { .. })));
    job.image = image("patchrl-test:bare");
    let error = docker.run(&job).unwrap_err();
    assert!(matches!(error, SandboxError::NoShell { .. }), "{error}");
    let mut settings = engine.settings();
    settings.host = Some("/no/such/engine.sock".into());
    let error = Docker::connect(&settings).unwrap_err();
    assert!(matches!(error, SandboxError::EngineMissing { .. }), "{error}");
    assert!(error.to_string().contains("/no/such/engine.sock") && error.hint().is_some());
}

fn nothing_left(engine: &Engine) {
    let docker = engine.docker();
    let container = docker.warm(&shell("")).unwrap();
    assert_eq!(engine.containers(), [container.name()]);
    assert_ne!(engine.json("/volumes")["Volumes"].as_array().map_or(0, Vec::len), 0);
    drop(container);
    assert_eq!(engine.containers(), Vec::<String>::new());
    assert_eq!(engine.json("/volumes")["Volumes"].as_array().map_or(0, Vec::len), 0);
}

fn killed_owner(engine: &Engine) {
    let docker = engine.docker();
    let mine = docker.fresh(&shell("")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test needs a program to kill")]
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .env(VICTIM, &engine.socket)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Ours, and of the victim one at work, its successor and an idle one.
    wait_for("the victim's containers", || engine.containers().len() == 4);
    victim.kill().unwrap();
    victim.wait().unwrap();
    let mut reaped = Reaped::default();
    docker.reap(&mut reaped).unwrap();
    assert_eq!((reaped.containers.len(), reaped.live), (3, 1), "{reaped:?}");
    assert_eq!(engine.containers(), [mine.name()]);
    let mut again = Reaped::default();
    docker.reap(&mut again).unwrap();
    assert_eq!((again.total(), again.failed.len()), (0, 0));
}

fn twenty(engine: &Engine) {
    let docker = engine.docker();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut container = docker.warm(&shell("")).unwrap();
                loop {
                    let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if n >= 20 {
                        break;
                    }
                    let mut job = shell(&format!("cat f; ls | grep -c mark; touch mark; exit {n}"));
                    job.writes.insert("f".into(), Some(FileWrite::regular(format!("{n}\n"))));
                    let output = container.run(&job).unwrap();
                    assert_eq!(output.ending, Ending::Exited(n as i32));
                    assert!(text(&output).starts_with(&format!("{n}\n0")), "{}", text(&output));
                    container.reset().unwrap();
                }
            });
        }
    });
    println!("  20 jobs over 2 workers: {:.2} s", began.elapsed().as_secs_f64());
    drop(docker);
    assert_eq!(engine.containers(), Vec::<String>::new());
}

/// An engine's socket that can be cut off.
fn engine_gone(engine: &Engine) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("engine.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (cut, real) =
        (std::sync::Arc::new(std::sync::Mutex::new(Vec::new())), engine.socket.clone());
    let streams = std::sync::Arc::clone(&cut);
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), UnixStream::connect(&real).unwrap());
            streams.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
            for (mut from, mut to) in
                [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    let docker = Engine { socket: path.clone() }.docker();
    let mut container = docker.fresh(&shell("")).unwrap();
    let error = std::thread::scope(|scope| {
        let job = scope.spawn(|| container.run(&shell("echo first; sleep 15")).unwrap_err());
        std::thread::sleep(Duration::from_secs(1));
        fs_err::remove_file(&path).unwrap();
        for stream in cut.lock().unwrap().iter() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        job.join().unwrap()
    });
    assert!(matches!(error, SandboxError::EngineGone { .. }), "{error:?}");
    assert!(error.is_worth_retrying());
    assert!(matches!(container.run(&shell("true")), Err(SandboxError::BadJob(_))));
    drop(container);
    // It could not be removed, and its owner is alive: it is left alone.
    let left = engine.containers();
    assert_eq!(left.len(), 1);
    engine.ask("DELETE", &format!("/containers/{}?force=1&v=1", left[0]), &[]).unwrap();
}

fn images(engine: &Engine) {
    let docker = engine.docker();
    let name = |tag: &str| ImageName::parse(&format!("patchrl-test:{tag}")).unwrap();
    engine.ask("POST", "/images/patchrl-test:bare/tag?repo=patchrl-test&tag=other", &[]).unwrap();
    let mut events = 0;
    let both = [image(), name("bare"), name("other")];
    let reports = docker.prepare(&both, &mut |_| events += 1).unwrap();
    assert!(reports.iter().all(|r| r.state == ImageState::Present && r.size > Some(Bytes(0))));
    assert_eq!(events, 3);
    let _container = docker.fresh(&shell("")).unwrap();
    let list = [image(), name("other"), name("never")];
    let states: Vec<ImageState> =
        docker.remove_images(&list).unwrap().iter().map(|r| r.state).collect();
    assert_eq!(states, [ImageState::InUse, ImageState::Removed, ImageState::Missing]);
    let all = docker.all_images().unwrap();
    assert!(all.iter().any(|r| r.image == image()) && all.iter().all(|r| r.image != name("other")));
    assert_eq!(docker.images(&[name("other")]).unwrap()[0].state, ImageState::Missing);
}

fn hidden(engine: &Engine) {
    let docker = engine.docker();
    let mut job = shell("ls -A /testbed/pkg; touch /testbed/pkg/x; ls -A /testbed/pkg | wc -l");
    let seen = run(engine, &job);
    assert_eq!(text(&seen), "b.txt\n2");
    job.hidden = Some("/testbed/pkg".to_owned());
    let mut container = docker.warm(&job).unwrap();
    for _ in 0..2 {
        let seen = text(&container.run(&job).unwrap());
        assert!(seen.ends_with("\n0") && !seen.contains("b.txt"), "{seen}");
        container.reset().unwrap();
    }
    assert!(container.run(&shell("true")).is_err(), "one that sees the folder");
}
