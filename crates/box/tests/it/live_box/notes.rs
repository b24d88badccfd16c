//! The folder in which boxes note what they change belongs to the user they become. Who is that user plants something
//! there; root cleans up and starts boxes, and does nothing of it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::path::PathBuf;
use std::process::Command;

use crate::live_box::world::{Kind, USER, World, inside};

/// The folder, made as a box makes it.
fn folder(world: &World) -> (PathBuf, u32) {
    let user = nix::unistd::User::from_name(USER).unwrap().unwrap().uid.as_raw();
    fs::create_dir_all(world.state()).unwrap();
    chown(world.state(), Some(user), None).unwrap();
    let name = || format!("net{}-lan-wan.json", fs::metadata("/proc/thread-self/ns/net").unwrap().ino());
    (world.state().join(inside(&world.ns("b"), name).join().unwrap()), user)
}

#[test]
fn root_undoes_nothing_that_no_box_has_done() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let (note, user) = folder(&world);
    let (created, victim) = (world.dir.join("created"), world.dir.join("victim"));
    fs::write(&victim, "kept").unwrap();
    let text = format!(
        r#"{{"pid":99,"lan":"lan","wan":"wan","control":"{}",
            "sysctls":[{{"path":"{}","before":"written by root","needed":""}}]}}"#,
        victim.display(),
        created.display()
    );
    fs::write(&note, text).unwrap();
    chown(&note, Some(user), None).unwrap();
    let clean = || {
        let out = world.narrows(&format!("doctor --clean --state-dir {}", world.state().display()));
        let out = { out }.output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, said) = clean();
    assert!(code == Some(1) && said.contains("was not written by a box"), "{code:?} {said}");
    assert!(!created.exists() && victim.exists() && note.exists());
    // A chain and an interface that are no box's.
    for (text, left) in [
        (r#"{"pid":99,"chain":"FILTER"}"#, "add table inet filter"),
        (r#"{"pid":99,"bridge":"keep0"}"#, "add table inet narrows"),
    ] {
        world.exec("b", &format!("nft {left}"));
        let _ = Command::new("ip")
            .args(["-n", &world.ns("b"), "link", "add", "keep0", "type", "bridge"])
            .output();
        fs::write(&note, text).unwrap();
        assert_eq!(clean().0, Some(1), "{text}");
        world.ip("b", "link show keep0");
        assert!(world.exec("b", "nft list tables").contains(left.trim_start_matches("add ")), "{text}");
    }
    // A box starts beside it, where it does not need that file itself.
    fs::rename(&note, note.with_file_name(note.file_name().unwrap().to_str().unwrap().replace("lan", "x")))
        .unwrap();
    let running = world.start("--down 4mbit --discipline fifo:20");
    assert!(running.log().contains("was not written by a box"), "{}", running.log());
    running.stop();
}

#[test]
fn root_follows_no_link_from_the_folder_of_boxes() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let (note, user) = folder(&world);
    let victim = world.dir.join("victim");
    fs::write(&victim, "kept").unwrap();
    for planted in [note.clone(), note.with_extension("flows")] {
        for target in [victim.clone(), world.dir.join("created")] {
            symlink(&target, &planted).unwrap();
            nix::unistd::fchownat(
                nix::fcntl::AT_FDCWD,
                &planted,
                Some(user.into()),
                None,
                nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW,
            )
            .unwrap();
            let said = world.refused("--replace --down 4mbit --discipline fifo:20");
            assert!(said.contains("state file"), "{said}");
            fs::remove_file(&planted).unwrap();
        }
    }
    assert_eq!(
        (fs::read_to_string(&victim).unwrap().as_str(), fs::metadata(&victim).unwrap().uid()),
        ("kept", 0)
    );
    assert!(!world.dir.join("created").exists());
    world.start("--replace --down 4mbit --discipline fifo:20").stop();
}

#[test]
fn root_stops_no_process_that_is_not_the_boxs_users() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let (note, user) = folder(&world);
    let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
    fs::write(&note, format!(r#"{{"pid":{},"lan":"lan","wan":"wan"}}"#, victim.id())).unwrap();
    chown(&note, Some(user), None).unwrap();
    // As a box holds it that lives.
    let held = fs::File::open(&note).unwrap();
    let held = nix::fcntl::Flock::lock(held, nix::fcntl::FlockArg::LockExclusive).unwrap();
    let said = world.refused("--replace --down 4mbit --discipline fifo:20");
    assert!(said.contains("is not of the user whose notes"), "{said}");
    assert!(victim.try_wait().unwrap().is_none(), "it was stopped");
    victim.kill().unwrap();
    victim.wait().unwrap();
    drop(held);
}
