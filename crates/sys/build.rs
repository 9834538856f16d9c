//! Builds the C loop over liburing if the library's headers are installed; otherwise builds everything else.
//!
//! The library is measured as the distribution ships it; this program does not depend on it. So pkg-config looks for
//! it, it is linked statically where an archive exists, and it is never required.

use std::path::{Path, PathBuf};

/// Set to build as if liburing were not installed.
const WITHOUT: &str = "BYTEGAUGE_WITHOUT_LIBURING";

fn main() {
    println!("cargo:rustc-check-cfg=cfg(liburing)");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=c/nops.c");
    println!("cargo:rerun-if-env-changed={WITHOUT}");
    watch_for_its_arrival();
    if std::env::var_os(WITHOUT).is_some() {
        return;
    }
    // `io_uring_register_ring_fd` was added in 2.2.
    let found = pkg_config::Config::new().atleast_version("2.2").cargo_metadata(false).probe("liburing");
    let Ok(library) = found else { return };
    let mut build = cc::Build::new();
    build.file("c/nops.c").includes(&library.include_paths).opt_level(3).warnings(true).extra_warnings(true);
    if build.try_compile("bytegauge_nops").is_err() {
        println!("cargo:warning=liburing is installed but the loop over it does not compile: built without it");
        return;
    }
    match archive() {
        Some(folder) => {
            println!("cargo:rustc-link-search=native={}", folder.display());
            println!("cargo:rustc-link-lib=static=uring");
        }
        None => {
            for folder in &library.link_paths {
                println!("cargo:rustc-link-search=native={}", folder.display());
            }
            println!("cargo:rustc-link-lib=uring");
        }
    }
    println!("cargo:rustc-env=BYTEGAUGE_LIBURING_VERSION={}", library.version);
    println!("cargo:rustc-cfg=liburing");
}

/// The folder of the static library.
fn archive() -> Option<PathBuf> {
    let folder = PathBuf::from(pkg_config::get_variable("liburing", "libdir").ok()?);
    folder.join("liburing.a").exists().then_some(folder)
}

/// A package that is installed later triggers a rebuild: it changes one of the folders that pkg-config searches.
fn watch_for_its_arrival() {
    let path = pkg_config::get_variable("pkg-config", "pc_path").unwrap_or_default();
    for folder in path.split(':').filter(|folder| !folder.is_empty() && Path::new(folder).exists()) {
        println!("cargo:rerun-if-changed={folder}");
    }
}
