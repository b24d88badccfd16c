//! Kernels to run: packages of Debian, fetched by this machine's own `apt-get` from the mirror it already uses, and
//! unpacked into a folder of the user's. Nothing is installed.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, bail, ensure};

/// Releases of Debian that carry kernels: oldest first.
const SUITES: [&str; 3] = ["bookworm", "trixie", "trixie-backports"];
/// The flavour for virtual machines: few drivers, so it starts quickly.
#[cfg(target_arch = "x86_64")]
const FLAVOUR: &str = "cloud-amd64";
#[cfg(not(target_arch = "x86_64"))]
const FLAVOUR: &str = "cloud-arm64";

/// The beginning of a kernel's version, as `6.12`: any kernel of that series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release(String);

impl Release {
    /// Whether a kernel that calls itself `version` is of this series.
    #[must_use]
    pub fn covers(&self, version: &str) -> bool {
        let rest = version.strip_prefix(&self.0);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    }
}

impl FromStr for Release {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if text.split('.').count() >= 2 && text.split('.').all(is_number) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("kernel '{text}': expected a version such as 6.1, 6.12 or 7.3"))
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A kernel package, unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    version: String,
    image: PathBuf,
    modules: PathBuf,
}

impl Kernel {
    /// The newest kernel of a series: one that was fetched before, or Debian's of today.
    ///
    /// # Errors
    /// Why there is none, and the remedy.
    pub fn of(release: &Release) -> anyhow::Result<Self> {
        let store = store()?;
        if let Some(found) = newest(release, &store)? {
            return Ok(found);
        }
        fetch(release, &store).with_context(|| {
            format!(
                "kernel {release}: none is unpacked below {}, and none could be fetched; to provide one, unpack a \
                 kernel package there: dpkg-deb -x linux-image-{release}*.deb {0}/{release}",
                store.display()
            )
        })?;
        newest(release, &store)?
            .with_context(|| format!("kernel {release}: fetched, and not found afterwards"))
    }

    /// The newest kernel of this release that was fetched before; `None` if there is none, as nothing is fetched here.
    ///
    /// # Errors
    /// If the folder of kernels cannot be read.
    pub fn at_hand(release: &Release) -> anyhow::Result<Option<Self>> {
        newest(release, &store()?)
    }

    /// A folder in which a kernel package was unpacked.
    ///
    /// # Errors
    /// If it has no kernel in it.
    pub fn unpacked(folder: &Path) -> anyhow::Result<Self> {
        let usr = folder.join("usr");
        // Newer packages have modules below /usr, and with them the image.
        let base = [usr.as_path(), folder].into_iter().find(|base| base.join("lib/modules").is_dir());
        let base = base.with_context(|| format!("{}: no lib/modules in it", folder.display()))?;
        let mut versions = std::fs::read_dir(base.join("lib/modules"))?
            .filter_map(|e| e.ok()?.file_name().into_string().ok());
        let version = versions.next().with_context(|| format!("{}: no kernel in it", folder.display()))?;
        let modules = base.join("lib/modules").join(&version);
        let image = [modules.join("vmlinuz"), folder.join(format!("boot/vmlinuz-{version}"))];
        let image = image
            .into_iter()
            .find(|i| i.is_file())
            .with_context(|| format!("{}: no vmlinuz in it", folder.display()))?;
        if !modules.join("modules.dep").is_file() {
            succeed(Command::new("depmod").arg("-b").arg(base).arg(&version))?;
        }
        Ok(Self { version, image, modules })
    }

    /// Version, as `uname -r` will say.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The file that qemu starts.
    #[must_use]
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The folder of its modules.
    #[must_use]
    pub fn modules(&self) -> &Path {
        &self.modules
    }

    /// The files of those modules of `names`, divided by blanks, that this kernel has, with all that they need.
    ///
    /// # Errors
    /// If the list of modules cannot be read.
    pub(crate) fn module_files(&self, names: &str) -> anyhow::Result<Vec<PathBuf>> {
        let list = self.modules.join("modules.dep");
        let text = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
        let mut files = Vec::new();
        for line in text.lines() {
            let Some((file, needs)) = line.split_once(':') else { continue };
            if names.split_whitespace().any(|name| name == module_name(file)) {
                files.push(self.modules.join(file));
                files.extend(needs.split_whitespace().map(|need| self.modules.join(need)));
            }
        }
        files.sort();
        files.dedup();
        Ok(files)
    }
}

/// `sch_cake` of `kernel/net/sched/sch_cake.ko.xz`.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

/// Where kernels are kept: `$NARROWS_KERNELS`, or `narrows/kernels` in the user's cache.
fn store() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("NARROWS_KERNELS")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("narrows/kernels")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/narrows/kernels")))
        .context("no place for kernels: set NARROWS_KERNELS or HOME")
}

fn newest(release: &Release, store: &Path) -> anyhow::Result<Option<Kernel>> {
    let Ok(entries) = std::fs::read_dir(store) else { return Ok(None) };
    let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let best = names.filter(|name| release.covers(name)).max_by_key(|name| numbers(name));
    best.map(|name| Kernel::unpacked(&store.join(name))).transpose()
}

/// The numbers in a version, by which versions are ordered.
fn numbers(version: &str) -> Vec<u32> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Fetches the newest kernel of a series and unpacks it as `STORE/VERSION`.
fn fetch(release: &Release, store: &Path) -> anyhow::Result<()> {
    let apt = Apt::new(store)?;
    let pattern = format!("^linux-image-{}.*-{FLAVOUR}$", release.0.replace('.', "\\."));
    let names = apt.cache(&["search", "--names-only", &pattern])?;
    let packages = names.lines().filter_map(|line| line.split_whitespace().next());
    let version_of = |name: &str| name.strip_prefix("linux-image-").map(str::to_owned);
    let versions = packages.filter_map(version_of).filter(|version| release.covers(version));
    let version = versions.max_by_key(|version| numbers(version));
    let version = version
        .with_context(|| format!("no package linux-image-{release}*-{FLAVOUR} in {}", SUITES.join(", ")))?;
    // Later packages are divided into several of that version.
    let needs = apt.cache(&["depends", &format!("linux-image-{version}")])?;
    let mut wanted = vec![format!("linux-image-{version}")];
    let parts = needs.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    wanted.extend(parts.filter(|part| part.ends_with(&format!("-{version}"))).map(str::to_owned));
    // Made whole before it gets its name, so that a fetch that was cut short is not taken for a kernel.
    let making = store.join(format!("making-{}", std::process::id()));
    std::fs::create_dir_all(&making).with_context(|| making.display().to_string())?;
    let made = apt.unpack(&wanted, &making).and_then(|()| Kernel::unpacked(&making).map(drop));
    let placed =
        made.and_then(|()| std::fs::rename(&making, store.join(&version)).context("unpacked kernel"));
    let _ = std::fs::remove_dir_all(&making);
    // Two that fetch at once make the same; whoever is second finds it in place.
    if store.join(&version).is_dir() { Ok(()) } else { placed }
}

/// `apt-get` with lists of its own, so that the machine's are not touched and need not have these suites.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn new(store: &Path) -> anyhow::Result<Self> {
        let home = store.join("apt");
        for folder in ["lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(home.join(folder)).with_context(|| home.display().to_string())?;
        }
        let sources = home.join("sources.list");
        let text = sources_list(&mirror()?, Path::new(KEYS).is_file().then_some(KEYS));
        std::fs::write(&sources, text).with_context(|| sources.display().to_string())?;
        let set = |key: &str, value: &Path| format!("-o{key}={}", value.display());
        let apt = Self {
            options: vec![
                set("Dir::Etc::sourcelist", &sources),
                set("Dir::Etc::sourceparts", Path::new("/dev/null")),
                set("Dir::State::lists", &home.join("lists")),
                set("Dir::Cache", &home.join("cache")),
                "-oAcquire::Retries=2".to_owned(),
                "-oAcquire::Languages=none".to_owned(),
                // Lists and packages lie where another user need not be able to write.
                "-oAPT::Sandbox::User=root".to_owned(),
            ],
        };
        succeed(Command::new("apt-get").args(&apt.options).args(["-q", "update"]))?;
        Ok(apt)
    }

    fn cache(&self, arguments: &[&str]) -> anyhow::Result<String> {
        succeed(Command::new("apt-cache").args(&self.options).args(arguments))
    }

    /// Downloads packages and unpacks them into `folder`.
    fn unpack(&self, packages: &[String], folder: &Path) -> anyhow::Result<()> {
        let archives = folder.join("archives");
        std::fs::create_dir_all(&archives)?;
        succeed(
            Command::new("apt-get")
                .args(&self.options)
                .args(["-q", "download"])
                .args(packages)
                .current_dir(&archives),
        )?;
        for entry in std::fs::read_dir(&archives)? {
            succeed(Command::new("dpkg-deb").arg("-x").arg(entry?.path()).arg(folder))?;
        }
        std::fs::remove_dir_all(&archives).context("downloaded packages")
    }
}

/// The keys of Debian's archive, where its own package puts them.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Where this machine gets Debian's packages.
fn mirror() -> anyhow::Result<String> {
    let format = "$(RELEASE) $(COMPONENT) $(REPO_URI)";
    let said =
        succeed(Command::new("apt-get").args(["indextargets", "--format", format, "Created-By: Packages"]))?;
    parse_mirror(&said)
        .context("the apt of this machine has no Debian mirror: kernels are fetched where it has")
}

fn parse_mirror(targets: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (suite, component, address) = (words.next()?, words.next()?, words.next()?);
        let is_debian = ["bookworm", "trixie", "forky", "sid"].contains(&suite) && component == "main";
        is_debian.then(|| address.to_owned())
    })
}

fn sources_list(mirror: &str, keys: Option<&str>) -> String {
    let signed = keys.map(|file| format!("[signed-by={file}] ")).unwrap_or_default();
    SUITES.iter().fold(String::new(), |mut text, suite| {
        let _ = writeln!(text, "deb {signed}{mirror} {suite} main");
        text
    })
}

/// Runs a program and returns its output; a failure becomes an error with what the program wrote.
fn succeed(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| format!("{program} cannot be started; is it installed?"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("{program} failed ({}): {}", done.status, said.lines().last().unwrap_or_default());
    }
    ensure!(!program.is_empty(), "no program");
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_the_beginning_of_a_version() {
        let six: Release = "6.1".parse().unwrap();
        assert!(six.covers("6.1.0-50-cloud-amd64") && six.covers("6.1"));
        assert!(!six.covers("6.12.117+deb13-cloud-amd64") && !six.covers("5.6.1"));
        for wrong in ["", "6", "six", "6.x", "../6.1", "6..1", "6.1.0-50"] {
            let why = wrong.parse::<Release>().unwrap_err();
            assert!(why.contains("such as 6.1"), "{why}");
        }
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert!(numbers("6.12.117+deb13") > numbers("6.12.9+deb13"));
        assert!(numbers("6.1.0-50") > numbers("6.1.0-47"));
    }

    #[test]
    fn the_mirror_is_the_one_this_machine_uses() {
        let said = "bookworm-security main http://mirror.example/security/\n\
                    bookworm main http://mirror.example/debian/\n";
        let mirror = parse_mirror(said).unwrap();
        assert_eq!(mirror, "http://mirror.example/debian/");
        let list = sources_list(&mirror, Some("/k.gpg"));
        assert!(list.starts_with("deb [signed-by=/k.gpg] http://mirror.example/debian/ bookworm main\n"));
        assert_eq!(list.lines().count(), SUITES.len());
        assert!(sources_list(&mirror, None).starts_with("deb http://mirror.example/debian/ bookworm"));
        assert!(parse_mirror("noble main http://mirror.example/ubuntu/\n").is_none());
    }

    #[test]
    fn modules_are_named_as_the_kernel_names_them() {
        assert_eq!(module_name("kernel/net/sched/sch_cake.ko.xz"), "sch_cake");
        assert_eq!(module_name("kernel/lib/libcrc32c.ko"), "libcrc32c");
        assert_eq!(module_name("kernel/net/ipv4/netfilter/nf-log.ko"), "nf_log");
    }
}
