use super::*;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    AtomicFile::write_whole(path, |file| file.write_all(text.as_bytes()))
}

#[test]
fn a_file_appears_at_commit_and_not_before() {
    let folder = folder();
    let path = folder.path().join("x.csv");
    let mut file = AtomicFile::create(&path).expect("writable");
    file.write_all(b"a,b\n").expect("room");
    file.flush().expect("room");
    assert!(!path.exists());
    let names_before = names(folder.path());
    assert_eq!(names_before.len(), 1);
    assert!(names_before[0].starts_with(".x.csv.") && names_before[0].ends_with(".attn-tmp"), "{names_before:?}");
    file.commit().expect("room");
    assert_eq!(fs::read_to_string(&path).expect("there"), "a,b\n");
    assert_eq!(names(folder.path()), ["x.csv"]);
}

#[test]
fn dropped_without_commit_the_older_file_is_untouched_and_nothing_is_left() {
    let folder = folder();
    let path = folder.path().join("x.csv");
    fs::write(&path, "old").expect("room");
    let mut file = AtomicFile::create(&path).expect("writable");
    file.write_all(&vec![b'x'; 100_003]).expect("room");
    drop(file);
    assert_eq!(fs::read_to_string(&path).expect("there"), "old");
    assert_eq!(names(folder.path()), ["x.csv"]);
}

#[test]
fn a_render_that_fails_leaves_the_older_file() {
    let folder = folder();
    let path = folder.path().join("x.csv");
    fs::write(&path, "old").expect("room");
    let error = AtomicFile::write_whole(&path, |file| file.write_all(b"half").and(Err(io::Error::other("failed"))))
        .expect_err("fails");
    assert_eq!(error.to_string(), "failed");
    assert_eq!(fs::read_to_string(&path).expect("there"), "old");
    assert_eq!(names(folder.path()), ["x.csv"]);
}

#[test]
fn a_folder_is_refused_in_one_line() {
    let folder = folder();
    let error = AtomicFile::create(folder.path()).expect_err("a folder");
    assert_eq!(error.to_string(), format!("cannot write '{}': it is a folder", folder.path().display()));
}

#[test]
fn a_missing_folder_is_named() {
    let folder = folder();
    let path = folder.path().join("no/x.csv");
    let error = AtomicFile::create(&path).expect_err("no such folder");
    let expected = format!(
        "cannot write '{}': the folder '{}' does not exist",
        path.display(),
        folder.path().join("no").display()
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_file_in_the_place_of_a_folder_a_name_that_is_none_and_an_empty_path_are_refused() {
    let folder = folder();
    fs::write(folder.path().join("x"), "old").expect("room");
    for path in [folder.path().join("x/y.csv"), folder.path().join("new/"), PathBuf::new()] {
        let error = AtomicFile::create(&path).expect_err("not writable").to_string();
        assert!(error.starts_with(&format!("cannot write '{}': ", path.display())), "{error}");
        assert!(!error.contains("os error") && !error.contains('\n'), "{error}");
    }
    assert_eq!(names(folder.path()), ["x"]);
}

#[test]
fn a_long_name_and_a_name_of_wide_characters_fit() {
    let folder = folder();
    for name in ["é".repeat(120), "x".repeat(255)] {
        put(&folder.path().join(&name), "new").expect("255 bytes are allowed");
    }
    assert_eq!(names(folder.path()).len(), 2);
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o7777
    }

    #[test]
    fn a_new_file_has_the_permissions_of_any_new_file() {
        let folder = folder();
        let (ours, plain) = (folder.path().join("x.csv"), folder.path().join("plain"));
        put(&ours, "new").expect("writable");
        File::create(&plain).expect("writable");
        assert_eq!(mode(&ours), mode(&plain));
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let folder = folder();
        let path = folder.path().join("x.csv");
        fs::write(&path, "old").expect("room");
        // 0626 is what no umask in use leaves of 0666.
        for wanted in [0o600, 0o664, 0o626] {
            fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).expect("own file");
            put(&path, "new").expect("writable");
            assert_eq!(mode(&path), wanted);
        }
        assert_eq!(fs::read_to_string(&path).expect("there"), "new");
    }

    #[test]
    fn a_read_only_file_is_refused_and_untouched() {
        let folder = folder();
        let path = folder.path().join("x.csv");
        fs::write(&path, "old").expect("room");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("own file");
        let error = put(&path, "new").expect_err("read-only");
        assert_eq!(error.to_string(), format!("cannot write '{}': the file there is read-only", path.display()));
        assert_eq!(fs::read_to_string(&path).expect("there"), "old");
        assert_eq!(names(folder.path()), ["x.csv"]);
    }

    #[test]
    fn a_folder_that_takes_no_file_is_named_without_the_temporarys_name() {
        // Even the superuser can make no file in /proc.
        if !Path::new("/proc/self").exists() {
            return;
        }
        let error = AtomicFile::create("/proc/x.csv").expect_err("no file can be made there").to_string();
        assert!(
            error.starts_with("cannot write '/proc/x.csv': no file can be made in the folder '/proc': "),
            "{error}"
        );
        assert!(!error.contains("attn-tmp") && !error.contains("os error"), "{error}");
    }

    #[test]
    fn a_symbolic_link_is_written_through_also_relative_chained_and_dangling() {
        let folder = folder();
        let (inner, other) = (folder.path().join("inner"), folder.path().join("other"));
        fs::create_dir(&inner).expect("room");
        fs::create_dir(&other).expect("room");
        symlink("../other/second", inner.join("first")).expect("room");
        symlink("real.csv", other.join("second")).expect("room");
        for text in ["dangling at first", "replaced then"] {
            put(&inner.join("first"), text).expect("writable");
            assert_eq!(fs::read_to_string(other.join("real.csv")).expect("there"), text);
            assert!(fs::symlink_metadata(inner.join("first")).expect("there").is_symlink());
            assert!(fs::symlink_metadata(other.join("second")).expect("there").is_symlink());
        }
        assert_eq!((names(&inner).len(), names(&other).len()), (1, 2));
    }

    #[test]
    fn links_in_a_circle_are_refused() {
        let folder = folder();
        symlink("b", folder.path().join("a")).expect("room");
        symlink("a", folder.path().join("b")).expect("room");
        let error = put(&folder.path().join("a"), "new").expect_err("a circle");
        assert!(error.to_string().ends_with("its symbolic links lead in a circle"), "{error}");
    }

    #[test]
    fn the_null_device_is_written_and_not_replaced() {
        put(Path::new("/dev/null"), "gone").expect("takes everything");
        assert!(!fs::metadata("/dev/null").expect("there").is_file());
    }

    #[test]
    fn a_full_device_is_an_error_that_names_the_path() {
        if !Path::new("/dev/full").exists() {
            return;
        }
        let error = put(Path::new("/dev/full"), "new").expect_err("full");
        assert_eq!(error.to_string(), "cannot write '/dev/full': No space left on device");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_fifo_is_written_directly_and_stays_a_fifo() {
        let folder = folder();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("POSIX has it");
        assert!(made.success());
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path).expect("readable")
        });
        put(&path, "through").expect("writable");
        assert_eq!(reader.join().expect("no panic"), "through");
        assert!(!fs::metadata(&path).expect("there").is_file());
        assert_eq!(names(folder.path()), ["pipe"]);
    }
}
