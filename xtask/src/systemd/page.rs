//! A page of the how-to as scripts: what it tells people to write and to run, literally.

/// A script for `sh` for each section, and for each section within it under both names.
pub fn scripts(page: &str) -> Vec<(String, String)> {
    let mut scripts: Vec<(String, String)> = Vec::new();
    let named = |title: &str| title.to_lowercase().replace(' ', "-");
    let mut section = String::new();
    let (mut file, mut fence) = (None, None);
    for line in page.lines() {
        match (&fence, line.strip_prefix("```")) {
            (None, Some(kind)) => {
                let Some((_, script)) = scripts.last_mut() else { continue };
                // Two blocks of that name would be an error of the page: the last wins, as with people.
                if let Some(path) = file.take() {
                    *script += &format!("mkdir -p \"$(dirname {path})\"\ncat > {path} <<'END OF FILE'\n");
                    fence = Some("END OF FILE\n");
                } else if kind == "sh" {
                    fence = Some("");
                } else {
                    // For reading.
                    *script += ": <<'END OF TEXT'\n";
                    fence = Some("END OF TEXT\n");
                }
            }
            (Some(end), Some(_)) => {
                scripts.last_mut().into_iter().for_each(|(_, script)| *script += end);
                fence = None;
            }
            (Some(_), None) => {
                scripts.last_mut().into_iter().for_each(|(_, script)| *script += &format!("{line}\n"));
            }
            (None, None) => {
                if let Some(title) = line.strip_prefix("## ") {
                    section = named(title);
                    scripts.push((section.clone(), String::new()));
                } else if let Some(title) = line.strip_prefix("### ") {
                    scripts.push((format!("{section}.{}", named(title)), String::new()));
                }
                // "`/etc/x`:" alone on its line names the file that comes next.
                let name = line.strip_prefix("`/").and_then(|rest| rest.strip_suffix("`:"));
                file = name.map(|name| format!("/{name}")).or(file.filter(|_| line.is_empty()));
            }
        }
    }
    scripts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_files_and_commands() {
        let page = "# Title\n\n## The way\n\nText `/etc/b` is no name.\n\n`/etc/a`:\n\n```ini\nx = 1\n```\n\n\
                    ```sh\nrun it\n```\n\n\
                    ```text\nseen\n```\n\n## More\n\n### By hand\n";
        let made = scripts(page);
        let names: Vec<_> = made.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["the-way", "more", "more.by-hand"]);
        assert_eq!(
            made[0].1,
            "mkdir -p \"$(dirname /etc/a)\"\ncat > /etc/a <<'END OF FILE'\nx = 1\nEND OF FILE\nrun it\n\
             : <<'END OF TEXT'\nseen\nEND OF TEXT\n"
        );
    }
}
