//! Every way in which git finds a repository beside `.git`.

use std::fs;
use std::os::unix::fs::symlink;

use aegis_policies::Label;

use super::*;

/// A folder with a project in it, with a repository called `name`.
fn place(name: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for folder in ["hooks", "objects", "refs", "info"] {
        fs::create_dir_all(place.path().join("project").join(name).join(folder)).unwrap();
    }
    fs::write(place.path().join("project").join(name).join("HEAD"), "x").unwrap();
    place
}

fn found(place: &tempfile::TempDir) -> Whereabouts {
    let project = Project::at(&place.path().join("project")).unwrap();
    Whereabouts::of(&project).unwrap()
}

fn is_locked(found: &Whereabouts, name: &str) -> bool {
    let labels = found
        .labeler()
        .unwrap()
        .labels(&parse(name.as_bytes()).unwrap());
    labels.has(Label::VcsLocked)
}

#[test]
fn an_ordinary_repository_has_no_detours() {
    let place = place(".git");
    let found = found(&place);
    assert_eq!(found.presence, Repository::Present);
    assert!(found.detours.is_empty() && found.outside().is_none());
}

#[test]
fn no_repository_is_absent() {
    let place = place("folder");
    let found = found(&place);
    assert_eq!(found.presence, Repository::Absent);
    assert!(found.detours.is_empty());
}

#[test]
fn links_and_files_are_followed_however_they_are_written() {
    let place = place("a/real");
    let project = place.path().join("project");
    symlink(".", project.join("around")).unwrap();
    symlink("a/../a/real", project.join("link")).unwrap();
    symlink(&project, place.path().join("alias")).unwrap();
    let absolute = project.display();
    let alias = place.path().join("alias");
    let texts = [
        "a/real".to_owned(),
        "./a//real/".to_owned(),
        "around/around/a/real".to_owned(),
        "../project/a/real".to_owned(),
        "link".to_owned(),
        format!("{absolute}/a/real"),
        format!("{}/a/real", alias.display()),
    ];
    for text in &texts {
        for form in [
            format!("gitdir: {text}"),
            format!("gitdir: {text}\r\n\n"),
            format!("gitdir: {text}\0x"),
        ] {
            fs::write(project.join(".git"), &form).unwrap();
            check(&place, &form);
        }
        fs::remove_file(project.join(".git")).unwrap();
        symlink(text, project.join(".git")).unwrap();
        check(&place, text);
        fs::remove_file(project.join(".git")).unwrap();
    }
    fs::write(project.join("pointer"), "gitdir: a/real\n").unwrap();
    symlink("pointer", project.join(".git")).unwrap();
    check(&place, "a link to a file");
    assert!(is_locked(&found(&place), "pointer"));
}

fn check(place: &tempfile::TempDir, how: &str) {
    let found = found(place);
    for name in [
        "a/real/config",
        "a/real/hooks/pre-commit",
        "A/real/commondir",
    ] {
        assert!(is_locked(&found, name), "{name} by {how}");
    }
    assert!(!is_locked(&found, "a/real/index"), "{how}");
    assert_eq!(found.outside(), None, "{how}");
}

#[test]
fn links_on_the_way_are_locked() {
    let place = place("real");
    let project = place.path().join("project");
    symlink("real", project.join("second")).unwrap();
    symlink("second", project.join("first")).unwrap();
    fs::write(project.join(".git"), "gitdir: first").unwrap();
    let found = found(&place);
    for name in ["first", "second", "real", "real/config"] {
        assert!(is_locked(&found, name), "{name}");
    }
}

#[test]
fn what_does_not_exist_yet_is_locked() {
    let place = place("folder");
    fs::write(place.path().join("project/.git"), "gitdir: to/come").unwrap();
    let found = found(&place);
    assert!(is_locked(&found, "to/come/config") && is_locked(&found, "to/come"));
}

#[test]
fn parts_of_the_repository_that_lie_elsewhere_are_locked() {
    let place = place(".git");
    let project = place.path().join("project");
    fs::create_dir_all(project.join("shared/hooks")).unwrap();
    fs::write(project.join(".git/commondir"), "../shared\n").unwrap();
    fs::remove_dir(project.join(".git/info")).unwrap();
    symlink("../notes", project.join(".git/info")).unwrap();
    symlink("../settings", project.join("shared/config")).unwrap();
    let found = found(&place);
    for name in [
        "shared/config",
        "shared/hooks/x",
        "notes/attributes",
        "settings",
        ".git/config",
    ] {
        assert!(is_locked(&found, name), "{name}");
    }
    assert!(!is_locked(&found, "notes/other"));
}

#[test]
fn a_project_that_is_a_repository_itself_is_locked() {
    let place = tempfile::tempdir().unwrap();
    for folder in ["project/objects", "project/refs"] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
    }
    fs::write(place.path().join("project/HEAD"), "x").unwrap();
    let found = found(&place);
    assert!(is_locked(&found, "config") && is_locked(&found, "hooks/x"));
    assert!(!is_locked(&found, "folder/config"));
}

#[test]
fn a_repository_outside_is_told() {
    let place = place("folder");
    let project = place.path().join("project");
    let outside = place.path().join("elsewhere");
    fs::create_dir(&outside).unwrap();
    for text in [
        "gitdir: ../elsewhere",
        "gitdir: ../nowhere",
        "gitdir: /nowhere",
    ] {
        fs::write(project.join(".git"), text).unwrap();
        assert!(found(&place).outside().is_some(), "{text}");
        assert!(found(&place).detours.is_empty(), "{text}");
    }
    fs::remove_file(project.join(".git")).unwrap();
    symlink(&outside, project.join(".git")).unwrap();
    assert_eq!(found(&place).outside(), Some(outside.as_path()));
}

#[test]
fn loops_and_endless_files_are_no_answer() {
    let place = place("folder");
    let dot_git = place.path().join("project/.git");
    let project = Project::at(&place.path().join("project")).unwrap();
    symlink(".git", &dot_git).unwrap();
    assert!(Whereabouts::of(&project).is_err());
    fs::remove_file(&dot_git).unwrap();
    fs::File::create(&dot_git)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    assert!(Whereabouts::of(&project).is_err());
    for text in ["", "gitdir: ", "gitdir: \n", "no repository"] {
        fs::remove_file(&dot_git).unwrap();
        fs::write(&dot_git, text).unwrap();
        assert!(Whereabouts::of(&project).unwrap().detours.is_empty());
    }
}
