//! Where the status page may be served.

use std::net::SocketAddr;

use anyhow::ensure;

use super::Options;

impl Options {
    /// The address of the page: this machine's own, or any where that was said besides.
    pub(super) fn page(&self) -> anyhow::Result<Option<SocketAddr>> {
        let Some(page) = self.page else { return Ok(None) };
        ensure!(
            page.ip().to_canonical().is_loopback() || self.page_for_others == Some(true),
            "page = \"{page}\": everybody who reaches that address would see totals, and a user its place in the wait \
             queue: 127.0.0.1 is for this machine alone; page_for_others = true lets others see it"
        );
        Ok(Some(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_the_loopback_only_where_that_was_said() {
        let settle = |text: &str| {
            let options = Options::parse(&format!("lan = 'a'\nwan = 'b'\ndown = '1mbit'\n{text}")).unwrap();
            options.settle().map(|settings| settings.page.map(|page| page.to_string()))
        };
        for page in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert_eq!(settle(&format!("page = '{page}'")).unwrap().as_deref(), Some(page));
        }
        for page in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80"] {
            let error = settle(&format!("page = '{page}'")).unwrap_err().to_string();
            assert!(error.contains("page_for_others = true"), "{error}");
            assert!(settle(&format!("page = '{page}'\npage_for_others = false")).is_err());
            assert_eq!(
                settle(&format!("page = '{page}'\npage_for_others = true")).unwrap().as_deref(),
                Some(page)
            );
        }
        assert_eq!(settle("page_for_others = true").unwrap(), None);
    }
}
