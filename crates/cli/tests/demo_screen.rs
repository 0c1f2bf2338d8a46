//! `tidegate demo` on a real terminal: the live view, at several sizes, without colours, and its ends.

#![cfg(unix)]

use tidegate_testing::process::binary;
use tidegate_testing::tmux::Tmux;

/// A terminal in which the demo runs; `None` if there is no tmux.
fn demo(width: u16, height: u16, before: &str, arguments: &str) -> Option<(Tmux, tempfile::TempDir)> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tmux = Tmux::start(width, height, folder.path())?;
    let tidegate = binary(env!("CARGO_BIN_EXE_tidegate"));
    tmux.line(&format!("clear; {before} {} demo --seed 3 {arguments}; echo \"ended with $?\"", tidegate.display()));
    Some((tmux, folder))
}

#[test]
fn windows_close_before_the_users_eyes_and_q_ends_it() {
    let Some((tmux, _folder)) = demo(100, 30, "", "--rate 200") else { return };
    tmux.wait("How long should a window wait");
    let screen = tmux.wait("complete");
    for part in ["delay 0 s", "delay 5 s", "watermark now", "partition", "clicks-0", "q quit", "REST http://"] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    assert!(tmux.coloured_screen().contains("\u{1b}["), "colours on a terminal");
    tmux.press(&["q"]);
    let end = tmux.wait("ended with 0");
    assert!(end.contains("sent = counted + lost + open"), "{end}");
}

#[test]
fn it_fits_what_the_terminal_becomes() {
    let Some((tmux, _folder)) = demo(120, 35, "", "") else { return };
    tmux.wait("watermark now");
    for (width, height) in [(60, 20), (40, 15), (100, 30)] {
        tmux.resize(width, height);
        tmux.wait_until("a view of the new size", |screen| {
            screen.lines().all(|line| line.chars().count() <= usize::from(width))
                && screen.contains("tidegate demo")
                && screen.contains("quit")
        });
    }
    tmux.press(&["q"]);
    tmux.wait("ended with 0");
}

#[test]
fn ctrl_c_ends_it_cleanly_and_no_color_is_obeyed() {
    let Some((tmux, _folder)) = demo(100, 30, "NO_COLOR=1", "") else { return };
    tmux.wait("watermark now");
    let coloured = tmux.coloured_screen();
    for code in 30..=37 {
        assert!(!coloured.contains(&format!("\u{1b}[{code}m")), "{coloured}");
    }
    tmux.press(&["C-c"]);
    tmux.wait("ended with 130");
    // The terminal echoes what is typed again.
    tmux.line("echo still $((40 + 2))");
    tmux.wait("still 42");
}
