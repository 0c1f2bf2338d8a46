//! What a package puts beside the binary: completion scripts and manual pages, made from the command
//! line's own description so that they cannot disagree with it.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use tidegate_api::{Error, Result};

use crate::args::Cli;
use crate::console::print_out;

/// Prints the completion script of a shell.
pub fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tidegate", &mut text);
    print_out(&String::from_utf8_lossy(&text))
}

/// Prints the manual page, or writes one for each command into `folder`, which is made if it is missing.
pub fn manual(folder: Option<&Path>) -> Result<()> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(Cli::command()).render(&mut page);
        rendered.map_err(|e| Error::internal(format!("the manual page cannot be made: {e}")))?;
        return print_out(&String::from_utf8_lossy(&page));
    };
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|e| Error::invalid(format!("Cannot write manual pages into '{}': {e}.", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_every_command() {
        let folder = tempfile::tempdir().unwrap();
        manual(Some(&folder.path().join("man1"))).unwrap();
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let page = folder.path().join(format!("man1/tidegate-{}.1", command.get_name()));
            let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
            assert!(text.contains(command.get_name()), "{}", page.display());
        }
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let told = manual(Some(file.path())).unwrap_err().to_string();
        assert!(told.contains("Cannot write manual pages into"), "{told}");
    }
}
