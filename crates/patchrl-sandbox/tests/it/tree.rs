//! Files in, files out, and a base that never changes.

use std::collections::BTreeMap;

use patchrl_sandbox::{Ending, FileWrite, SandboxError, Tier};

use crate::{Fixture, Test, text};

pub(crate) const TESTS: &[Test] = &[
    ("writes_are_in_place_and_the_base_is_not_changed", writes),
    ("output_files_come_back", collect),
    ("the_environment_is_clean", environment),
    ("a_read_only_path_is_visible", read_only),
    ("a_missing_program_is_127", missing_program),
    ("bad_jobs_are_refused", bad_jobs),
    ("python_runs_and_talks_to_its_children", python),
    ("many_threads_at_once", threads),
    ("probe_says_the_tier", probe),
];

fn writes(f: &Fixture) {
    let mut job = f.shell(
        "cat pkg/a.py pkg/new/c && readlink pkg/l2 && test ! -e pkg/deep && \
         echo changed > pkg/a.py && rm -rf pkg && mkdir pkg && echo y > pkg/y && ls pkg",
    );
    job.writes = BTreeMap::from([
        ("pkg/a.py".to_owned(), Some(FileWrite::regular("A = 2\n"))),
        ("pkg/new/c".to_owned(), Some(FileWrite { mode: 0o755, ..FileWrite::regular("c\n") })),
        ("pkg/l2".to_owned(), Some(FileWrite { mode: 0, bytes: b"a.py".to_vec(), symlink: true })),
        ("pkg/deep/b.txt".to_owned(), None),
    ]);
    let output = f.run(&job);
    assert_eq!((text(&output).as_str(), output.ending), ("A = 2\nc\na.py\ny", Ending::Exited(0)));
    let base = f.dir.path().join("base/pkg");
    assert_eq!(fs_err::read_to_string(base.join("a.py")).unwrap(), "A = 1\n");
    assert_eq!(fs_err::read_to_string(base.join("deep/b.txt")).unwrap(), "b\n");
    assert_eq!(fs_err::read_dir(&base).unwrap().count(), 3);
    assert_eq!(text(&f.run(&f.shell("cat pkg/a.py"))), "A = 1");
    f.assert_clean();
}

fn collect(f: &Fixture) {
    let mut job = f.shell(
        "cd {out} && echo r > r.json && mkdir d && echo s > d/s && ln -s /etc/passwd link && mkfifo p && \
         head -c 5000000 /dev/zero > big",
    );
    job.collect = ["r.json", "d/s", "link", "p", "big", "none"].map(str::to_owned).to_vec();
    let output = f.run(&job);
    assert_eq!(output.ending, Ending::Exited(0), "{}", text(&output));
    let names: Vec<&str> = output.collected.keys().map(String::as_str).collect();
    assert_eq!(names, ["d/s", "r.json"]);
    assert_eq!(output.collected["r.json"], b"r\n");
}

fn environment(f: &Fixture) {
    let mut job = f.shell("echo $HOME $LANG $X $CARGO_MANIFEST_DIR; pwd");
    job.env.insert("X".into(), "{workspace}/x".into());
    let output = f.run(&job);
    let said = text(&output);
    if f.local.tier() == Tier::Namespaces {
        assert_eq!(said, "/tmp C.UTF-8 /workspace/x\n/workspace");
    } else {
        assert!(said.contains("/tmp C.UTF-8 ") && said.ends_with("/workspace"), "{said}");
        assert!(!said.contains("crates"), "{said}");
    }
}

fn read_only(f: &Fixture) {
    let shown = f.dir.path().join("shown/deep");
    fs_err::create_dir_all(&shown).unwrap();
    fs_err::write(shown.join("file"), "seen\n").unwrap();
    let script = format!("cat {0}/file; echo no > {0}/file; rm {0}/file; ls {0}", shown.display());
    let mut job = f.shell(&script);
    job.read_only.push(shown.clone());
    let said = text(&f.run(&job));
    assert!(said.starts_with("seen"), "{said}");
    if f.local.tier() != Tier::None {
        assert_eq!(fs_err::read_to_string(shown.join("file")).unwrap(), "seen\n");
        let hidden = f.run(&f.shell(&script));
        assert!(!text(&hidden).contains("seen"), "{}", text(&hidden));
    }
}

fn missing_program(f: &Fixture) {
    let output = f.run(&f.job(["no-such-program"]));
    assert_eq!(output.ending, Ending::Exited(127));
    assert!(text(&output).contains("no-such-program"));
}

fn bad_jobs(f: &Fixture) {
    let mut job = f.shell("true");
    job.writes.insert("../x".into(), None);
    assert!(matches!(f.local.run(&job), Err(SandboxError::BadJob(_))));
    let mut job = f.shell("true");
    job.base = "/no/such/tree".into();
    assert!(matches!(f.local.run(&job), Err(SandboxError::BadJob(_))));
    let mut job = f.shell("true");
    job.writes.insert("pkg/a.py/x".into(), Some(FileWrite::regular("x")));
    let error = f.local.run(&job).unwrap_err().to_string();
    assert!(error.contains("pkg/a.py/x"), "{error}");
    f.assert_clean();
}

fn python(f: &Fixture) {
    let code = "import asyncio, os, shutil, subprocess, sys, tempfile, unittest, threading
asyncio.run(asyncio.sleep(0))
assert subprocess.run([sys.executable, '-c', 'print(5)'], capture_output=True).stdout == b'5\\n'
p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); p.terminate(); assert p.wait() == -15
with tempfile.TemporaryDirectory() as d:
    shutil.copytree('pkg', os.path.join(d, 'copy'))
    shutil.copy2('pkg/a.py', os.path.join(d, 'x'))
    os.rename(os.path.join(d, 'x'), os.path.join(d, 'copy', 'x'))
sys.path.insert(0, os.getcwd()); import pkg.a; assert os.path.isdir('pkg/__pycache__')
t = threading.Thread(target=print, args=('fine',)); t.start(); t.join()";
    let Some(job) = f.python(code) else { return };
    let output = f.run(&job);
    assert_eq!((text(&output).as_str(), output.ending), ("fine", Ending::Exited(0)));
}

fn threads(f: &Fixture) {
    std::thread::scope(|scope| {
        for n in 0..6 {
            scope.spawn(move || {
                let output = f.run(&f.shell(&format!("echo {n} > pkg/n; sleep 0.05; cat pkg/n")));
                assert_eq!(text(&output), n.to_string());
            });
        }
    });
    f.assert_clean();
}

fn probe(f: &Fixture) {
    if f.local.tier() == Tier::None {
        return;
    }
    let dir = f.dir.path().join("probe");
    let report = patchrl_sandbox::probe_with_init(&dir, &std::env::current_exe().unwrap());
    let worked = report.features.iter().filter(|feature| feature.have).count();
    assert!(report.tier.is_some() && worked > 0, "{report:#?}");
}
